"""Documents to ids, batch by batch; one that cannot be encoded or packed becomes a reject, alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import orjson

from corpus_assets.errors import TokenizerError
from corpus_assets.formats.batch import end_to_end, pack_record
from corpus_assets.formats.protocol import DOES_NOT_FIT, RecordFormat
from corpus_assets.shards.records import Ledger
from corpus_assets.sources.document import DocumentBatch, OnReject, Reject, Source
from corpus_assets.sources.rows import RowError
from corpus_assets.tokenizers.protocol import EncodedDocuments, Tokenizer, UnencodableDocumentError

_SAMPLED_DOCUMENTS = 8
_SAMPLED_CHARACTERS = 2 * 1024


class DocumentEncoder:
    """Encodes the batches of one source and keeps its ledger true.

    Args:
        tokenizer: makes the ids.
        source: whose counts a rejected document is moved in.
        on_reject: receives each such document.
        text_field: what the text of a rejected document is called in its row, so that it can be fed back.
        record_format: makes the documents of records, one by one; default: each document is its text, and the
            source gives texts.
        threads: threads that encode texts; the ids do not depend on it.
        on_document: if given, documents are encoded one at a time and their row is announced first, so
            that whoever watches this process knows which document it died of; None after a batch.
        refuse_rows: rows not to encode, with the reason.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        source: Source,
        on_reject: OnReject,
        *,
        text_field: str = "text",
        record_format: RecordFormat | None = None,
        threads: int = 1,
        on_document: Callable[[int | None], None] | None = None,
        refuse_rows: Mapping[int, str] | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._source = source
        self._on_reject = on_reject
        self._text_field = text_field
        self._format = record_format
        self._threads = threads
        self._on_document = on_document
        self._refuse_rows = refuse_rows or {}
        self._sample: list[tuple[int, str]] = []

    def encode(self, batch: DocumentBatch) -> tuple[list[int], EncodedDocuments]:
        """Ids of those documents of `batch` that can be encoded, and their rows."""
        batch = self._without(
            batch,
            {
                place: RowError(self._refuse_rows[row], DOES_NOT_FIT)
                for place, row in enumerate(batch.rows)
                if row in self._refuse_rows
            },
        )
        if self._format is not None:
            return self._pack(batch, self._format)
        if batch.texts and len(self._sample) < _SAMPLED_DOCUMENTS:
            self._sample.append((batch.rows[0], batch.texts[0][:_SAMPLED_CHARACTERS]))
        if self._on_document is not None:
            return self._encode_singly(batch, self._on_document)
        try:
            return batch.rows, self._tokenizer.encode_documents(batch.texts, threads=self._threads)
        except UnencodableDocumentError as error:
            failures = {place: RowError(reason, DOES_NOT_FIT) for place, reason in error.failures.items()}
            batch = self._without(batch, failures)
            return batch.rows, self._tokenizer.encode_documents(batch.texts, threads=self._threads)

    def audit(self) -> None:
        """Compare a sample of the texts with the reference implementation of the tokenizer.

        Raises:
            TokenizerError: the ids differ.
        """
        differing = self._tokenizer.audit([text for _, text in self._sample])
        if differing:
            rows = ", ".join(str(self._sample[index][0]) for index in differing)
            raise TokenizerError(
                f"{self._tokenizer.name}: the compiled encoder gives other ids than the tokenizers library "
                f"for rows {rows}; nothing of this shard is published"
            )

    def ledger(self) -> Ledger:
        """The account of the source so far, documents that could not be encoded among the rejects."""
        counts = self._source.counts
        return Ledger(
            rows=counts.rows, documents=counts.documents, blank=counts.blank, rejected=dict(counts.rejected)
        )

    def _encode_singly(
        self, batch: DocumentBatch, on_document: Callable[[int | None], None]
    ) -> tuple[list[int], EncodedDocuments]:
        parts, failures = [], {}
        for place, (row, text) in enumerate(zip(batch.rows, batch.texts, strict=True)):
            on_document(row)
            try:
                parts.append(self._tokenizer.encode_documents([text]).ids)
            except UnencodableDocumentError as error:
                failures[place] = RowError(error.reason, DOES_NOT_FIT)
        on_document(None)
        batch = self._without(batch, failures)
        if not parts:
            return [], self._tokenizer.encode_documents([])
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        return batch.rows, EncodedDocuments(ids=np.concatenate(parts), ends=ends)

    def _pack(self, batch: DocumentBatch, record_format: RecordFormat) -> tuple[list[int], EncodedDocuments]:
        assert batch.records is not None
        documents, failures = [], {}
        for place, (row, record) in enumerate(zip(batch.rows, batch.records, strict=True)):
            if self._on_document is not None:
                self._on_document(row)
            try:
                documents.append(pack_record(record_format, record, self._tokenizer))
            except RowError as error:
                failures[place] = error
        if self._on_document is not None:
            self._on_document(None)
        return self._without(batch, failures).rows, end_to_end(documents, record_format, self._tokenizer)

    def _without(self, batch: DocumentBatch, failures: Mapping[int, RowError]) -> DocumentBatch:
        """`batch` without the documents at the given places, which become rejects."""
        if not failures:
            return batch
        counts = self._source.counts
        for place, error in failures.items():
            counts.documents -= 1
            counts.rejected[error.reason] += 1
            record = batch.records[place] if batch.records else {self._text_field: batch.texts[place]}
            self._on_reject(Reject(batch.rows[place], error.reason, error.detail, _record_bytes(record)))
        kept = [place for place in range(len(batch.rows)) if place not in failures]
        return DocumentBatch(
            [batch.rows[place] for place in kept],
            [batch.texts[place] for place in kept] if batch.texts else [],
            None if batch.records is None else [batch.records[place] for place in kept],
        )


def _record_bytes(record: dict[str, Any]) -> bytes:
    """The record as JSON once more."""
    try:
        return orjson.dumps(record, default=repr, option=orjson.OPT_NON_STR_KEYS)
    except orjson.JSONEncodeError:  # a lone surrogate, or a number beyond 64 bits
        return json.dumps(record, default=repr).encode()
