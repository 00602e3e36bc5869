"""Whether what a run has consumed is the same in another corpus: the proof before a foreign state is accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from corpus_assets.errors import StateMismatchError
from corpus_assets.loading.epochs import EpochOrder
from corpus_assets.loading.framing import WindowGrid
from corpus_assets.loading.order import WindowOrder
from corpus_assets.loading.provenance import CorpusRecord, all_inside, differing_shards, shared_ranges
from corpus_assets.loading.state import LoaderState

_STEPS_AT_ONCE = 1024


def refuse_unproven_windows(
    found: CorpusRecord, own: CorpusRecord, state: LoaderState, order: WindowOrder
) -> None:
    """Raise StateMismatchError unless the windows of all steps before `state.step` are proven to be the same.

    Proven is: nothing was consumed; or a sequential run in its first epoch, where the last window consumed ends
    inside the shards that both corpora begin with; or windows on a grid without a skip list, where every step
    has its windows at the same positions in both, and inside shards that stand at the same place in both. The
    last costs the time of planning all these steps again.

    Args:
        found: the corpus that the state belongs to.
        own: the corpus of this loader.
        state: how far the run got.
        order: the windows of this loader, in order.
    """
    ranges = shared_ranges(found, own, of="token_count")
    if state.step == 0 or _is_shared_prefix(ranges, state, order) or _is_shared(found, ranges, state, order):
        return
    raise StateMismatchError(
        f"the state belongs to corpus {found.fingerprint}, this loader reads corpus {own.fingerprint}, and the "
        f"windows of its {state.step} steps are not proven to be the same: {differing_shards(found, own)}"
    )


def _is_shared_prefix(ranges: np.ndarray, state: LoaderState, order: WindowOrder) -> bool:
    samples = state.step * order.epochs.global_batch
    if order.order != "sequential" or state.cursor.get("origin", 0) or samples > order.window_count:
        return False
    if order.epochs.tail == "drop" and state.step > order.steps_per_epoch:
        return False
    # It grows with the number of the window: where the last one is shared, so are all before it.
    last = np.array([samples - 1])
    starts, lengths = order.windows_at(np.zeros_like(last) + order.epochs.epoch, last)
    sizes = order.framing.window_size + 1 if lengths is None else lengths
    return bool(len(ranges)) and ranges[0, 0] == 0 and int((starts + sizes)[0]) <= ranges[0, 1]


def _is_shared(found: CorpusRecord, ranges: np.ndarray, state: LoaderState, order: WindowOrder) -> bool:
    framing = order.framing
    if not isinstance(framing, WindowGrid) or state.skip or state.cursor.get("origin", 0) or framing.padded:
        return False
    if order.epochs.item_count != order.window_count:
        return False
    grid = WindowGrid(
        sum(mark.token_count for mark in found.marks), window_size=framing.window_size, stride=framing.stride
    )
    options = state.options
    if state.options["partial"] != "drop" or grid.count < 1:
        return False
    names = ("order", "seed", "epoch", "tail", "global_batch")
    was = WindowOrder(grid, **{name: options[name] for name in names})
    batch = order.epochs.global_batch
    for first in range(0, state.step, _STEPS_AT_ONCE):
        steps = range(first, min(state.step, first + _STEPS_AT_ONCE))
        starts = order.starts(steps, rank=0, batch_size=batch).ravel()
        if not np.array_equal(starts, was.starts(steps, rank=0, batch_size=batch).ravel()):
            return False
        if not all_inside(ranges, starts, starts + framing.window_size + 1):
            return False
    return True


def refuse_unproven_items(
    found: CorpusRecord,
    own: CorpusRecord,
    state: LoaderState,
    order: EpochOrder,
    *,
    samples: int,
    other_count: int,
    unit: str,
    stretches: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
) -> None:
    """Raise StateMismatchError unless the first `samples` of an endless run are proven to be the same items.

    Proven is: nothing was consumed; or a sequential run in its first epoch, all inside the shards that both
    corpora begin with; or a run without a skip list over as many items in both, every one of them inside shards
    that stand at the same place in both.

    Args:
        found: the corpus that the state belongs to.
        own: the corpus of this loader.
        state: how far the run got.
        order: the items of this loader, in order.
        samples: how many were consumed.
        other_count: items in the other corpus.
        unit: what the stretches count, `token_count` or `document_count`.
        stretches: gives where items lie, starts and stops.
    """
    ranges = shared_ranges(found, own, of=unit)
    if samples == 0:
        return
    if order.scheme == "sequential" and samples <= order.kept_count and len(ranges) and ranges[0, 0] == 0:
        last = order.items(np.array([order.epoch]), np.array([samples - 1]))
        if int(stretches(last)[1][0]) <= ranges[0, 1]:
            return
    untouched = not state.skip and not state.cursor.get("origin", 0)
    as_many = order.kept_count == order.item_count == other_count
    if (
        untouched
        and as_many
        and all(
            all_inside(ranges, *stretches(order.items(*order.places_of(np.arange(first, last)))))
            for first, last in _in_steps(min(samples, _most_places(order)))
        )
    ):
        return
    raise StateMismatchError(
        f"the state belongs to corpus {found.fingerprint}, this loader reads corpus {own.fingerprint}, and its "
        f"{samples} samples are not proven to be the same: {differing_shards(found, own)}"
    )


def _most_places(order: EpochOrder) -> int:
    """How many samples of a run show all it can show: one epoch, unless samples are drawn anew."""
    return 2**63 - 1 if order.scheme == "drawn" else order.kept_count


def _in_steps(count: int) -> Iterator[tuple[int, int]]:
    step = 64 * _STEPS_AT_ONCE
    return ((first, min(count, first + step)) for first in range(0, count, step))
