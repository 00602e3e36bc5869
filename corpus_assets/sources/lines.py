"""Lines of a byte stream, in blocks, with a bound on what one line may hold in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

RAW_PREFIX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class OverlongLine:
    """A line that was not kept: its first 64 KiB and its length, newline excluded."""

    prefix: bytes
    length: int


LineBlock = list[bytes] | OverlongLine


def line_blocks(blocks: Iterable[bytes], *, max_line_bytes: int) -> Iterator[LineBlock]:
    r"""Consecutive lines of `blocks` without their `\n`, and each over-long line by itself.

    What is a line and what is over-long does not depend on where the blocks are cut. Memory is one block
    and `max_line_bytes`, however long a line is. A last line without `\n` is a line; nothing follows a
    last `\n`.
    """
    parts: list[bytes] = []  # the line that is still open, in pieces
    length = 0
    for block in blocks:
        *lines, rest = block.split(b"\n")
        if parts and lines:
            length = _keep_open(parts, length, lines.pop(0), max_line_bytes)
            yield _closed(parts, length, max_line_bytes)
            parts, length = [], 0
        if lines:
            yield from _within_bounds(lines, max_line_bytes)
        if rest:
            length = _keep_open(parts, length, rest, max_line_bytes)
    if parts:
        yield _closed(parts, length, max_line_bytes)


def _keep_open(parts: list[bytes], length: int, piece: bytes, max_line_bytes: int) -> int:
    """Add `piece` to the open line and return its new length; an over-long one keeps its prefix only."""
    length += len(piece)
    if length <= max_line_bytes:
        parts.append(piece)
    else:
        prefix = b"".join(part[:RAW_PREFIX_BYTES] for part in (*parts, piece))
        parts[:] = [prefix[:RAW_PREFIX_BYTES]]
    return length


def _closed(parts: list[bytes], length: int, max_line_bytes: int) -> LineBlock:
    line = b"".join(parts)
    return [line] if length <= max_line_bytes else OverlongLine(line, length)


def _within_bounds(lines: list[bytes], max_line_bytes: int) -> Iterator[LineBlock]:
    if max(map(len, lines)) <= max_line_bytes:
        yield lines
        return
    kept: list[bytes] = []
    for line in lines:
        if len(line) <= max_line_bytes:
            kept.append(line)
            continue
        if kept:
            yield kept
            kept = []
        yield OverlongLine(line[:RAW_PREFIX_BYTES], len(line))
    if kept:
        yield kept
