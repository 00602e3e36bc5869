"""The values of a dataset, from where the file holds them, or decoded by HDF5 in a process that can be killed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from corpus_assets.errors import ShardError
from corpus_assets.shards.hdf5_process import ask_hdf5
from corpus_assets.shards.regular import open_regular


class RunValues:
    """The first `length` values of a dataset that lies in one run of the file; each slice of them is read when taken.

    Read and not mapped: to copy a page costs less than to map it, and a file that is cut short is an error here,
    where a mapping of it ends the process.

    Args:
        path: a shard file.
        dtype: of the values, little-endian.
        offset: of the first one, in bytes.
        length: how many of them there are.
    """

    def __init__(self, path: str | os.PathLike[str], dtype: np.dtype, offset: int, length: int) -> None:
        self.dtype = dtype
        self._path = path
        self._offset = offset
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, place: slice) -> np.ndarray:
        """The values from start to stop. Raises ShardError where the file ends before them."""
        start, stop, _ = place.indices(self._length)
        return next(self._read(start, stop, max(1, stop - start)), np.empty(0, self.dtype))

    def blocks(self, step: int) -> Iterator[np.ndarray]:
        """All values, `step` by `step`; each block is the caller's own until the next one is taken.

        Raises:
            ShardError: the file ends before them.
        """
        return self._read(0, self._length, step)

    def _read(self, start: int, stop: int, step: int) -> Iterator[np.ndarray]:
        buffer = np.empty(max(0, min(step, stop - start)), self.dtype)
        with open_regular(self._path) as file:
            file.seek(self._offset + start * self.dtype.itemsize)
            for first in range(start, stop, step):
                block = buffer[: stop - first]
                if (found := file.readinto(block.data)) != block.nbytes:
                    missing = block.nbytes - found
                    raise ShardError(f"{self._path}: ends at byte {file.tell()}, expected {missing} more")
                yield block


class StoredValues:
    """The first `length` values of the dataset `name`; each slice of them is asked for when it is taken.

    Args:
        path: a shard file.
        name: of a dataset of the file.
        dtype: of the values, little-endian.
        length: how many of them there are at least.
    """

    def __init__(self, path: str | os.PathLike[str], name: str, dtype: np.dtype, length: int) -> None:
        self.dtype = dtype
        self._path = path
        self._name = name
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, place: int | slice) -> Any:
        """One value, or an array of those from start to stop. Raises ShardError as `read`."""
        if isinstance(place, slice):
            start, stop, _ = place.indices(self._length)
            return self.read([(start, stop)])[0]
        return self.read([(place, place + 1)])[0][0]

    def blocks(self, step: int) -> Iterator[np.ndarray]:
        """All values, `step` by `step`; each block is the caller's own. Raises ShardError as `read`."""
        return (self[start : start + step].copy() for start in range(0, self._length, step))

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[np.ndarray]:
        """The values [start, stop) of each of `ranges`, all in one question; read-only.

        Raises:
            ShardError: there is no such dataset of these values, or they cannot be decoded.
        """
        counts = [max(0, stop - start) for start, stop in ranges]
        if not sum(counts):
            return [np.empty(0, self.dtype) for _ in ranges]
        _, raw = ask_hdf5(
            self._path,
            "values",
            raw_bytes=sum(counts) * self.dtype.itemsize,
            name=self._name,
            dtype=self.dtype.str,
            ranges=[list(limits) for limits in ranges],
        )
        values = np.frombuffer(raw, self.dtype)
        return np.split(values, np.cumsum(counts)[:-1])


def look(*, path: str, name: str, dtype: str, ranges: list[list[int]]) -> tuple[dict[str, Any], bytes]:
    """The answer of the process that asks HDF5."""
    from corpus_assets.shards import layout
    from corpus_assets.shards.datasets import own_datasets

    with layout.open_file(Path(path)) as file:
        dataset = own_datasets(file)[name]
        if dataset.dtype.str != dtype or max(stop for _, stop in ranges) > len(dataset):
            raise ValueError(
                f"{name} are {len(dataset)} values of {dataset.dtype.str}, expected more, of {dtype}"
            )
        return {}, b"".join(layout.read(dataset, start, stop).tobytes() for start, stop in ranges)
