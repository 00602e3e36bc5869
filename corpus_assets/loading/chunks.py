"""Reads HDF5 chunks without HDF5: byte ranges from the file, decoded outside HDF5's lock, in threads.

HDF5 is asked once per shard, when the shard is first read and in another process: where its chunks lie and which
filters they passed. A chunk whose filters are not known here (lzf, blosc2) is decoded by that process too.
"""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from corpus_assets.errors import IndexMismatchError, ShardError
from corpus_assets.loading.extents import TOKEN_CRC32, TOKENS, TokenFile
from corpus_assets.shards import dictionary as zstd

if TYPE_CHECKING:
    import zstandard

DEFLATE, SHUFFLE, ZSTD = 1, 2, 32015

_Decoder = Callable[[bytes | memoryview, int], bytes]

_threads = threading.local()


@dataclass(frozen=True, slots=True)
class ChunkTable:
    """Where the chunks of one shard lie.

    Attributes:
        offsets: (C,) int64 byte offsets; sizes: (C,) int64 stored bytes.
        skipped: (C,) int64, bit i set where the chunk did not pass filter i.
        filters: HDF5 filter ids in the order in which they were applied when writing.
        checksums: (C,) uint32, the recorded crc32 of the tokens of each chunk; None where HDF5 is not needed to
            decode them, or none are recorded.
        dictionary: what zstd frames need to be read, in the codec that has one.
    """

    offsets: np.ndarray
    sizes: np.ndarray
    skipped: np.ndarray
    filters: tuple[int, ...]
    checksums: np.ndarray | None
    dictionary: zstandard.ZstdCompressionDict | None


@dataclass(frozen=True, slots=True)
class Chunk:
    """The tokens of one chunk, as its codec gives them: shuffled bytes are put together where they are asked for.

    Attributes:
        stored: (n,) tokens, or (itemsize, n) uint8, the lowest byte of each token first; read-only.
        dtype: of the tokens.
    """

    stored: np.ndarray
    dtype: np.dtype

    def fill(self, out: np.ndarray, start: int) -> None:
        """Write the tokens from `start` on into `out`, (k,) of the chunk's dtype, as many as it takes."""
        stored = self.stored[..., start : start + len(out)]
        if stored.ndim == 1:
            out[:] = stored
            return
        # Whole planes shifted together: 12 times as fast as transposing the bytes.
        bits = out.view(f"<u{out.itemsize}")
        bits[:] = stored[-1]
        for plane in stored[-2::-1]:
            bits <<= 8
            bits |= plane


@dataclass(frozen=True, slots=True)
class StoredChunks:
    """Chunks of one shard as its file has them.

    Attributes:
        numbers: which ones.
        frames: the bytes of each; none where HDF5 reads them itself.
    """

    numbers: Sequence[int]
    frames: Sequence[bytes | memoryview]


