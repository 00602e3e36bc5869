"""Documents to ids, batch by batch; a document that cannot be encoded becomes a reject, alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from corpus_assets.shards.records import Ledger
from corpus_assets.sources.document import DocumentBatch, OnReject, Reject, Source
from corpus_assets.tokenizers.protocol import EncodedDocuments, Tokenizer, UnencodableDocumentError


class DocumentEncoder:
    """Encodes the batches of one source and keeps its ledger true.

    Args:
        tokenizer: makes the ids.
        source: whose counts a rejected document is moved in.
        on_reject: receives each such document.
        threads: threads that encode; the ids do not depend on it.
        on_document: if given, documents are encoded one at a time and their row is announced first, so
            that whoever watches this process knows which document it died of.
        refuse_rows: rows not to encode, with the reason.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        source: Source,
        on_reject: OnReject,
        *,
        threads: int = 1,
        on_document: Callable[[int], None] | None = None,
        refuse_rows: Mapping[int, str] | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._source = source
        self._on_reject = on_reject
        self._threads = threads
        self._on_document = on_document
        self._refuse_rows = refuse_rows or {}

    def encode(self, batch: DocumentBatch) -> tuple[list[int], EncodedDocuments]:
        """Ids of those documents of `batch` that can be encoded, and their rows."""
        refused = {
            place: self._refuse_rows[row] for place, row in enumerate(batch.rows) if row in self._refuse_rows
        }
        batch = self._without(batch, refused)
        if self._on_document is not None:
            return self._encode_singly(batch, self._on_document)
        try:
            return batch.rows, self._tokenizer.encode_documents(batch.texts, threads=self._threads)
        except UnencodableDocumentError as error:
            batch = self._without(batch, error.failures)
            return batch.rows, self._tokenizer.encode_documents(batch.texts, threads=self._threads)

    def ledger(self) -> Ledger:
        """The account of the source so far, documents that could not be encoded among the rejects."""
        counts = self._source.counts
        return Ledger(
            rows=counts.rows, documents=counts.documents, blank=counts.blank, rejected=dict(counts.rejected)
        )

    def _encode_singly(
        self, batch: DocumentBatch, on_document: Callable[[int], None]
    ) -> tuple[list[int], EncodedDocuments]:
        parts, failures = [], {}
        for place, (row, text) in enumerate(zip(batch.rows, batch.texts, strict=True)):
            on_document(row)
            try:
                parts.append(self._tokenizer.encode_documents([text]).ids)
            except UnencodableDocumentError as error:
                failures[place] = error.reason
        batch = self._without(batch, failures)
        if not parts:
            return [], self._tokenizer.encode_documents([])
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        return batch.rows, EncodedDocuments(ids=np.concatenate(parts), ends=ends)

    def _without(self, batch: DocumentBatch, failures: Mapping[int, str]) -> DocumentBatch:
        """`batch` without the documents at the given places, which become rejects."""
        if not failures:
            return batch
        counts = self._source.counts
        for place, reason in failures.items():
            counts.documents -= 1
            counts.rejected[reason] += 1
            raw = batch.texts[place].encode("utf-8", "surrogatepass")
            self._on_reject(Reject(batch.rows[place], reason, "the document cannot be encoded", raw))
        kept = [place for place in range(len(batch.rows)) if place not in failures]
        return DocumentBatch([batch.rows[place] for place in kept], [batch.texts[place] for place in kept])
