"""Chunks in the one codec that HDF5 does not know: shuffled, then zstd with the dictionary of their dataset."""

from __future__ import annotations

import h5py
import numpy as np

from corpus_assets.shards.dictionary import (
    ATTRIBUTE,
    FILTER,
    MAX_BYTES,
    compressor,
    decompressor,
    loaded_dictionary,
    unzstd,
)

_SKIPPED_SHUFFLE, _SKIPPED_ZSTD = 1, 2


def has_dictionary_codec(dataset: h5py.Dataset) -> bool:
    """Whether the chunks of `dataset` are such frames."""
    return filters_of(dataset) == (h5py.h5z.FILTER_SHUFFLE, FILTER)


def filters_of(dataset: h5py.Dataset) -> tuple[int, ...]:
    """HDF5 numbers of the filters of `dataset`, in the order in which they are applied when writing."""
    properties = dataset.id.get_create_plist()
    return tuple(properties.get_filter(number)[0] for number in range(properties.get_nfilters()))


def dictionary_of(dataset: h5py.Dataset) -> bytes:
    """The dictionary of a dataset; empty where it has none.

    Raises:
        ValueError: it is something else than a row of bytes, or too long.
    """
    if ATTRIBUTE not in dataset.attrs:
        return b""
    found = dataset.attrs.get_id(ATTRIBUTE)
    if found.dtype != np.uint8 or len(found.shape) != 1 or found.shape[0] > MAX_BYTES:
        raise ValueError(
            f"{ATTRIBUTE} is {found.shape} of {found.dtype}, expected at most {MAX_BYTES} of uint8"
        )
    values: np.ndarray = dataset.attrs[ATTRIBUTE]
    return values.tobytes()


def write_chunks(dataset: h5py.Dataset, start: int, block: np.ndarray) -> None:
    """Write `block` at `start`, the first element of a chunk; the last chunk is filled with zeros."""
    chunk = dataset.chunks[0]
    frames = compressor(dictionary_of(dataset))
    for first in range(0, len(block), chunk):
        values = np.zeros(chunk, dataset.dtype)
        values[: len(block) - first] = block[first : first + chunk]
        dataset.id.write_direct_chunk((start + first,), frames.compress(shuffled(values)))


def read_values(dataset: h5py.Dataset, start: int, stop: int) -> np.ndarray:
    """The values [start, stop), all inside the dataset, as a fresh array.

    Raises:
        ValueError: a chunk or the dictionary is damaged.
    """
    chunk, dtype = dataset.chunks[0], dataset.dtype
    frames = decompressor(loaded_dictionary(dictionary_of(dataset)))
    values = np.empty(stop - start, dtype)
    for first in range(start - start % chunk, stop, chunk):
        skipped, data = dataset.id.read_direct_chunk((first,))
        if not skipped & _SKIPPED_ZSTD:
            data = unzstd(frames, data, chunk * dtype.itemsize)
        if len(data) != chunk * dtype.itemsize:
            raise ValueError(f"found {len(data)} bytes in a chunk, expected {chunk * dtype.itemsize}")
        stored = np.frombuffer(data, np.uint8)
        if not skipped & _SKIPPED_SHUFFLE:
            stored = np.ascontiguousarray(stored.reshape(dtype.itemsize, chunk).T)
        low, high = max(start, first), min(stop, first + chunk)
        values[low - start : high - start] = stored.view(dtype).reshape(-1)[low - first : high - first]
    return values


def shuffled(values: np.ndarray) -> bytes:
    """The bytes of `values` as HDF5's shuffle orders them: the first byte of each, then the second of each."""
    return values.view(np.uint8).reshape(len(values), -1).T.tobytes()
