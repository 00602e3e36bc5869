"""JSONLSource: documents from one JSON Lines file, plain, gzip or zstd."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from corpus_assets.sources.decompression import decompressed_blocks
from corpus_assets.sources.document import DocumentBatch
from corpus_assets.sources.formats import compression_of
from corpus_assets.sources.head import checked_head
from corpus_assets.sources.lines import OverlongLine, line_blocks
from corpus_assets.sources.raw import RawReader
from corpus_assets.sources.row_source import MAX_BATCH_DOCUMENTS, RowSource
from corpus_assets.sources.rows import LINE_TOO_LONG, RowError, parse_row, record_of, text_of


class JSONLSource(RowSource):
    """Documents of one JSON Lines file in row order, read once; memory does not grow with the file.

    A row is a line. A line of white space is blank; a line that is not a document is counted by reason,
    given to `on_reject` with its raw bytes (64 KiB at most), and costs no other line. A line longer than
    `max_line_bytes` is such a reject and is never held in memory. The digest is taken over the raw bytes
    as they pass. `.gz` and `.zst` at the end of the url select decompression.
    """

    def _batches(self, reader: RawReader) -> Iterator[DocumentBatch]:
        blocks = checked_head(self.url, decompressed_blocks(reader, compression_of(self.url)))
        batch, size = self._empty_batch(), 0
        for lines in line_blocks(blocks, max_line_bytes=self._max_line_bytes):
            size += self._read_lines(lines, batch)
            if size >= self._batch_bytes or len(batch.rows) >= MAX_BATCH_DOCUMENTS:
                if batch.rows:
                    yield batch
                batch, size = self._empty_batch(), 0
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
        """Records and texts, as far as they are wanted, where every line is a document; any exception says that one is not."""
        loads, field = orjson.loads, self._text_field
        if field is None:
            return [record_of(loads(line)) for line in lines], []
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
                record = record_of(parse_row(line))
                texts = [] if self._text_field is None else [text_of(record, self._text_field)]
            except RowError as error:
                self._reject(row, error, line)
                continue
            self.counts.documents += 1
            batch.rows.append(row)
            batch.texts.extend(texts)
            if batch.records is not None:
                batch.records.append(record)
