"""VocabularyTokenizer: what tokenizers with a vocabulary file share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from corpus_assets.errors import TokenizerError
from corpus_assets.tokenizers.protocol import (
    BOUNDARY_IN_TEXT,
    CANARY_TEXT,
    LONE_SURROGATE,
    OFFSETS_UNKNOWN,
    TOKENIZER_FAILED,
    EncodedDocuments,
    TextTokens,
    UnencodableDocumentError,
    has_lone_surrogate,
    token_dtype,
    tokenizer_fingerprint,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Encoders hold some 100 bytes per token until they return, so they get this much text at a time.
_SLICE_CHARACTERS = 1 << 18


@dataclass(frozen=True, slots=True)
class Identity:
    """What a tokenizer was loaded from and what that decides.

    Attributes:
        spec: what `load_tokenizer` was given.
        asked_boundary: the boundary token that was asked for.
        name: what a person calls the tokenizer.
        definition: digest of all that decides the ids of ordinary text.
        boundary_id: the id that follows every document.
        max_token_id: largest id of the vocabulary, added tokens included.
    """

    spec: str
    asked_boundary: str | None
    name: str
    definition: str
    boundary_id: int
    max_token_id: int


class VocabularyTokenizer(ABC):
    """Encodes in slices on threads of the call and keeps none; each bad document is named by its index.

    Travels to another process as its spec: the file is loaded again there, and must be the same.
    """

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    @property
    def name(self) -> str:
        """What a person calls it."""
        return self._identity.name

    @property
    def boundary_id(self) -> int:
        """The id that follows every document."""
        return self._identity.boundary_id

    @property
    def max_token_id(self) -> int:
        """Largest id of the vocabulary, added tokens included."""
        return self._identity.max_token_id

    @property
    def vocab_size(self) -> int:
        """`max_token_id` + 1: ids may have gaps."""
        return self._identity.max_token_id + 1

    @cached_property
    def canary_ids(self) -> tuple[int, ...]:
        """Ids of the canary text; none when the tokenizer cannot encode it."""
        try:
            return tuple(self.encode(CANARY_TEXT))
        except UnencodableDocumentError:
            return ()

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over everything that decides the ids."""
        return tokenizer_fingerprint(self._identity.definition, self.boundary_id, self.canary_ids)

    @abstractmethod
    def _encode_many(self, texts: Sequence[str]) -> list[Any]:
        """Ids of each text, as lists or arrays; raises whatever the encoder raises."""

    @abstractmethod
    def _tokens_of(self, text: str, ids: list[int]) -> TextTokens | None:
        """Where in `text` its `ids` stand; None where that cannot be told."""

    @abstractmethod
    def _decode(self, ids: list[int]) -> str:
        """The text of ids without boundaries."""

    def audit(self, texts: Sequence[str]) -> list[int]:
        """Indices of texts whose ids are not the reference implementation's, which this is."""
        del texts
        return []

    def encode(self, text: str) -> list[int]:
        """Ids of one text; special strings inside it are text."""
        return self.encode_batch([text])[0]

    def encode_with_offsets(self, text: str) -> TextTokens:
        """`encode` of one text, and where in it each token stands.

        Raises:
            UnencodableDocumentError: the text has no ids, or it cannot be told what they stand for.
        """
        tokens = self._tokens_of(text, self.encode(text))
        if tokens is None:
            raise UnencodableDocumentError({0: OFFSETS_UNKNOWN})
        return tokens

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of each text, in order.

        Raises:
            UnencodableDocumentError: naming every text that has no ids.
        """
        encoded: list[Any] = []
        failures: dict[int, str] = {}
        for part in _slices(texts):
            failures |= _shifted(self._encode_slice(part, encoded), len(encoded) - len(part))
        if failures:
            raise UnencodableDocumentError(failures)
        return [np.asarray(ids).tolist() if not isinstance(ids, list) else ids for ids in encoded]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; boundary ids decode to nothing."""
        return self._decode([int(i) for i in ids if i != self.boundary_id])

    def encode_documents(self, texts: Sequence[str], *, threads: int = 1) -> EncodedDocuments:
        """Ids of whole documents with their boundaries, on up to `threads` threads.

        Raises:
            UnencodableDocumentError: naming every document that cannot stand in a shard.
        """
        parts = list(_slices(texts))
        if threads > 1 and len(parts) > 1:
            with ThreadPoolExecutor(min(threads, len(parts))) as pool:
                laid_out = list(pool.map(self._lay_out, parts))
        else:
            laid_out = [self._lay_out(part) for part in parts]
        failures: dict[int, str] = {}
        first, start = 0, 0
        all_ends = []
        for part, (ids, ends, failed) in zip(parts, laid_out, strict=True):
            failures |= _shifted(failed, first)
            all_ends.append(ends + start)
            first += len(part)
            start += len(ids)
        if failures:
            raise UnencodableDocumentError(failures)
        dtype = token_dtype(self.max_token_id)
        return EncodedDocuments(
            ids=np.concatenate([np.empty(0, dtype), *(ids for ids, _, _ in laid_out)], dtype=dtype),
            ends=np.concatenate([np.empty(0, np.int64), *all_ends]),
        )

    def _lay_out(self, texts: Sequence[str]) -> tuple[NDArray[Any], NDArray[np.int64], dict[int, str]]:
        """Ids and ends of one slice, and the reasons of the documents that failed, by index."""
        encoded: list[Any] = []
        failures = self._encode_slice(texts, encoded)
        ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)) + 1)
        ids = np.full(int(ends[-1]) if len(ends) else 0, self.boundary_id, np.uint32)
        start = 0
        for document, end in zip(encoded, ends.tolist(), strict=True):
            ids[start : end - 1] = document
            start = end
        # The shard's dtype is chosen from max_token_id; a larger id would wrap around in it.
        if len(ids) and int(ids.max()) > self.max_token_id:
            raise TokenizerError(
                f"{self.name}: made id {int(ids.max())}, expected at most {self.max_token_id}"
            )
        if np.count_nonzero(ids == self.boundary_id) != len(texts):
            found = np.flatnonzero(ids == self.boundary_id)
            inside = np.setdiff1d(found, ends - 1)
            failures |= {int(i): BOUNDARY_IN_TEXT for i in np.searchsorted(ends, inside, side="right")}
        return ids.astype(token_dtype(self.max_token_id)), ends, failures

    def _encode_slice(self, texts: Sequence[str], encoded: list[Any]) -> dict[int, str]:
        """Append the ids of each text to `encoded`, none for one that fails; returns the reasons by index."""
        try:
            encoded.extend(self._encode_many(texts))
        except BaseException as error:
            if not is_crash(error):
                raise
        else:
            return {}
        failures = {}
        for index, text in enumerate(texts):
            ids: Any = []
            if has_lone_surrogate(text):
                failures[index] = LONE_SURROGATE
            else:
                try:
                    ids = self._encode_many([text])[0]
                except BaseException as error:
                    if not is_crash(error):
                        raise
                    failures[index] = TOKENIZER_FAILED
            encoded.append(ids)
        return failures

    def __reduce__(self) -> tuple[Any, ...]:
        identity = self._identity
        return _loaded_again, (type(self), identity.spec, identity.asked_boundary, self.fingerprint)


def _loaded_again(kind: type, spec: str, boundary_token: str | None, fingerprint: str) -> Any:
    tokenizer = kind(spec, boundary_token=boundary_token)
    if tokenizer.fingerprint != fingerprint:
        raise TokenizerError(
            f"{spec}: its fingerprint is {tokenizer.fingerprint} here, expected {fingerprint}: "
            "the file or the library that reads it changed"
        )
    return tokenizer


def _slices(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Consecutive texts of about `_SLICE_CHARACTERS`; cut by the texts alone, never by threads."""
    start, size = 0, 0
    for index, text in enumerate(texts):
        size += len(text) + 1
        if size >= _SLICE_CHARACTERS:
            yield texts[start : index + 1]
            start, size = index + 1, 0
    if start < len(texts):
        yield texts[start:]


def _shifted(failures: dict[int, str], by: int) -> dict[int, str]:
    return {index + by: reason for index, reason in failures.items()}


def is_crash(error: BaseException) -> bool:
    """Whether an encoder failed: an exception, or a Rust panic, which is no Exception."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"
