"""The first bytes of a JSON Lines file: its byte-order mark, and what shows that it is something else."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from corpus_assets.errors import InputUnreadableError
from corpus_assets.sources.formats import extension_of
from corpus_assets.sources.rows import BYTE_ORDER_MARK

_HEAD_BYTES = 4
_ONE_DOCUMENT_EXTENSIONS = (".json", ".json.gz", ".json.zst")


def checked_head(url: str, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """`blocks` without a byte-order mark at their start.

    Raises:
        InputUnreadableError: the file is UTF-16 or UTF-32, or a `.json` file is one JSON document.
    """
    head = b""
    for block in blocks:  # a first block may be a single byte
        head += block
        if len(head) >= _HEAD_BYTES:
            break
    if _is_wide(head[:_HEAD_BYTES]):
        raise InputUnreadableError(f"{url}: found UTF-16 or UTF-32 at byte 0, expected UTF-8")
    head = head.removeprefix(BYTE_ORDER_MARK)
    if extension_of(url) in _ONE_DOCUMENT_EXTENSIONS:
        _refuse_one_document(url, head.lstrip())
    if head:
        yield head
    yield from blocks


def _is_wide(head: bytes) -> bool:
    """Whether four bytes begin UTF-16 or UTF-32, rather than one spoiled line of UTF-8."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return b"\x00" in head[2:]
    return head in (b'{\x00"\x00', b'\x00{\x00"')


def _refuse_one_document(url: str, head: bytes) -> None:
    line, _, rest = head.partition(b"\n")
    if head.startswith(b"["):
        if not rest.strip() or not _is_json(line):
            raise InputUnreadableError(f"{url}: found one JSON array, expected one JSON object per line")
    elif line.strip() == b"{" and rest.lstrip().startswith((b'"', b"}")):
        raise InputUnreadableError(
            f"{url}: found a JSON object over several lines, expected one JSON object per line"
        )


def _is_json(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True
