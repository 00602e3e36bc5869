"""Which characters of a text each of its tokens stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from corpus_assets.tokenizers.protocol import TextTokens


def tokens_of_bytes(text: str, ids: Sequence[int] | np.ndarray, lengths: np.ndarray) -> TextTokens:
    """The tokens of `text` from the number of its UTF-8 bytes that each stands for, at least one.

    A token stands for every character that it has a byte of.
    """
    raw = np.frombuffer(text.encode("utf-8"), np.uint8)
    character = np.cumsum((raw & 0xC0) != 0x80) - 1  # of each byte; continuation bytes are 0b10xxxxxx
    stops = np.cumsum(np.asarray(lengths, dtype=np.int64))
    starts = stops - lengths
    return TextTokens(np.asarray(ids), character[starts], character[stops - 1] + 1)


def tokens_of_encoding(encoding: Any, text: str, ids: Sequence[int]) -> TextTokens | None:
    """The tokens of `text` in a tiktoken encoding; None unless they are its bytes end to end."""
    try:
        pieces = encoding.decode_tokens_bytes(list(ids))
    except KeyError:
        return None
    if b"".join(pieces) != text.encode("utf-8"):
        return None
    return tokens_of_bytes(text, ids, np.fromiter(map(len, pieces), np.int64, len(pieces)))
