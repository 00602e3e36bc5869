"""A growing column: values arrive in any portions and reach HDF5 in whole chunks."""

from __future__ import annotations

import h5py
import numpy as np


class GrowingColumn:
    """Buffers one chunk and extends its dataset by whole chunks; `finish` writes the one residual.

    Memory is one chunk. After every extension the dataset is flushed, so that a SWMR reader sees values
    and never a gap.
    """

    def __init__(self, dataset: h5py.Dataset) -> None:
        self._dataset = dataset
        self._buffer = np.empty(dataset.chunks[0], dtype=dataset.dtype)
        self._buffered = 0
        self._written = 0

    def __len__(self) -> int:
        return self._written + self._buffered

    def append(self, values: np.ndarray) -> None:
        """Add `values` behind what came before."""
        chunk = len(self._buffer)
        missing = chunk - self._buffered
        if len(values) < missing:
            self._keep(values)
            return
        whole = missing + (len(values) - missing) // chunk * chunk
        head = missing if self._buffered else 0
        if head:
            self._keep(values[:head])
        start = self._grow((self._buffered if head else 0) + whole - head)
        if head:
            self._dataset[start : start + chunk] = self._buffer
            start += chunk
        if whole > head:
            self._dataset[start : start + whole - head] = values[head:whole]
        self._dataset.flush()
        self._buffered = 0
        self._keep(values[whole:])

    def finish(self) -> None:
        """Write what is left, less than a chunk; the dataset then has its exact length."""
        if self._buffered:
            start = self._grow(self._buffered)
            self._dataset[start:] = self._buffer[: self._buffered]
            self._dataset.flush()
            self._buffered = 0

    def _keep(self, values: np.ndarray) -> None:
        self._buffer[self._buffered : self._buffered + len(values)] = values
        self._buffered += len(values)

    def _grow(self, count: int) -> int:
        start = self._written
        self._written += count
        self._dataset.resize((self._written,))
        return start
