"""The contract between text and token ids."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from corpus_assets.errors import TokenizerError

CANARY_TEXT = (
    "The quick brown fox, 3.14 and 2^31 = 2147483648.\n\tdef f(x): return x  # café Ωμέγα\n"
    "日本語 \U0001f600 e\u0301 \r\n   trailing <|endoftext|> </s> don't"
)


@dataclass(frozen=True, slots=True)
class SpanTable:
    """Annotations of token ranges.

    Attributes:
        starts: (S,) int64, first token of each range.
        stops: (S,) int64, past its last token.
        values: (S,) JSON of each annotation.
    """

    starts: np.ndarray
    stops: np.ndarray
    values: list[bytes]


@dataclass(frozen=True, slots=True)
class EncodedDocuments:
    """Token ids of several documents, laid end to end as they stand in a token shard.

    Attributes:
        ids: (T,) unsigned integers; every document is followed by one boundary token.
        ends: (D,) int64, exclusive end of each document in `ids`, its boundary token included.
        fields: (T,) values aligned with `ids`, by name.
        spans: annotations of ranges of `ids`, by name.
    """

    ids: np.ndarray
    ends: np.ndarray
    fields: Mapping[str, np.ndarray] = field(default_factory=dict)
    spans: Mapping[str, SpanTable] = field(default_factory=dict)


class TextTokens(NamedTuple):
    """The tokens of one text and the characters that each stands for.

    Where a character is several tokens, each of them stands for it.

    Attributes:
        ids: (N,) integers, without a boundary.
        starts: (N,) int64, first character of each token.
        stops: (N,) int64, past its last character.
    """

    ids: np.ndarray
    starts: np.ndarray
    stops: np.ndarray


class Tokenizer(Protocol):
    """Text to token ids; implementations load their vocabulary once and may be used from threads."""

    @property
    def name(self) -> str:
        """What a person calls it: `byte`, a file name, an encoding name."""

    @property
    def vocab_size(self) -> int:
        """`max_token_id` + 1, added tokens included: the rows that an embedding needs."""

    @property
    def max_token_id(self) -> int:
        """Largest id that `encode` or the boundary can produce; decides the dtype of a shard."""

    @property
    def boundary_id(self) -> int:
        """The id that follows every document and never occurs inside one."""

    @property
    def fingerprint(self) -> str:
        """sha256 over everything that decides the ids, the canary's ids included."""

    @property
    def canary_ids(self) -> tuple[int, ...]:
        """Ids of `CANARY_TEXT`; they change when a library upgrade changes the encoding."""

    def encode(self, text: str) -> list[int]:
        """Ids of one text; special strings inside it are text; no boundary is added."""

    def encode_with_offsets(self, text: str) -> TextTokens:
        """`encode` of one text, and where in it each token stands.

        Raises:
            UnencodableDocumentError: the text has no ids, or it cannot be told what they stand for.
        """

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of each text, in order."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; boundary ids decode to nothing."""

    def encode_documents(self, texts: Sequence[str], *, threads: int = 1) -> EncodedDocuments:
        """Ids of whole documents with their boundaries, on up to `threads` threads.

        The result does not depend on `threads`.

        Raises:
            UnencodableDocumentError: naming every document of `texts` that cannot stand in a shard.
        """

    def audit(self, texts: Sequence[str]) -> list[int]:
        """Indices of `texts` whose ids differ from those of the reference implementation.

        Empty for every tokenizer that is its own reference.
        """


LONE_SURROGATE = "lone_surrogate"
BOUNDARY_IN_TEXT = "boundary_in_text"
TOKENIZER_FAILED = "tokenizer_failed"
OFFSETS_UNKNOWN = "offsets_unknown"


class UnencodableDocumentError(TokenizerError):
    """Documents of one batch that cannot stand in a shard; the others can be encoded without them.

    Attributes:
        failures: reason by index in the batch, one of LONE_SURROGATE, BOUNDARY_IN_TEXT, TOKENIZER_FAILED,
            OFFSETS_UNKNOWN.
    """

    def __init__(self, failures: Mapping[int, str]) -> None:
        self.failures = dict(sorted(failures.items()))
        super().__init__(
            "; ".join(f"document {index} of the batch: {why}" for index, why in self.failures.items())
        )

    def __reduce__(self) -> tuple[type[UnencodableDocumentError], tuple[dict[int, str]]]:
        return type(self), (self.failures,)

    @property
    def index(self) -> int:
        """Index of the first such document."""
        return next(iter(self.failures))

    @property
    def reason(self) -> str:
        """Reason of the first such document."""
        return self.failures[self.index]


def has_lone_surrogate(text: str) -> bool:
    """Whether `text` cannot be written as UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def tokenizer_fingerprint(definition: str, boundary_id: int, canary_ids: Sequence[int]) -> str:
    """sha256 over what the tokenizer is made from, its boundary and what it makes of the canary."""
    facts = [definition, boundary_id, list(canary_ids)]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def token_dtype(max_token_id: int) -> np.dtype:
    """The smallest dtype of a shard that holds `max_token_id`: uint16 or uint32."""
    if not 0 <= max_token_id < 2**32:
        raise ValueError(f"max_token_id is {max_token_id}, expected 0 to {2**32 - 1}")
    return np.dtype(np.uint16) if max_token_id < 2**16 else np.dtype(np.uint32)
