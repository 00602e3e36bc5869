"""JSONLSource: documents from one JSON Lines file, plain, gzip or zstd."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import orjson

from corpus_assets.sources.decompression import decompressed_blocks
from corpus_assets.sources.document import Document, DocumentBatch, OnReject, Reject, SourceCounts
from corpus_assets.sources.formats import compression_of
from corpus_assets.sources.head import checked_head
from corpus_assets.sources.lines import RAW_PREFIX_BYTES, OverlongLine, line_blocks
from corpus_assets.sources.raw import RawReader
from corpus_assets.sources.rows import LINE_TOO_LONG, RowError, parse_row, text_of

DEFAULT_MAX_LINE_BYTES = 64 * 1024 * 1024
DEFAULT_BATCH_BYTES = 4 * 1024 * 1024
_MAX_BATCH_DOCUMENTS = 1 << 16


class JSONLSource:
    """Documents of one JSON Lines file in row order, read once; memory does not grow with the file.

    A row is a line. A line of white space is blank; a line that is not a document is counted by reason,
    given to `on_reject` with its raw bytes (64 KiB at most), and costs no other line. The digest is taken
    over the raw bytes as they pass. The handle is open from the first to the last batch.

    Args:
        url: path or fsspec URL; `.gz` and `.zst` at its end select decompression.
        text_field: key of the text; `a.b` reaches into nested objects, unless a key is called `a.b`.
        on_reject: called with each rejected row, in row order.
        max_line_bytes: a longer line is a reject and is never held in memory.
        batch_bytes: batches hold about this many bytes of lines.
        keep_records: let the batches carry the parsed rows.
    """

    def __init__(
        self,
        url: str,
        *,
        text_field: str = "text",
        on_reject: OnReject | None = None,
        max_line_bytes: int = DEFAULT_MAX_LINE_BYTES,
        batch_bytes: int = DEFAULT_BATCH_BYTES,
        keep_records: bool = False,
    ) -> None:
        if not text_field or max_line_bytes < 1 or batch_bytes < 1:
            raise ValueError("expected a text_field, and max_line_bytes and batch_bytes of at least 1")
        self.url = str(url)
        self.counts = SourceCounts()
        self._text_field = text_field
        self._on_reject = on_reject
        self._max_line_bytes = max_line_bytes
        self._batch_bytes = batch_bytes
        self._keep_records = keep_records
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
            yield from map(Document, batch.rows, batch.texts, records)

    def batches(self) -> Iterator[DocumentBatch]:
        """Documents in batches of about `batch_bytes` of lines, none of them empty.

        Raises:
            InputUnreadableError: the file cannot be read to its end, or is not JSON Lines at all.
        """
        if self._reader is not None:
            raise ValueError(f"{self.url}: already read, expected a new source for a second pass")
        with RawReader(self.url) as self._reader:
            batch = DocumentBatch([], [], [] if self._keep_records else None)
            size = 0
            blocks = decompressed_blocks(self._reader, compression_of(self.url))
            for lines in line_blocks(checked_head(self.url, blocks), max_line_bytes=self._max_line_bytes):
                size += self._read_lines(lines, batch)
                if size >= self._batch_bytes or len(batch.rows) >= _MAX_BATCH_DOCUMENTS:
                    if batch.rows:
                        yield batch
                    batch = DocumentBatch([], [], [] if self._keep_records else None)
                    size = 0
            if batch.rows:
                yield batch

    def _read_lines(self, lines: list[bytes] | OverlongLine, batch: DocumentBatch) -> int:
        """Add the documents of `lines` to `batch`; returns the number of bytes."""
        counts = self.counts
        first = counts.rows
        if isinstance(lines, OverlongLine):
            counts.rows += 1
            detail = f"{lines.length} bytes, expected at most {self._max_line_bytes}"
            self._reject(first, RowError(LINE_TOO_LONG, detail), lines.prefix)
            return len(lines.prefix)
        counts.rows += len(lines)
        try:
            records, texts = self._fast_texts(lines)
        except (ValueError, KeyError, TypeError, RowError):
            self._read_one_by_one(first, lines, batch)
        else:
            batch.rows.extend(range(first, first + len(lines)))
            batch.texts.extend(texts)
            if batch.records is not None and records is not None:
                batch.records.extend(records)
            counts.documents += len(lines)
        return sum(map(len, lines))

    def _fast_texts(self, lines: list[bytes]) -> tuple[list[dict[str, Any]] | None, list[str]]:
        """Records and texts where every line is a document; any exception says that one is not."""
        loads, field = orjson.loads, self._text_field
        records = None
        if self._keep_records:
            records = [loads(line) for line in lines]
            texts = [text_of(record, field) for record in records]
        elif "." in field:
            texts = [text_of(loads(line), field) for line in lines]
        else:
            texts = [loads(line)[field] for line in lines]
        if set(map(type, texts)) != {str}:
            raise TypeError(field)
        return records, texts

    def _read_one_by_one(self, first: int, lines: list[bytes], batch: DocumentBatch) -> None:
        for row, line in enumerate(lines, first):
            if not line.strip():
                self.counts.blank += 1
                continue
            try:
                record = parse_row(line)
                text = text_of(record, self._text_field)
            except RowError as error:
                self._reject(row, error, line[:RAW_PREFIX_BYTES])
                continue
            self.counts.documents += 1
            batch.rows.append(row)
            batch.texts.append(text)
            if batch.records is not None:
                batch.records.append(record)

    def _reject(self, row: int, error: RowError, raw: bytes) -> None:
        self.counts.rejected[error.reason] += 1
        if self._on_reject is not None:
            self._on_reject(Reject(row, error.reason, error.detail, raw))
