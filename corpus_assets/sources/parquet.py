"""ParquetSource: documents from one column of a Parquet file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import orjson

from corpus_assets.errors import InputUnreadableError
from corpus_assets.sources.document import DocumentBatch
from corpus_assets.sources.lines import RAW_PREFIX_BYTES
from corpus_assets.sources.raw import READ_BYTES, RawReader, local_path, open_raw
from corpus_assets.sources.row_source import MAX_BATCH_DOCUMENTS, RowSource
from corpus_assets.sources.rows import (
    BAD_UTF8,
    LINE_TOO_LONG,
    MISSING_TEXT,
    NULL_TEXT,
    TEXT_NOT_A_STRING,
    RowError,
)
from corpus_assets.sources.unpacking import Unpacking, limited_memory

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


class ParquetSource(RowSource):
    """Documents of one Parquet file in row order, read once, in batches; no row group is held whole.

    A row without a string at `text_field` is counted by the reasons of JSON Lines; a row is never blank.
    Only the column of the text is decoded unless records are kept, in which an absent value is None. The digest covers all raw bytes.
    """

    def _batches(self, reader: RawReader) -> Iterator[DocumentBatch]:
        with ExitStack() as handles:
            file, values = self._opened(handles)
            size = reader.size
            for rows in self._row_batches(file, values):
                batch = self._empty_batch()
                self._read_rows(rows, batch)
                _hash_up_to(reader, size * self.counts.rows // max(1, file.metadata.num_rows))
                if batch.rows:
                    yield batch
            if self.counts.rows != file.metadata.num_rows:
                raise InputUnreadableError(
                    f"{self.url}: found {self.counts.rows} rows, its footer says {file.metadata.num_rows}"
                )
        while reader.read():
            pass

    def _opened(self, handles: ExitStack) -> tuple[pq.ParquetFile, pq.ParquetFile]:
        """The file, and the file once more with its strings as dictionaries."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = local_path(self.url)
        raw = open_raw(self.url, handles)
        try:
            with limited_memory():
                source = raw if path is None else handles.enter_context(pa.OSFile(path))
                # buffer_size streams column chunks page by page; memory mapping would crash on a cut file.
                file = pq.ParquetFile(source, buffer_size=READ_BYTES, pre_buffer=False)
                meta = file.metadata
                strings = [
                    file.schema.column(number).path
                    for number in range(meta.num_columns)
                    if file.schema.column(number).physical_type == "BYTE_ARRAY"
                ]
                values = pq.ParquetFile(
                    source,
                    metadata=meta,
                    read_dictionary=strings,
                    buffer_size=READ_BYTES,
                    pre_buffer=False,
                )
        except Exception as error:  # decoders raise many types for what a broken footer makes them do
            raise self._broken(error) from error
        return handles.enter_context(file), handles.enter_context(values)

    def _broken(self, error: Exception) -> InputUnreadableError:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if isinstance(error, MemoryError):
            reason = f"it unpacks to more memory than one batch may take ({reason})"
        return InputUnreadableError(
            f"{self.url}: cannot be read as Parquet at row {self.counts.rows}: {reason}"
        )

    def _row_batches(self, file: pq.ParquetFile, values: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
        field = None if self._keep_records else self._text_field
        columns = None if field is None else [field]
        try:
            unpacking = Unpacking(file, values, field)
            for group in range(file.num_row_groups):
                with limited_memory():
                    rows = unpacking.rows_at_once(
                        group, batch_bytes=self._batch_bytes, most=MAX_BATCH_DOCUMENTS
                    )
                batches = file.iter_batches(batch_size=rows, row_groups=[group], columns=columns)
                while True:
                    with limited_memory():
                        batch = next(batches, None)
                    if batch is None:
                        break
                    yield batch
        except Exception as error:  # decoders raise many types for what broken pages make them do
            raise self._broken(error) from error

    def _read_rows(self, rows: pa.RecordBatch, batch: DocumentBatch) -> None:
        first = self.counts.rows
        self.counts.rows += rows.num_rows
        field, limit = self._text_field, self._max_line_bytes
        texts = [None] * rows.num_rows if field is None else _texts(rows, field, limit)
        records = None if batch.records is None else _records(rows, limit)
        for index, text in enumerate(texts):
            record = records[index] if records is not None else None
            error = next((found for found in (text, record) if isinstance(found, RowError)), None)
            if error is not None:
                self._reject(first + index, error, _raw(rows, index, field))
                continue
            self.counts.documents += 1
            batch.rows.append(first + index)
            if field is not None:
                batch.texts.append(text)
            if batch.records is not None and record is not None:
                batch.records.append(record)


def _hash_up_to(reader: RawReader, offset: int) -> None:
    """Let the digest follow the rows, so that `bytes_read` tells how far the source is."""
    while reader.bytes_read < offset and reader.read():
        pass


def _texts(rows: pa.RecordBatch, field: str, max_bytes: int) -> list[Any]:
    """For each row its text, or the RowError that says why there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column, missing = _column(rows, field)
    if column is None:
        found = ", ".join(rows.schema.names[:8]) or "no such column"
        return [RowError(MISSING_TEXT, f"no field {field}; found {found}")] * rows.num_rows
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        texts: list[Any] = [RowError(TEXT_NOT_A_STRING, f"{field} is {kind}")] * len(column)
    else:
        column = column.cast(pa.large_string())
        texts = _decoded(column, field)
        if column.nbytes > max_bytes:
            for index, size in enumerate(pc.binary_length(column).to_pylist()):
                if size is not None and size > max_bytes:
                    detail = f"{size} bytes, expected at most {max_bytes}"
                    texts[index] = RowError(LINE_TOO_LONG, detail)
    if column.null_count:
        for index in pc.indices_nonzero(column.is_null()).to_pylist():
            texts[index] = RowError(NULL_TEXT, f"{field} is null")
    for index in missing:
        texts[index] = RowError(MISSING_TEXT, f"no field {field}; an object on the way is null")
    return texts


def _column(rows: pa.RecordBatch, field: str) -> tuple[Any, list[int]]:
    """The column of `field`, if there is one, and the rows in which an object on the way is null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if field in rows.schema.names:
        return rows.column(rows.schema.get_field_index(field)), []
    first, *path = field.split(".")
    if first not in rows.schema.names or not path:
        return None, []
    column = rows.column(rows.schema.get_field_index(first))
    missing: set[int] = set()
    for part in path:
        if not pa.types.is_struct(column.type) or column.type.get_field_index(part) < 0:
            return None, []
        missing |= set(pc.indices_nonzero(column.is_null()).to_pylist())
        column = pc.struct_field(column, [column.type.get_field_index(part)])
    return column, sorted(missing)


def _decoded(column: pa.Array, field: str) -> list[Any]:
    """Python strings; the reader checks no UTF-8, so that is done here, row by row where it must be."""
    import pyarrow as pa

    try:
        return column.to_numpy(zero_copy_only=False).tolist()
    except (UnicodeDecodeError, pa.ArrowException):
        return [_decoded_value(raw, field) for raw in column.cast(pa.large_binary()).to_pylist()]


def _decoded_value(raw: bytes | None, field: str) -> str | RowError | None:
    try:
        return raw if raw is None else raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return RowError(BAD_UTF8, f"byte {error.start} of {field}: {error.reason}")


def _records(rows: pa.RecordBatch, max_bytes: int) -> list[Any]:
    """For each row its record, or the RowError that says why there is none."""
    if rows.nbytes <= max_bytes:
        try:
            return rows.to_pylist()
        except UnicodeDecodeError:
            pass
    return [_record(rows, index, max_bytes) for index in range(rows.num_rows)]


def _record(rows: pa.RecordBatch, index: int, max_bytes: int) -> dict[str, Any] | RowError:
    row = rows.slice(index, 1)
    if row.nbytes > max_bytes:  # as Python objects it would be ten times as large
        return RowError(LINE_TOO_LONG, f"{row.nbytes} bytes, expected at most {max_bytes}")
    try:
        return row.to_pylist()[0]
    except UnicodeDecodeError as error:
        return RowError(BAD_UTF8, f"byte {error.start} of another field: {error.reason}")


def _raw(rows: pa.RecordBatch, index: int, field: str | None) -> bytes:
    """What was decoded of a rejected row, as JSON; the bytes of its text where that is no UTF-8 or long."""
    record = _record(rows, index, RAW_PREFIX_BYTES)
    if isinstance(record, RowError):
        column, _ = (None, []) if field is None else _column(rows, field)
        return b"" if column is None else _bytes_of(column[index])
    return orjson.dumps(record, default=repr, option=orjson.OPT_NON_STR_KEYS)


def _bytes_of(value: Any) -> bytes:
    """The first 64 KiB of a string; none of anything else."""
    buffer = value.as_buffer() if hasattr(value, "as_buffer") else None
    return b"" if buffer is None else buffer[:RAW_PREFIX_BYTES].to_pybytes()
