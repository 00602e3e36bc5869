"""zstd frames made with a dictionary: what the chunks of a dataset have in common, stored once beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import zstandard

CODEC = "zstd-dict"
FILTER = 33015  # of those that HDF5 leaves to everyone's own use
ATTRIBUTE = "zstd_dictionary"
MAX_BYTES = 48 * 1024  # with more, HDF5 would move the attribute out of the dataset's header
SAMPLE_BYTES = 64 * MAX_BYTES
_LEAST_BYTES = 256  # of which zstd makes one at all
_RAW_BYTES_PER_BYTE = 64
_PIECE_BYTES = 2048  # zstd wants many samples, and shards may have few chunks
_LEVEL = 3


def trained_dictionary(chunks: Sequence[bytes], *, chunk_count: int) -> bytes:
    """A dictionary for `chunk_count` chunks like `chunks`; empty where it would take more room than it saves.

    The same chunks give the same dictionary. Its size is at most a 64th of that of all chunks.

    Args:
        chunks: some of the chunks, all of one size, as they are before zstd.
        chunk_count: how many there are in all.
    """
    import zstandard

    size = min(MAX_BYTES, sum(map(len, chunks)) // _RAW_BYTES_PER_BYTE)
    if size < _LEAST_BYTES:
        return b""
    try:
        # Looking for better parameters takes ten times as long and finds nothing that matters.
        trained = zstandard.train_dictionary(size, list(_pieces(chunks)), k=256, d=6, level=_LEVEL)
    except zstandard.ZstdError:  # nothing that two pieces have in common
        return b""
    dictionary: bytes = trained.as_bytes()
    without, with_it = compressor(b""), compressor(dictionary)
    saved = sum(len(without.compress(chunk)) - len(with_it.compress(chunk)) for chunk in chunks)
    return dictionary if saved * chunk_count > len(dictionary) * len(chunks) else b""


def _pieces(chunks: Sequence[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        yield from (chunk[start : start + _PIECE_BYTES] for start in range(0, len(chunk), _PIECE_BYTES))


def compressor(dictionary: bytes) -> zstandard.ZstdCompressor:
    """What makes frames with `dictionary`, plain ones where it is empty. Used by one thread at a time."""
    import zstandard

    return zstandard.ZstdCompressor(level=_LEVEL, dict_data=loaded_dictionary(dictionary))


def loaded_dictionary(dictionary: bytes) -> zstandard.ZstdCompressionDict | None:
    """`dictionary` for any number of decompressors, in any thread; None for an empty one."""
    import zstandard

    return zstandard.ZstdCompressionDict(dictionary) if dictionary else None


def decompressor(loaded: zstandard.ZstdCompressionDict | None) -> zstandard.ZstdDecompressor:
    """What reads frames made with the dictionary, or plain ones. Used by one thread at a time.

    Raises:
        ValueError: it is no dictionary.
    """
    import zstandard

    try:
        return zstandard.ZstdDecompressor(dict_data=loaded)
    except zstandard.ZstdError as error:
        raise ValueError(f"its zstd dictionary is damaged: {error}") from error


def unzstd(frames: zstandard.ZstdDecompressor, frame: bytes | memoryview, raw_bytes: int) -> bytes:
    """What a frame holds.

    Raises:
        ValueError: it is damaged, made with another dictionary, or does not hold `raw_bytes`; nothing more is
            unpacked.
    """
    import zstandard

    try:
        size = zstandard.frame_content_size(frame)
        if size == raw_bytes:
            return frames.decompress(frame)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
    raise ValueError(f"its zstd frame holds {size} bytes, expected {raw_bytes}")
