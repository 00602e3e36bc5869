"""A checksum inside of a JSON record: damage on the disk is noticed by whoever reads it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import orjson

from corpus_assets.errors import IndexMismatchError, one_line

CHECKSUM = "checksum"


def with_checksum(document: dict[str, Any]) -> bytes:
    """`document` as JSON, with the checksum of all else in it."""
    sealed = {**document, CHECKSUM: _checksum(document)}
    return orjson.dumps(sealed, option=orjson.OPT_INDENT_2)


def refuse_changed(document: dict[str, Any], *, where: Path) -> None:
    """Take the checksum out of `document`; raises IndexMismatchError unless it is that of the rest."""
    recorded = document.pop(CHECKSUM, None)
    try:
        found = _checksum(document)
    except orjson.JSONEncodeError as error:
        raise IndexMismatchError(f"{where}: its checksum cannot be taken: {error}") from error
    if recorded != found:
        raise IndexMismatchError(
            f"{where}: checksum is {found}, the file says {one_line(recorded)}: it was damaged"
        )


def _checksum(document: dict[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()
