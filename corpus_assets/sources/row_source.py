"""RowSource: what the sources share, namely options, ledger, rejects, and being read once."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator

from corpus_assets.sources.document import Document, DocumentBatch, OnReject, Reject, SourceCounts
from corpus_assets.sources.lines import RAW_PREFIX_BYTES
from corpus_assets.sources.raw import RawReader
from corpus_assets.sources.rows import RowError

DEFAULT_MAX_LINE_BYTES = 64 * 1024 * 1024
DEFAULT_BATCH_BYTES = 4 * 1024 * 1024
MAX_BATCH_DOCUMENTS = 1 << 16


class RowSource(ABC):
    """Documents of one input in row order, read once; handles are open from the first to the last batch.

    Args:
        url: path or fsspec URL.
        text_field: key of the text; `a.b` reaches into nested objects, unless a key is called `a.b`. None
            makes a document of every object, whatever is in it, and gives records without texts.
        on_reject: called with each rejected row, in row order.
        max_line_bytes: a longer row is a reject.
        batch_bytes: batches hold about this many bytes.
        keep_records: let the batches carry the parsed rows.
    """

    def __init__(
        self,
        url: str,
        *,
        text_field: str | None = "text",
        on_reject: OnReject | None = None,
        max_line_bytes: int = DEFAULT_MAX_LINE_BYTES,
        batch_bytes: int = DEFAULT_BATCH_BYTES,
        keep_records: bool = False,
    ) -> None:
        if text_field == "" or max_line_bytes < 1 or batch_bytes < 1:
            raise ValueError("expected a text_field, and max_line_bytes and batch_bytes of at least 1")
        self.url = str(url)
        self.counts = SourceCounts()
        self._text_field = text_field
        self._on_reject = on_reject
        self._max_line_bytes = max_line_bytes
        self._batch_bytes = batch_bytes
        self._keep_records = keep_records or text_field is None
        self._reader: RawReader | None = None

    @property
    def bytes_read(self) -> int:
        """Raw bytes of the input consumed so far."""
        return self._reader.bytes_read if self._reader else 0

    @property
    def sha256(self) -> str:
        """Hex digest of the raw bytes; valid after the last batch."""
        if self._reader is None:
            raise ValueError(f"{self.url}: not read yet, expected batches() to have ended")
        return self._reader.sha256

    def __iter__(self) -> Iterator[Document]:
        """Documents one by one."""
        for batch in self.batches():
            records = batch.records or itertools.repeat(None)
            yield from map(Document, batch.rows, batch.texts or itertools.repeat(""), records)

    def batches(self) -> Iterator[DocumentBatch]:
        """Documents in batches of about `batch_bytes`, none of them empty.

        Raises:
            InputUnreadableError: the input cannot be read to its end.
        """
        if self._reader is not None:
            raise ValueError(f"{self.url}: already read, expected a new source for a second pass")
        with RawReader(self.url) as self._reader:
            yield from self._batches(self._reader)

    @abstractmethod
    def _batches(self, reader: RawReader) -> Iterator[DocumentBatch]:
        """Batches; all of `reader` is consumed after the last one."""

    def _empty_batch(self) -> DocumentBatch:
        return DocumentBatch([], [], [] if self._keep_records else None)

    def _reject(self, row: int, error: RowError, raw: bytes) -> None:
        self.counts.rejected[error.reason] += 1
        if self._on_reject is not None:
            self._on_reject(Reject(row, error.reason, error.detail, raw[:RAW_PREFIX_BYTES]))
