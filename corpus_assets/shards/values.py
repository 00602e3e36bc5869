"""The values of a dataset that only HDF5 can decode, read in a process that can be killed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from corpus_assets.shards.hdf5_process import ask_hdf5


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
