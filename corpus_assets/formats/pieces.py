"""PiecewiseFormat: what the built-in formats share, a document made of texts that are encoded one by one."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corpus_assets.formats.protocol import PackedRecord, RecordRejected
from corpus_assets.formats.spans import read_spans, to_tokens
from corpus_assets.shapes import LOSS_MASK
from corpus_assets.sources.rows import NULL_TEXT, kind_of, value_at
from corpus_assets.tokenizers.protocol import TextTokens, Tokenizer

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Piece:
    """A text of a document that is encoded by itself; `train` is what its tokens have in the loss mask."""

    text: str
    train: bool = True


class PiecewiseFormat(ABC):
    """A document is the tokens of its pieces end to end.

    Each piece is encoded by itself, so no token spans two of them and the ids of a piece do not depend on
    its neighbours. Where there is a loss mask, the boundary has the value of the last piece; a document
    without pieces is empty and its boundary has 0. Annotations count the characters of the pieces end to
    end.

    Args:
        text_field: where the pieces stand in a record.
        spans: where annotations stand in a record, by the name that they are stored under.
    """

    name: str
    has_mask: bool

    def __init__(self, *, text_field: str = "text", spans: Mapping[str, str] | None = None) -> None:
        self.text_field = text_field
        self._span_fields = dict(sorted((spans or {}).items()))

    @abstractmethod
    def pieces(self, record: dict[str, Any]) -> list[Piece]:
        """The pieces of `record`, in order.

        Raises:
            RecordRejected: it does not have the shape.
        """

    @property
    def options(self) -> dict[str, Any]:
        """All that decides what `pack` makes of a record."""
        return {"text_field": self.text_field, "spans": self._span_fields}

    @property
    def fields(self) -> dict[str, str]:
        """`loss_mask`, where there is one."""
        return {LOSS_MASK: "uint8"} if self.has_mask else {}

    @property
    def spans(self) -> Sequence[str]:
        """Names of the annotations."""
        return tuple(self._span_fields)

    @property
    def fingerprint(self) -> str:
        """sha256 over name and options."""
        facts = json.dumps([self.name, _VERSION, self.options], sort_keys=True)
        return hashlib.sha256(facts.encode()).hexdigest()

    def pack(self, record: dict[str, Any], tokenizer: Tokenizer) -> PackedRecord:
        """The document of `record`.

        Raises:
            RecordRejected: it does not have the shape, or an annotation does not fit its text.
        """
        pieces = self.pieces(record)
        texts = [piece.text for piece in pieces]
        fields = {}
        spans = {}
        if self._span_fields:
            located = [tokenizer.encode_with_offsets(text) for text in texts]
            lengths = [len(tokens.ids) for tokens in located]
            tokens = _end_to_end(texts, located)
            ids = tokens.ids
            for name, field in self._span_fields.items():
                found = read_spans(record, field, length=sum(map(len, texts)))
                if found:
                    spans[name] = to_tokens(found, tokens)
        else:
            encoded = tokenizer.encode_documents(texts)
            ends = encoded.ends.tolist()
            lengths = [end - start - 1 for start, end in zip([0, *ends], ends, strict=False)]
            inside = np.ones(len(encoded.ids), dtype=bool)
            inside[encoded.ends - 1] = False
            ids = encoded.ids[inside]
        if self.has_mask:
            train = np.array([piece.train for piece in pieces] or [False], dtype=np.uint8)
            fields[LOSS_MASK] = np.append(np.repeat(train[: len(pieces)], lengths), train[-1])
        return PackedRecord(ids, fields, spans)

    def items(self, record: dict[str, Any], *, reason: str) -> list[Any]:
        """The array at `text_field`.

        Raises:
            RecordRejected: there is none; with `reason` where there is something else.
        """
        found = value_at(record, self.text_field)
        if found is None:
            raise RecordRejected(NULL_TEXT, f"{self.text_field} is null")
        if not isinstance(found, list):
            raise RecordRejected(reason, f"{self.text_field} is {kind_of(found)}, expected an array")
        return found

    def string(self, item: Any, key: str, *, where: str, reason: str) -> str:
        """The string at `key` of an object in the array.

        Raises:
            RecordRejected: there is none.
        """
        if not isinstance(item, dict):
            raise RecordRejected(reason, f"{where} is {kind_of(item)}, expected an object")
        if key not in item:
            raise RecordRejected(reason, f"{where} has no `{key}`")
        if not isinstance(item[key], str):
            raise RecordRejected(reason, f"{where}.{key} is {kind_of(item[key])}, expected a string")
        return item[key]


def _end_to_end(texts: list[str], located: list[TextTokens]) -> TextTokens:
    """The tokens of all texts, in characters of the texts end to end."""
    firsts = np.cumsum([0, *map(len, texts)]).tolist()
    nothing = [np.empty(0, np.int64)]
    return TextTokens(
        np.concatenate(nothing + [tokens.ids for tokens in located]),
        np.concatenate(nothing + [t.starts + first for t, first in zip(located, firsts, strict=False)]),
        np.concatenate(nothing + [t.stops + first for t, first in zip(located, firsts, strict=False)]),
    )