class ChunkedShard:
    """The token chunks of one shard file. Holds no descriptor and no HDF5 handle between calls.

    Chunks are fetched and decoded in two steps, so that a thread that decodes does nothing else: between two calls
    of a codec it is then ready for the next one before another thread can take the interpreter.
    """

    def __init__(self, file: TokenFile, dtype: np.dtype) -> None:
        self.file = file
        self._dtype = dtype
        self._table: ChunkTable | None = None
        self._lock = threading.Lock()

    def read(self, chunks: Sequence[int]) -> list[Chunk]:
        """`decode` of what `fetch` gives."""
        return self.decode(self.fetch(chunks))

    def fetch(self, chunks: Sequence[int]) -> StoredChunks:
        """The chunks of these numbers as they are stored.

        Raises:
            IndexMismatchError: the file is not the one that the index describes.
            ShardError: it is no token shard, or cannot be read.
        """
        table = self._chunk_table()
        if not _is_known(table.filters):
            return StoredChunks(chunks, ())
        offsets, sizes = table.offsets[chunks], table.sizes[chunks]
        descriptor = self.file.open()
        try:
            if (offsets[1:] == offsets[:-1] + sizes[:-1]).all():  # neighbours, in one read
                run = memoryview(os.pread(descriptor, int(sizes.sum()), int(offsets[0])))
                places = zip((offsets - offsets[0]).tolist(), sizes.tolist(), strict=True)
                return StoredChunks(chunks, [run[start : start + size] for start, size in places])
            places = zip(offsets.tolist(), sizes.tolist(), strict=True)
            return StoredChunks(chunks, [os.pread(descriptor, size, offset) for offset, size in places])
        except OSError as error:
            raise ShardError(f"{self.file.path}: cannot be read: {error.strerror or error}") from error
        finally:
            os.close(descriptor)

    def decode(self, stored: StoredChunks) -> list[Chunk]:
        """The tokens of chunks, cut at the shard's token count.

        Raises:
            ShardError: a chunk cannot be decoded, naming file and chunk.
        """
        table, chunks = self._chunk_table(), stored.numbers
        decoded = (
            self._decoded(table, stored) if _is_known(table.filters) else self._through_hdf5(table, chunks)
        )
        found: list[Chunk] = []
        try:
            for whole in decoded:
                tokens = whole[..., : self.file.token_count - chunks[len(found)] * self.file.chunk_size]
                tokens.flags.writeable = False
                found.append(Chunk(tokens, self._dtype))
        except (OSError, ValueError, ShardError) as error:
            raise ShardError(
                f"{self.file.path}: chunk {chunks[len(found)]} cannot be decoded: {error}"
            ) from error
        return found

    def _chunk_table(self) -> ChunkTable:
        with self._lock:
            if self._table is None:
                self._table = _read_table(self.file, self._dtype)
            return self._table

    def _decoded(self, table: ChunkTable, stored: StoredChunks) -> Iterable[np.ndarray]:
        masks = table.skipped[stored.numbers].tolist()
        try:
            return self._unfiltered(table, stored.frames, masks)
        except ValueError:  # one by one, to see which
            each = zip(stored.frames, masks, strict=True)
            return (part for frame, mask in each for part in self._unfiltered(table, [frame], [mask]))

    def _unfiltered(
        self, table: ChunkTable, frames: Sequence[bytes | memoryview], masks: Sequence[int]
    ) -> list[np.ndarray]:
        """What chunks hold, filter by filter for all of them: tokens, or their shuffled bytes as `Chunk` has them."""
        itemsize, size = self._dtype.itemsize, self.file.chunk_size
        raw_bytes = itemsize * size
        shuffled = table.filters[:1] == (SHUFFLE,)  # which is undone where tokens are asked for
        data = list(frames)
        for position in reversed(range(shuffled, len(table.filters))):
            decoder = _decoder(table.filters[position], table.dictionary, itemsize)
            data = [
                item if mask >> position & 1 else decoder(item, raw_bytes)
                for item, mask in zip(data, masks, strict=True)
            ]
        if wrong := {len(item) for item in data} - {raw_bytes}:
            raise ValueError(f"found {wrong.pop()} bytes, expected {raw_bytes}")
        return [
            np.frombuffer(item, np.uint8).reshape(itemsize, size)
            if shuffled and not mask & 1
            else np.frombuffer(item, self._dtype)
            for item, mask in zip(data, masks, strict=True)
        ]

    def _through_hdf5(self, table: ChunkTable, chunks: Sequence[int]) -> Iterator[np.ndarray]:
        from corpus_assets.shards.values import StoredValues

        size, count = self.file.chunk_size, self.file.token_count
        values = StoredValues(self.file.path, self.file.dataset, self._dtype, count)
        ranges = [(chunk * size, min((chunk + 1) * size, count)) for chunk in chunks]
        try:
            parts: Iterable[np.ndarray] = values.read(ranges)
        except ShardError:  # one by one, to see which
            parts = (part for limits in ranges for part in values.read([limits]))
        for chunk, tokens in zip(chunks, parts, strict=True):
            # A filter that gives too few bytes makes HDF5 2.0 fill up with whatever lies behind them in memory.
            if table.checksums is not None and (found := zlib.crc32(tokens.data)) != table.checksums[chunk]:
                raise ValueError(f"its crc32 is {found:08x}, expected {table.checksums[chunk]:08x}")
            yield tokens


def _read_table(file: TokenFile, dtype: np.dtype) -> ChunkTable:
    from corpus_assets.shards.contents import read_contents
    from corpus_assets.shards.values import StoredValues

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
    checksums = None
    if file.dataset == TOKENS and not _is_known(facts.filters):
        checksums = StoredValues(file.path, TOKEN_CRC32, np.dtype("<u4"), count)[:]
    return ChunkTable(
        offsets=placed[:, 1].copy(),
        sizes=placed[:, 2].copy(),
        skipped=placed[:, 3].copy(),
        filters=facts.filters,
        checksums=checksums,
        dictionary=_dictionary(file, facts.dictionary),
    )


def _dictionary(file: TokenFile, digits: str) -> zstandard.ZstdCompressionDict | None:
    loaded = zstd.loaded_dictionary(bytes.fromhex(digits))
    try:
        zstd.decompressor(loaded)  # which prepares it for those of all threads
    except ValueError as error:
        raise ShardError(f"{file.path}: {file.dataset}: {error}") from error
    return loaded


def _is_known(filters: Sequence[int]) -> bool:
    return all(number in (SHUFFLE, zstd.FILTER, *_DECODERS) for number in filters)


def _decoder(number: int, dictionary: zstandard.ZstdCompressionDict | None, itemsize: int) -> _Decoder:
    """What undoes the filter of this number, for values of `itemsize` bytes."""
    if number == SHUFFLE:
        return partial(_unshuffled, itemsize)
    if number == zstd.FILTER:
        return partial(zstd.unzstd, zstd.decompressor(dictionary))
    return _DECODERS[number]


def _inflate(data: bytes | memoryview, raw_bytes: int) -> bytes:
    from isal import isal_zlib  # inflates at about twice zlib's rate

    try:
        # One byte more than expected is enough to see that a chunk is too long, and all that it may unpack.
        return isal_zlib.decompressobj().decompress(data, raw_bytes + 1)
    except isal_zlib.error as error:  # type: ignore[misc]
        raise ValueError(str(error)) from error


def _unzstd(data: bytes | memoryview, raw_bytes: int) -> bytes:
    frames = getattr(_threads, "zstd", None)
    if frames is None:
        frames = _threads.zstd = zstd.decompressor(None)
    return zstd.unzstd(frames, data, raw_bytes)


def _unshuffled(itemsize: int, data: bytes | memoryview, raw_bytes: int) -> bytes:
    del raw_bytes
    if len(data) % itemsize:
        raise ValueError(f"found {len(data)} shuffled bytes, expected a multiple of {itemsize}")
    return np.frombuffer(data, np.uint8).reshape(itemsize, -1).T.tobytes()


_DECODERS: dict[int, _Decoder] = {DEFLATE: _inflate, ZSTD: _unzstd}
