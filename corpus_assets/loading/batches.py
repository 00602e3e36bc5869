"""BatchBuilder: the batch of any step, from window starts to (input_ids, target_ids)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from corpus_assets.loading.order import SampleOrder
from corpus_assets.loading.recycling import RecycledMemory
from corpus_assets.loading.store import MmapTokenStore

Batch = tuple[np.ndarray, np.ndarray]

_PLANNED_SAMPLES = 8192
_BLOCK_BYTES = 256 * 1024
_SPARE_BATCHES = 2


class BatchBuilder:
    """Builds the batches of one rank; used by one thread at a time.

    Args:
        store: where the tokens are.
        order: which windows a step takes.
        rank: whose share of a global batch is built.
        batch_size: windows per batch.
        dtype: integer type of a batch.
        ignore_index: what a target that is the boundary is replaced by; None keeps it.
    """

    def __init__(
        self,
        store: MmapTokenStore,
        order: SampleOrder,
        *,
        rank: int,
        batch_size: int,
        dtype: np.dtype,
        ignore_index: int | None,
    ) -> None:
        self._store = store
        self._order = order
        self._rank = rank
        self._batch_size = batch_size
        self._memory = RecycledMemory((2, batch_size, order.window_size), dtype, spare=_SPARE_BATCHES)
        self._ignore_index = ignore_index

    def starts(self, first: int, stride: int) -> Iterator[np.ndarray]:
        """(batch_size,) window starts of the steps first, first + stride and so on.

        Many steps are planned at once: one call of the permutation costs as much for one batch as for many.
        """
        steps_at_once = max(1, _PLANNED_SAMPLES // self._batch_size)
        while True:
            steps = [first + i * stride for i in range(steps_at_once)]
            yield from self._order.starts(steps, rank=self._rank, batch_size=self._batch_size)
            first += steps_at_once * stride

    def new(self) -> Batch:
        """Uninitialised arrays for one batch."""
        both = self._memory.new()
        return both[0], both[1]

    def fill(self, batch: Batch, starts: np.ndarray) -> None:
        """Write inputs, and targets shifted by one, of the windows at `starts`."""
        inputs, targets = batch
        length = self._order.window_size + 1
        rows = max(1, _BLOCK_BYTES // (length * self._store.dtype.itemsize))
        for first in range(0, len(starts), rows):
            block = slice(first, first + rows)
            windows = self._store.gather(starts[block], length)
            inputs[block] = windows[:, :-1]
            targets[block] = windows[:, 1:]
            if self._ignore_index is not None:
                boundaries = windows[:, 1:] == self._store.boundary_id
                np.copyto(targets[block], self._ignore_index, where=boundaries)
