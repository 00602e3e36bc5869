"""Pictures for the UI: PNG inside markdown, which Dagster shows behind "Show Markdown"."""

import base64
import io
import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INCHES = (7.0, 3.2)
_DPI = 90
_COLOUR = "#2f6f8f"
_PALE = "#9fc3d4"


def length_plot(edges: Sequence[float], counts: Sequence[int]) -> dg.MetadataValue:
    """Histogram of document lengths in tokens, on a logarithmic scale."""
    if not counts:
        return dg.MetadataValue.md("no documents")
    figure, axes = _figure()
    axes.bar(
        edges[:-1],
        counts,
        width=[high - low for low, high in itertools.pairwise(edges)],
        align="edge",
        color=_COLOUR,
    )
    axes.set_xscale("log")
    axes.set_xlabel("tokens in a document, its boundary included")
    axes.set_ylabel("documents")
    return _inline(figure, "document lengths")


def throughput_plot(rates: Mapping[str, float], *, pale: Collection[str] = ()) -> dg.MetadataValue:
    """Windows per second of each reader, as bars with their numbers; those of `pale` in a lighter colour."""
    figure, axes = _figure(height=max(_INCHES[1], 0.32 * len(rates) + 0.8))
    names = list(rates)[::-1]
    colours = [_PALE if name in pale else _COLOUR for name in names]
    bars = axes.barh(names, [rates[name] for name in names], color=colours)
    axes.bar_label(bars, fmt="{:,.0f}", padding=3, fontsize="small")
    axes.set_xscale("log")
    axes.margins(x=0.15)
    axes.set_xlabel("windows per second")
    return _inline(figure, "loader throughput")


def loss_plot(reported: Mapping[str, Any] | None) -> dict[str, dg.MetadataValue]:
    """The losses that a trainer reported over its steps, with the entropy to beat; {} without losses."""
    values = {name: getattr(value, "value", value) for name, value in (reported or {}).items()}
    losses, entropy = values.get("losses"), values.get("unigram_entropy")
    if not isinstance(losses, list) or not losses:
        return {}
    figure, axes = _figure()
    axes.plot(range(1, len(losses) + 1), losses, color=_COLOUR, label="loss")
    if isinstance(entropy, float):
        axes.axhline(entropy, color="#b5542c", linestyle="--", label="unigram entropy")
    axes.set_xlabel("step")
    axes.set_ylabel("nats per token")
    axes.legend()
    return {"loss_curve": _inline(figure, "loss by step")}


def _figure(*, height: float = _INCHES[1]) -> "tuple[Figure, Axes]":
    # A figure of its own, not pyplot's: no global state and no display, in whatever thread.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_INCHES[0], height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _inline(figure: "Figure", title: str) -> dg.MetadataValue:
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=_DPI)
    encoded = base64.b64encode(picture.getvalue()).decode("ascii")
    return dg.MetadataValue.md(f"![{title}](data:image/png;base64,{encoded})")
