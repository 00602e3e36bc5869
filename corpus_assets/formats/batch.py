"""Packed records as they stand in a shard: checked, each with its boundary, end to end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from corpus_assets.errors import CorpusError
from corpus_assets.formats.columns import check_columns
from corpus_assets.formats.protocol import (
    DOES_NOT_FIT,
    FORMAT_FAILED,
    PackedRecord,
    RecordFormat,
    RecordRejected,
)
from corpus_assets.sources.rows import RowError
from corpus_assets.tokenizers.protocol import (
    BOUNDARY_IN_TEXT,
    EncodedDocuments,
    SpanTable,
    Tokenizer,
    UnencodableDocumentError,
    token_dtype,
)


def pack_record(
    record_format: RecordFormat, record: dict[str, Any], tokenizer: Tokenizer
) -> EncodedDocuments:
    """The one document of `record` with its boundary, ready for a shard of `record_format`.

    Raises:
        RowError: the format rejects the record, fails on it, or makes what cannot be stored.
    """
    try:
        packed = record_format.pack(record, tokenizer)
    except RowError:
        raise
    except UnencodableDocumentError as error:
        raise RecordRejected(error.reason, DOES_NOT_FIT) from error
    except (CorpusError, MemoryError):
        raise
    except Exception as error:  # whatever a user's own format does not expect of a row
        raise RecordRejected(FORMAT_FAILED, f"{type(error).__name__}: {error}") from error
    return _document(packed, record_format, tokenizer)


def end_to_end(
    documents: Sequence[EncodedDocuments], record_format: RecordFormat, tokenizer: Tokenizer
) -> EncodedDocuments:
    """Single documents as one batch."""
    lengths = [len(document.ids) for document in documents]
    ends = np.cumsum(lengths, dtype=np.int64)
    starts = (ends - lengths).tolist()
    return EncodedDocuments(
        ids=_joined([document.ids for document in documents], token_dtype(tokenizer.max_token_id)),
        ends=ends,
        fields={
            name: _joined([document.fields[name] for document in documents], np.dtype(dtype))
            for name, dtype in record_format.fields.items()
        },
        spans={
            name: _joined_spans(
                [
                    (start, d.spans[name])
                    for start, d in zip(starts, documents, strict=True)
                    if name in d.spans
                ]
            )
            for name in record_format.spans
        },
    )


def _document(packed: PackedRecord, record_format: RecordFormat, tokenizer: Tokenizer) -> EncodedDocuments:
    if not isinstance(packed, PackedRecord):
        found = type(packed).__name__
        raise RecordRejected(FORMAT_FAILED, f"pack returned {found}, expected a PackedRecord")
    ids = np.asarray(packed.ids)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise RecordRejected(
            FORMAT_FAILED, f"ids are {ids.dtype} of shape {ids.shape}, expected one row of integers"
        )
    if ids.size and not 0 <= ids.min() <= ids.max() <= tokenizer.max_token_id:
        raise RecordRejected(
            FORMAT_FAILED, f"ids are {ids.min()} to {ids.max()}, expected 0 to {tokenizer.max_token_id}"
        )
    if (ids == tokenizer.boundary_id).any():
        raise RecordRejected(BOUNDARY_IN_TEXT, DOES_NOT_FIT)
    stored = np.full(len(ids) + 1, tokenizer.boundary_id, token_dtype(tokenizer.max_token_id))
    stored[:-1] = ids
    document = EncodedDocuments(
        ids=stored,
        ends=np.array([len(stored)]),
        fields={name: np.asarray(values) for name, values in packed.fields.items()},
        spans=packed.spans,
    )
    dtypes = {name: np.dtype(dtype) for name, dtype in record_format.fields.items()}
    try:
        check_columns(document, dtypes, record_format.spans, where="pack")
    except (ValueError, TypeError, AttributeError) as error:
        raise RecordRejected(FORMAT_FAILED, str(error)) from error
    return document


def _joined(parts: list[np.ndarray], dtype: np.dtype) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype), *(part.astype(dtype, copy=False) for part in parts)])


def _joined_spans(parts: list[tuple[int, SpanTable]]) -> SpanTable:
    nothing = [np.empty(0, np.int64)]
    return SpanTable(
        starts=np.concatenate(nothing + [table.starts + start for start, table in parts]),
        stops=np.concatenate(nothing + [table.stops + start for start, table in parts]),
        values=[value for _, table in parts for value in table.values],
    )
