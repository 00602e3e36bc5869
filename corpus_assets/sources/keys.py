"""Partition keys: names of input shards written in an alphabet that file systems and Dagster accept."""

from __future__ import annotations

import hashlib
import re

MAX_KEY_LENGTH = 180
_KEPT_OF_LONG = 140
_PLAIN = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_SAFE = re.compile(r"[A-Za-z0-9_-]")
_ESCAPE = re.compile(rb"__([0-9A-F]{2})")


def encode_key(name: str) -> str:
    """The partition key of an input name: one-to-one, in [A-Za-z0-9._-], ordinary names unchanged.

    Letters, digits, `_`, `-` and single inner dots stay. Everything else, a dot at either end, a dot after
    a dot, and a `_` before a `_` or before an escape, becomes `__XX` for each UTF-8 byte, so `__` always
    begins an escape. A key longer than 180 characters becomes its first 140, `__H` and 32 hex digits of
    the name's sha256; `H` is no hex digit, so it never equals a key that is written out.

    Raises:
        ValueError: the name is empty.
    """
    if not name:
        raise ValueError("an input name is empty, expected at least one character")
    key = name if "__" not in name and _PLAIN.fullmatch(name) else _escaped(name)
    if len(key) <= MAX_KEY_LENGTH:
        return key
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{key[:_KEPT_OF_LONG]}__H{digest[:32]}"


def decode_key(key: str) -> str | None:
    """The name that `encode_key` made `key` from; None for a shortened key and for what is no key."""
    try:
        raw = _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()), key.encode("ascii"))
        name = raw.decode("utf-8", "surrogatepass")
    except UnicodeError:
        return None
    return name if name and encode_key(name) == key else None


def _escaped(name: str) -> str:
    # Right to left: whether a `_` can stay depends on what follows it in the key.
    parts: list[str] = []
    following = ""
    for position in range(len(name) - 1, -1, -1):
        character = name[position]
        if character == ".":
            stays = 0 < position < len(name) - 1 and name[position - 1] != "."
        elif character == "_":
            stays = not following.startswith("_")
        else:
            stays = _SAFE.fullmatch(character) is not None
        if not stays:
            raw = character.encode("utf-8", "surrogatepass")
            character = "".join(f"__{byte:02X}" for byte in raw)
        parts.append(character)
        following = character
    return "".join(reversed(parts))
