"""WindowOrder: which windows each step of an endless run takes, from sample numbers to positions in the corpus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from corpus_assets.loading.epochs import CorpusTooShortError, EpochOrder, Scheme, Tail, single_epoch
from corpus_assets.loading.framing import Framing, WindowGrid
from corpus_assets.loading.permutation import hash64, stream_key

Order = Literal["random", "sequential", "cyclic", "replacement"]

_SCHEMES: dict[str, Scheme] = {
    "random": "permuted",
    "sequential": "sequential",
    "cyclic": "permuted",
    "replacement": "drawn",
}
_START_IN_CELL = 1  # permutations have purpose 0


def scheme_of(order: Order) -> Scheme:
    """How the items of an epoch follow each other in `order`.

    Raises:
        ValueError: no order of that name.
    """
    if order not in _SCHEMES:
        raise ValueError(f"order is {order!r}, expected one of {', '.join(get_args(Order))}")
    return _SCHEMES[order]


def moves(order: Order) -> bool:
    """Whether windows of a grid begin anywhere in their stretch."""
    return order in ("random", "replacement")


class WindowOrder:
    """The windows of a corpus, put in order anew each epoch.

    Args:
        framing: the windows.
        order: `sequential`: by position. `cyclic`: a permutation keyed by (seed, epoch). `random`: a permutation
            of cells of `stride` positions with a start drawn uniformly inside each, so that any position can start
            a window and no start comes twice in an epoch; the same as `cyclic` for windows that cannot move.
            `replacement`: each sample is drawn for itself, a cell and a start in it; a window may come again at
            any time. An epoch is as many samples as there are windows.
        seed, epoch, tail, global_batch: see `EpochOrder`.
        skipped: (S,) int64 numbers of windows that are left out, sorted.

    Raises:
        CorpusTooShortError: not one window, or not one batch with `drop`.
        ValueError: a number or name that does not fit.
    """

    def __init__(
        self,
        framing: Framing,
        *,
        order: Order,
        seed: int,
        epoch: int = 0,
        tail: Tail = "wrap",
        global_batch: int = 1,
        skipped: np.ndarray | None = None,
    ) -> None:
        scheme = scheme_of(order)
        if framing.count == 0:
            raise CorpusTooShortError(_too_short(framing))
        self.framing = framing
        self.order: Order = order
        self.epochs = EpochOrder(
            framing.count,
            scheme=scheme,
            seed=seed,
            epoch=epoch,
            tail=tail,
            global_batch=global_batch,
            skipped=skipped,
            what="windows",
        )
        self._seed = seed

    @property
    def window_count(self) -> int:
        """Windows per epoch, skipped ones not counted."""
        return self.epochs.kept_count

    @property
    def steps_per_epoch(self) -> int:
        """Steps in which an epoch's windows have all been seen; with `drop` its whole batches."""
        return self.epochs.steps_per_epoch

    def locate(
        self, steps: Sequence[int], *, rank: int, batch_size: int
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """(len(steps), batch_size) int64: first token of the windows of `rank`, and tokens in each.

        The second is None where all windows are whole. O(size of the result) in time and memory, at any corpus
        size and step.
        """
        return self.windows_at(*self.epochs.places(steps, rank=rank, batch_size=batch_size))

    def starts(self, steps: Sequence[int], *, rank: int, batch_size: int) -> np.ndarray:
        """(len(steps), batch_size) int64: where the windows of `rank` start at each step."""
        return self.locate(steps, rank=rank, batch_size=batch_size)[0]

    def windows_at(self, epochs: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Starts and lengths, as `locate`, of the windows at any places of any epochs."""
        windows = self.epochs.items(epochs, places)
        drawn = None
        if moves(self.order):
            keys = stream_key(self._seed, single_epoch(epochs), purpose=_START_IN_CELL)
            # A cell that is drawn twice begins elsewhere the second time.
            counters = places if self.order == "replacement" else windows
            drawn = hash64(keys if len(keys) == 1 else keys.reshape(windows.shape), counters)
        return self.framing.locate(windows, drawn)


def _too_short(framing: Framing) -> str:
    if isinstance(framing, WindowGrid):
        return (
            f"the corpus has {framing.token_count} tokens, a window of {framing.window_size} and its last target "
            f"need {framing.window_size + 1}"
        )
    return "no document of the corpus has a token and a target for it"
