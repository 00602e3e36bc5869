"""WithValues: numbers of a record, repeated over the tokens of its document."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from corpus_assets.formats.protocol import PackedRecord, RecordFormat, RecordRejected
from corpus_assets.shapes import ValueField, number_as
from corpus_assets.sources.rows import RowError, value_at
from corpus_assets.tokenizers.protocol import Tokenizer

MISSING_FIELD = "missing_field"
BAD_FIELD = "bad_field"


class WithValues:
    """Another format, with one more field for each number; its boundary has the value too.

    Args:
        inner: makes the document.
        values: where the numbers stand, by the name of their field.
    """

    def __init__(self, inner: RecordFormat, values: Mapping[str, ValueField]) -> None:
        self._inner = inner
        self._values = dict(sorted(values.items()))

    @property
    def name(self) -> str:
        """That of the inner format."""
        return self._inner.name

    @property
    def fields(self) -> Mapping[str, str]:
        """Those of the inner format and one for each number."""
        return {**self._inner.fields, **{name: value.dtype for name, value in self._values.items()}}

    @property
    def spans(self) -> Sequence[str]:
        """Those of the inner format."""
        return self._inner.spans

    @property
    def fingerprint(self) -> str:
        """sha256 over that of the inner format and the numbers."""
        values = {name: value.model_dump(mode="json") for name, value in self._values.items()}
        return hashlib.sha256(
            json.dumps([self._inner.fingerprint, values], sort_keys=True).encode()
        ).hexdigest()

    def pack(self, record: dict[str, Any], tokenizer: Tokenizer) -> PackedRecord:
        """The inner document with the numbers of `record`.

        Raises:
            RecordRejected: a number is absent and has no default, or its dtype does not hold it.
        """
        numbers = {name: _number(record, value) for name, value in self._values.items()}
        packed = self._inner.pack(record, tokenizer)
        count = len(packed.ids) + 1
        repeated = {
            name: np.full(count, number, self._values[name].dtype) for name, number in numbers.items()
        }
        return PackedRecord(packed.ids, {**packed.fields, **repeated}, packed.spans)


def _number(record: dict[str, Any], value: ValueField) -> float | int:
    try:
        found = value_at(record, value.source, missing=MISSING_FIELD)
    except RowError:
        if value.default is None:
            raise
        return value.default
    if found is None:
        if value.default is None:
            raise RecordRejected(MISSING_FIELD, f"{value.source} is null")
        return value.default
    try:
        return number_as(found, value.dtype)
    except ValueError as error:
        raise RecordRejected(BAD_FIELD, f"{value.source}: {error}") from None
