"""ByteTokenizer: UTF-8 byte b becomes id b + 1; 0 is the boundary."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from corpus_assets.tokenizers.offsets import tokens_of_bytes
from corpus_assets.tokenizers.protocol import (
    CANARY_TEXT,
    LONE_SURROGATE,
    EncodedDocuments,
    TextTokens,
    UnencodableDocumentError,
    has_lone_surrogate,
    tokenizer_fingerprint,
)


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
        return self.encode_documents([text]).ids[:-1].tolist()

    def encode_with_offsets(self, text: str) -> TextTokens:
        """`encode`, and the character that each id is a byte of."""
        ids = self.encode_documents([text]).ids[:-1]
        return tokens_of_bytes(text, ids, np.ones(len(ids), np.int64))

    def audit(self, texts: Sequence[str]) -> list[int]:
        """No text can differ: this is its own reference."""
        del texts
        return []

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of each text, in order."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; a byte sequence that is not UTF-8 (a cut window) shows as U+FFFD."""
        return bytes(i - 1 for i in map(int, ids) if i != self.boundary_id).decode("utf-8", "replace")

    def encode_documents(self, texts: Sequence[str], *, threads: int = 1) -> EncodedDocuments:
        """uint16 ids of whole documents with their boundaries; 2 GB/s on one thread, so `threads` is not used.

        Raises:
            UnencodableDocumentError: a text holds a lone surrogate.
        """
        del threads
        try:
            encoded = [text.encode("utf-8") for text in texts]
        except UnicodeEncodeError:
            raise UnencodableDocumentError(_unencodable(texts)) from None
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        ends = np.cumsum(lengths + 1)
        encoded.append(b"")
        ids = np.add(np.frombuffer(b"\x00".join(encoded), np.uint8), 1, dtype=np.uint16)
        ids[ends - 1] = self.boundary_id
        return EncodedDocuments(ids=ids, ends=ends)


def _unencodable(texts: Sequence[str]) -> dict[int, str]:
    return {index: LONE_SURROGATE for index, text in enumerate(texts) if has_lone_surrogate(text)}
