"""Decompressed blocks of one input: gzip and zstd, any number of members or frames, to the last byte."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from corpus_assets.errors import InputUnreadableError

if TYPE_CHECKING:
    from corpus_assets.sources.raw import RawReader

BLOCK_BYTES = 1 << 20
_GZIP_READ_BYTES = 1 << 18
# A zstd block of four bytes can stand for 128 KiB, and the decoder cannot be told where to stop: 1 KiB of
# input bounds its output by 32 MiB. Larger pieces are not faster (1.2 GB/s on Python source).
_ZSTD_PIECE_BYTES = 1 << 10


def decompressed_blocks(reader: RawReader, compression: str | None) -> Iterator[bytes]:
    """The content behind `reader` in blocks of about 1 MiB; bounded whatever the compression ratio.

    Args:
        reader: the raw input.
        compression: None, "gzip" or "zstd".

    Raises:
        InputUnreadableError: cut, corrupt, or followed by something else; names the file and the byte.
    """
    if compression is None:
        return _plain(reader)
    return _gzip(reader) if compression == "gzip" else _joined(_zstd(reader))


def _plain(reader: RawReader) -> Iterator[bytes]:
    while block := reader.read(BLOCK_BYTES):
        yield block


def _joined(pieces: Iterator[bytes]) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size >= BLOCK_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    if size:
        yield b"".join(parts)


def _gzip(reader: RawReader) -> Iterator[bytes]:
    member: Any = None
    data, first = b"", True
    while True:
        if not data:
            data = reader.read(_GZIP_READ_BYTES)
        if not data and member is not None:
            raise _cut(reader, "gzip member")
        if not data:
            break
        if member is None:
            if not first:
                data = data.lstrip(b"\x00")  # padding between and after members is allowed
                if not data:
                    continue
            _expect_start(reader, data, b"\x1f", "gzip member", first=first)
            member, first = zlib.decompressobj(wbits=31), False
        try:
            block = member.decompress(data, BLOCK_BYTES)
        except zlib.error as error:
            raise _corrupt(reader, data, "gzip member", error) from error
        if member.eof:
            member, data = None, member.unused_data
        else:
            data = member.unconsumed_tail
        if block:
            yield block
    if first:
        raise _cut(reader, "gzip member")


def _zstd(reader: RawReader) -> Iterator[bytes]:
    import zstandard

    decompressor = zstandard.ZstdDecompressor()
    frame: Any = None
    data, first = b"", True
    while True:
        if not data:
            data = reader.read()
        if not data and frame is not None:
            raise _cut(reader, "zstd frame")
        if not data:
            break
        if frame is None:
            # 28 B5 2F FD begins a frame, 5x 2A 4D 18 a skippable one.
            _expect_start(reader, data, b"\x28PQRSTUVWXYZ[\\]^_", "zstd frame", first=first)
            frame, first = decompressor.decompressobj(), False
        view, position = memoryview(data), 0
        while position < len(data):
            piece = view[position : position + _ZSTD_PIECE_BYTES]
            position += len(piece)
            try:
                block = frame.decompress(piece)
            except zstandard.ZstdError as error:
                raise _corrupt(reader, data[position - len(piece) :], "zstd frame", error) from error
            if block:
                yield block
            if frame.eof:
                position -= len(frame.unused_data)
                frame = None
                break
        data = data[position:]
    if first:
        raise _cut(reader, "zstd frame")


def _expect_start(reader: RawReader, data: bytes, starts: bytes, what: str, *, first: bool) -> None:
    if data[0] in starts:
        return
    offset = reader.bytes_read - len(data)
    where = "the first" if first else "another"
    raise InputUnreadableError(
        f"{reader.url}: found {data[:4]!r} at byte {offset}, expected the start of {where} {what}"
    )


def _cut(reader: RawReader, what: str) -> InputUnreadableError:
    return InputUnreadableError(
        f"{reader.url}: cut: the file ends at byte {reader.bytes_read}, expected the rest of a {what}"
    )


def _corrupt(reader: RawReader, data: bytes, what: str, error: Exception) -> InputUnreadableError:
    return InputUnreadableError(
        f"{reader.url}: corrupt {what} at or after byte {reader.bytes_read - len(data)}: {error}"
    )
