"""Which window each sample of an endless run is: a function of (seed, epoch, step, rank), nothing stored.

Samples are numbered n = 0, 1, 2, … over all ranks. A step takes the next global batch of them, rank after rank.
Sample n belongs to epoch n div N and is the window that the epoch's order puts at n mod N, with N windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from corpus_assets.errors import CorpusTooShortError
from corpus_assets.loading.permutation import MAX_LENGTH, hash64, permute, stream_key
from corpus_assets.loading.windows import cell_widths, first_sample, num_windows

Order = Literal["random", "sequential", "cyclic"]
Tail = Literal["wrap", "drop", "pad"]

_START_IN_CELL = 1  # permutations have purpose 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleOrder:
    """The windows of a corpus, put in order anew each epoch.

    Attributes:
        token_count: tokens in the corpus.
        window_size: inputs per window; a window spans one token more.
        stride: distance of window starts; for `random` the size of the cells that starts are drawn from.
        order: `sequential`: by position. `cyclic`: a permutation keyed by (seed, epoch). `random`: a permutation
            of cells of `stride` positions with a start drawn uniformly inside each, so that any position can start
            a window and no start comes twice in an epoch.
        seed: 0 to 2^64 - 1.
        epoch: number of the first epoch.
        tail: what follows an epoch's last whole global batch. `wrap`: the batch is filled from the next epoch.
            `drop`: the rest of the epoch is left out. `pad`: the batch is filled from the epoch's beginning.
        global_batch: samples per step over all ranks.

    Raises:
        CorpusTooShortError: not one window, or not one batch with `drop`.
        ValueError: a number or name that does not fit.
    """

    token_count: int
    window_size: int
    stride: int
    order: Order
    seed: int
    epoch: int = 0
    tail: Tail = "wrap"
    global_batch: int = 1

    def __post_init__(self) -> None:
        for name, names in (("order", get_args(Order)), ("tail", get_args(Tail))):
            if getattr(self, name) not in names:
                raise ValueError(f"{name} is {getattr(self, name)!r}, expected one of {', '.join(names)}")
        if not 0 <= self.seed < 2**64:
            raise ValueError(f"seed is {self.seed}, expected 0 to 2^64 - 1")
        if not 0 <= self.epoch < MAX_LENGTH:
            raise ValueError(f"epoch is {self.epoch}, expected 0 to 2^62")
        if self.window_count == 0:
            raise CorpusTooShortError(
                f"the corpus has {self.token_count} tokens, a window of {self.window_size} and its last target "
                f"need {self.window_size + 1}"
            )
        if self.tail == "drop" and self.window_count < self.global_batch:
            raise CorpusTooShortError(
                f"an epoch has {self.window_count} windows, tail='drop' needs a global batch of "
                f"{self.global_batch}"
            )

    @property
    def window_count(self) -> int:
        """Windows per epoch."""
        return num_windows(self.token_count, window_size=self.window_size, stride=self.stride)

    @property
    def steps_per_epoch(self) -> int:
        """Steps in which an epoch's windows have all been seen; with `drop` its whole batches."""
        whole, rest = divmod(self.window_count, self.global_batch)
        return whole + (rest > 0 and self.tail != "drop")

    def starts(self, steps: Sequence[int], *, rank: int, batch_size: int) -> np.ndarray:
        """(len(steps), batch_size) int64: where the windows of `rank` start at each step.

        O(size of the result) in time and memory, at any corpus size and step.
        """
        epochs, indices = self._samples(steps, rank=rank, batch_size=batch_size)
        return self._window_starts(epochs, indices)

    def _samples(self, steps: Sequence[int], *, rank: int, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
        """Epoch, and place within the epoch, of every sample."""
        world_size = self.global_batch // batch_size
        places = []
        for step in steps:
            if self.tail == "wrap":
                sample = first_sample(step, batch_size=batch_size, rank=rank, world_size=world_size)
                places.append(divmod(sample, self.window_count))
            else:
                epoch, step_in_epoch = divmod(step, self.steps_per_epoch)
                sample = first_sample(step_in_epoch, batch_size=batch_size, rank=rank, world_size=world_size)
                places.append((epoch, sample))
        first = np.array(places, np.int64).reshape(-1, 2)
        offsets = first[:, 1:] + np.arange(batch_size)
        epochs = np.broadcast_to(first[:, :1] + self.epoch, offsets.shape)
        if self.tail == "wrap":
            epochs = epochs + offsets // self.window_count
        return epochs, offsets % self.window_count

    def _window_starts(self, epochs: np.ndarray, indices: np.ndarray) -> np.ndarray:
        if self.order == "sequential":
            return indices * self.stride
        # One key serves all where the epoch is one, the usual case.
        keyed = epochs.ravel()[:1] if epochs.size and (epochs == epochs.flat[0]).all() else epochs.ravel()
        cells = permute(indices, self.window_count, seed=self.seed, epochs=keyed)
        if self.order == "cyclic":
            return cells * self.stride
        widths = cell_widths(cells, self.token_count, window_size=self.window_size, stride=self.stride)
        keys = stream_key(self.seed, keyed, purpose=_START_IN_CELL)
        drawn = hash64(keys if len(keys) == 1 else keys.reshape(cells.shape), cells)
        return cells * self.stride + (drawn % widths.astype(np.uint64)).astype(np.int64)
