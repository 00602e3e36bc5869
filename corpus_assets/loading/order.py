"""WindowOrder: which windows each step of an endless run takes, from sample numbers to positions in the corpus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from corpus_assets.loading.epochs import CorpusTooShortError, EpochOrder, Tail, single_epoch
from corpus_assets.loading.framing import Framing, WindowGrid
from corpus_assets.loading.permutation import hash64, stream_key

Order = Literal["random", "sequential", "cyclic"]

_START_IN_CELL = 1  # permutations have purpose 0


class WindowOrder:
    """The windows of a corpus, put in order anew each epoch.

    Args:
        framing: the windows.
        order: `sequential`: by position. `cyclic`: a permutation keyed by (seed, epoch). `random`: a permutation
            of cells of `stride` positions with a start drawn uniformly inside each, so that any position can start
            a window and no start comes twice in an epoch; the same as `cyclic` for windows that cannot move.
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
        if order not in get_args(Order):
            raise ValueError(f"order is {order!r}, expected one of {', '.join(get_args(Order))}")
        if framing.count == 0:
            raise CorpusTooShortError(_too_short(framing))
        self.framing = framing
        self.order: Order = order
        self.epochs = EpochOrder(
            framing.count,
            scheme="sequential" if order == "sequential" else "permuted",
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
        if self.order == "random":
            keys = stream_key(self._seed, single_epoch(epochs), purpose=_START_IN_CELL)
            drawn = hash64(keys if len(keys) == 1 else keys.reshape(windows.shape), windows)
        return self.framing.locate(windows, drawn)


def _too_short(framing: Framing) -> str:
    if isinstance(framing, WindowGrid):
        return (
            f"the corpus has {framing.token_count} tokens, a window of {framing.window_size} and its last target "
            f"need {framing.window_size + 1}"
        )
    return "no document of the corpus has a token and a target for it"
