"""ByteTokenizer: UTF-8 byte b becomes id b + 1; 0 is the boundary."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from corpus_assets.tokenizers.protocol import (
    CANARY_TEXT,
    LONE_SURROGATE,
    EncodedDocuments,
    UnencodableDocumentError,
    has_lone_surrogate,
    tokenizer_fingerprint,
)

# A byte that UTF-8 never contains, and that wraps to 0, the boundary, when 1 is added.
_SEPARATOR = b"\xff"


class ByteTokenizer:
    """Any text to its UTF-8 bytes plus one; needs no file and loses nothing."""

    name = "byte"
    vocab_size = 257
    max_token_id = 256
    boundary_id = 0

    @cached_property
    def canary_ids(self) -> tuple[int, ...]:
        """Ids of the canary text."""
        return tuple(self.encode(CANARY_TEXT))

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over everything that decides the ids."""
        return tokenizer_fingerprint("byte", self.boundary_id, self.canary_ids)

    def encode(self, text: str) -> list[int]:
        """Ids of one text, 1 to 256."""
        return [byte + 1 for byte in text.encode("utf-8")]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of each text, in order."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; a byte sequence that is not UTF-8 (a cut window) shows as U+FFFD."""
        return bytes(i - 1 for i in map(int, ids) if i != self.boundary_id).decode("utf-8", "replace")

    def encode_documents(self, texts: Sequence[str], *, threads: int = 1) -> EncodedDocuments:
        """uint16 ids of whole documents with their boundaries; one thread saturates memory.

        Raises:
            UnencodableDocumentError: a text holds a lone surrogate.
        """
        del threads
        try:
            encoded = [text.encode("utf-8") for text in texts]
        except UnicodeEncodeError:
            raise UnencodableDocumentError(_unencodable(texts)) from None
        encoded.append(b"")
        raw = np.frombuffer(_SEPARATOR.join(encoded), dtype=np.uint8)
        ends = np.flatnonzero(raw == _SEPARATOR[0]).astype(np.int64, copy=False) + 1
        return EncodedDocuments(ids=(raw + np.uint8(1)).astype(np.uint16), ends=ends)


def _unencodable(texts: Sequence[str]) -> dict[int, str]:
    return {index: LONE_SURROGATE for index, text in enumerate(texts) if has_lone_surrogate(text)}
