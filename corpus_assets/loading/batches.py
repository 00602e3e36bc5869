"""BatchBuilder: the batch of any step, from window starts to (input_ids, target_ids) and what stands beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from corpus_assets.loading.beside import Beside, padded
from corpus_assets.loading.order import WindowOrder
from corpus_assets.loading.recycling import RecycledMemory
from corpus_assets.loading.store import MmapTokenStore

Batch = tuple[np.ndarray, np.ndarray]

_PLANNED_SAMPLES = 8192
_BLOCK_BYTES = 256 * 1024
_SPARE_BATCHES = 2
PADDED_TARGET = -100  # what losses ignore by default


class WindowBatch(NamedTuple):
    """A batch with what stands beside its tokens.

    Attributes:
        input_ids, target_ids: (batch_size, window_size).
        fields: columns by name, most of them (batch_size, window_size); see `Beside`.
    """

    input_ids: np.ndarray
    target_ids: np.ndarray
    fields: dict[str, Any]


class BatchBuilder:
    """Builds the batches of one rank; used by one thread at a time.

    Args:
        store: where the tokens are.
        order: which windows a step takes.
        rank: whose share of a global batch is built.
        batch_size: windows per batch.
        dtype: integer type of a batch.
        ignore_index: what a target that is the boundary is replaced by; None keeps it.
        beside: what else a batch carries.
    """

    def __init__(
        self,
        store: MmapTokenStore,
        order: WindowOrder,
        *,
        rank: int,
        batch_size: int,
        dtype: np.dtype,
        ignore_index: int | None,
        beside: Beside,
    ) -> None:
        self._store = store
        self._order = order
        self._rank = rank
        self._batch_size = batch_size
        self._memory = RecycledMemory((2, batch_size, order.framing.window_size), dtype, spare=_SPARE_BATCHES)
        self._ignore_index = ignore_index
        self.beside = beside

    def batches(
        self, first_step: int, step_stride: int, *, buffers: list[Batch] | None, first_buffer: int
    ) -> Iterator[Batch | WindowBatch]:
        """The batches of every stride-th step, in new arrays or in `buffers` in turn."""
        for number, (starts, lengths) in enumerate(self.plans(first_step, step_stride), first_buffer):
            batch = self.new() if buffers is None else buffers[number % len(buffers)]
            yield self.fill(batch, starts, lengths)
            del batch  # whose memory may serve the next one

    def plans(self, first: int, stride: int) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """(batch_size,) window starts, and their lengths where some are shorter, of every stride-th step.

        Many steps are planned at once: one call of the permutation costs as much for one batch as for many.
        """
        steps_at_once = self._order.epochs.steps_to_plan(_PLANNED_SAMPLES, batch_size=self._batch_size)
        while True:
            steps = [first + i * stride for i in range(steps_at_once)]
            starts, lengths = self._order.locate(steps, rank=self._rank, batch_size=self._batch_size)
            if lengths is None:
                yield from ((row, None) for row in starts)
            else:
                yield from zip(starts, lengths, strict=True)
            first += steps_at_once * stride

    def new(self) -> Batch:
        """Uninitialised arrays for one batch."""
        both = self._memory.new()
        return both[0], both[1]

    def fill(self, batch: Batch, starts: np.ndarray, lengths: np.ndarray | None) -> Batch | WindowBatch:
        """Write inputs, and targets shifted by one, of the windows at `starts`; with what stands beside them."""
        if lengths is None:
            self._fill_whole(batch, starts)
        else:
            self._fill_padded(batch, starts, lengths)
        if not self.beside:
            return batch
        fields = self.beside.read(self._store, starts, lengths, self._order.framing.window_size)
        return WindowBatch(*batch, fields)

    def _fill_whole(self, batch: Batch, starts: np.ndarray) -> None:
        inputs, targets = batch
        length = self._order.framing.window_size + 1
        rows = self._store.rows_at_once(length, _BLOCK_BYTES)
        for first in range(0, len(starts), rows):
            block = slice(first, first + rows)
            windows = self._store.rows(starts[block], length)
            inputs[block] = windows[:, :-1]
            targets[block] = windows[:, 1:]
            if self._ignore_index is not None:
                boundaries = windows[:, 1:] == self._store.boundary_id
                np.copyto(targets[block], self._ignore_index, where=boundaries)

    def _fill_padded(self, batch: Batch, starts: np.ndarray, lengths: np.ndarray) -> None:
        inputs, targets = batch
        boundary, size = self._store.boundary_id, self._order.framing.window_size
        windows = padded(
            self._store.gather, starts, lengths, size + 1, fill=boundary, token_count=len(self._store)
        )
        # A window's last token is a target and no input: its place among the inputs is padding.
        padding = np.arange(size) >= lengths[:, None] - 1
        inputs[:] = windows[:, :-1]
        inputs[padding] = boundary
        targets[:] = windows[:, 1:]
        if self._ignore_index is not None:
            targets[windows[:, 1:] == boundary] = self._ignore_index
        targets[padding] = PADDED_TARGET if self._ignore_index is None else self._ignore_index
