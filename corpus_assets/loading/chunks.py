"""Reads HDF5 chunks without HDF5: byte ranges from the file, decoded outside HDF5's lock, in threads.

HDF5 is asked once per shard, when the shard is first read and in another process: where its chunks lie and which
filters they passed. A chunk whose filters are not known here (lzf) is read through h5py instead.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from corpus_assets.errors import IndexMismatchError, ShardError
from corpus_assets.loading.extents import TokenFile
from corpus_assets.loading.hdf5 import open_shard

DEFLATE, SHUFFLE, ZSTD = 1, 2, 32015

_threads = threading.local()


@dataclass(frozen=True, slots=True)
class ChunkTable:
    """Where the chunks of one shard lie.

    Attributes:
        offsets: (C,) int64 byte offsets; sizes: (C,) int64 stored bytes.
        skipped: (C,) int64, bit i set where the chunk did not pass filter i.
        filters: HDF5 filter ids in the order in which they were applied when writing.
    """

    offsets: np.ndarray
    sizes: np.ndarray
    skipped: np.ndarray
    filters: tuple[int, ...]


class ChunkedShard:
    """The token chunks of one shard file. Holds no descriptor and no HDF5 handle between calls."""

    def __init__(self, file: TokenFile, dtype: np.dtype) -> None:
        self.file = file
        self._dtype = dtype
        self._table: ChunkTable | None = None
        self._lock = threading.Lock()

    def read(self, chunk: int) -> np.ndarray:
        """The tokens of one chunk, cut at the shard's token count; read-only.

        Raises:
            IndexMismatchError: the file is not the one that the index describes.
            ShardError: the chunk cannot be decoded, naming file and chunk.
        """
        table = self._chunk_table()
        count = min(self.file.chunk_size, self.file.token_count - chunk * self.file.chunk_size)
        try:
            if all(number in _DECODERS for number in table.filters):
                tokens = self._decode(table, chunk)
            else:
                tokens = self._read_through_hdf5(chunk * self.file.chunk_size, count)
        except (OSError, ValueError) as error:
            raise ShardError(f"{self.file.path}: chunk {chunk} cannot be decoded: {error}") from error
        tokens = tokens[:count]
        tokens.flags.writeable = False
        return tokens

    def _chunk_table(self) -> ChunkTable:
        with self._lock:
            if self._table is None:
                self._table = _read_table(self.file, self._dtype)
            return self._table

    def _decode(self, table: ChunkTable, chunk: int) -> np.ndarray:
        raw_bytes = self.file.chunk_size * self._dtype.itemsize
        size = int(table.sizes[chunk])
        descriptor = self.file.open()
        try:
            data: bytes | memoryview = os.pread(descriptor, size, int(table.offsets[chunk]))
        finally:
            os.close(descriptor)
        for position in reversed(range(len(table.filters))):
            if not table.skipped[chunk] >> position & 1:
                data = _DECODERS[table.filters[position]](data, raw_bytes, self._dtype.itemsize)
        if len(data) != raw_bytes:
            raise ValueError(f"found {len(data)} bytes, expected {raw_bytes}")
        return np.frombuffer(data, self._dtype)

    def _read_through_hdf5(self, start: int, count: int) -> np.ndarray:
        import hdf5plugin  # noqa: F401  (registers blosc2)

        with open_shard(self.file.path) as file:
            return file[self.file.dataset][start : start + count]


def _read_table(file: TokenFile, dtype: np.dtype) -> ChunkTable:
    from corpus_assets.shards.contents import read_contents

    os.close(file.open())
    contents = read_contents(file.path, chunks_of=file.dataset)
    if file.dataset not in contents.datasets:
        raise ShardError(f"{file.path}: not a readable token shard: it has no {file.dataset}")
    facts = contents.datasets[file.dataset]
    found = (facts.length, facts.dtype, facts.chunk)
    if facts.length < file.token_count or found[1:] != (dtype.name, file.chunk_size):
        raise IndexMismatchError(
            f"{file.path}: {file.dataset} are {found[0]} of {found[1]} in chunks of {found[2]}, shards.json says "
            f"{file.token_count} of {dtype} in chunks of {file.chunk_size}"
        )
    placed = np.array(facts.chunks, np.int64).reshape(-1, 4)
    count = -(-file.token_count // file.chunk_size)
    placed = placed[: int(np.searchsorted(placed[:, 0], file.token_count))]
    if len(placed) != count or not np.array_equal(placed[:, 0], np.arange(count) * file.chunk_size):
        raise ShardError(f"{file.path}: found {len(placed)} stored chunks of {count}")
    outside = (placed[:, 1] < 0) | (placed[:, 2] < 0) | (placed[:, 1] > file.file_bytes - placed[:, 2])
    if outside.any():
        raise ShardError(f"{file.path}: chunk {int(outside.argmax())} lies outside the file")
    return ChunkTable(placed[:, 1].copy(), placed[:, 2].copy(), placed[:, 3].copy(), facts.filters)


def _inflate(data: bytes | memoryview, raw_bytes: int, _itemsize: int) -> bytes:
    from isal import isal_zlib  # inflates at about twice zlib's rate

    try:
        # One byte more than expected is enough to see that a chunk is too long, and all that it may unpack.
        return isal_zlib.decompressobj().decompress(data, raw_bytes + 1)
    except isal_zlib.error as error:  # type: ignore[misc]
        raise ValueError(str(error)) from error


def _unzstd(data: bytes | memoryview, raw_bytes: int, _itemsize: int) -> bytes:
    import zstandard

    decompressor = getattr(_threads, "zstd", None)
    if decompressor is None:
        decompressor = _threads.zstd = zstandard.ZstdDecompressor()
    try:
        size = zstandard.frame_content_size(data)
        if size == raw_bytes:
            return decompressor.decompress(data)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
    raise ValueError(f"its zstd frame holds {size} bytes, expected {raw_bytes}")


def _unshuffle(data: bytes | memoryview, _raw_bytes: int, itemsize: int) -> memoryview:
    planes = np.frombuffer(data, np.uint8)
    whole = len(planes) // itemsize * itemsize
    if whole != len(planes):
        raise ValueError(f"found {len(planes)} shuffled bytes, expected a multiple of {itemsize}")
    # Whole planes shifted together: 12 times as fast as transposing the bytes.
    high, *lower = planes.reshape(itemsize, -1)[::-1]
    tokens = high.astype(f"<u{itemsize}")
    for plane in lower:
        tokens <<= 8
        tokens |= plane
    return memoryview(tokens).cast("B")


_DECODERS: dict[int, Callable[[bytes | memoryview, int, int], bytes | memoryview]] = {
    DEFLATE: _inflate,
    SHUFFLE: _unshuffle,
    ZSTD: _unzstd,
}
