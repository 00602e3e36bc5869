"""HDF5ShardWriter: token ids of documents → one published token shard."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import h5py
import numpy as np

from corpus_assets.config import default_chunk_size
from corpus_assets.errors import ShardError
from corpus_assets.formats.columns import check_columns
from corpus_assets.shards import layout
from corpus_assets.shards.admission import check_ids
from corpus_assets.shards.columns import SpooledColumn, TokenColumn, combined_digest
from corpus_assets.shards.copying import copy_datasets
from corpus_assets.shards.cutting import cut_documents, excess_tokens
from corpus_assets.shards.dictionary import CODEC
from corpus_assets.shards.publish import published, scratch_folder
from corpus_assets.shards.records import TEXT, Ledger, ShardInfo, ShardOrigin, TokenizerInfo, info_of
from corpus_assets.shards.seal import seal_shard
from corpus_assets.shards.spans import SpanColumns
from corpus_assets.tokenizers.byte import ByteTokenizer
from corpus_assets.tokenizers.protocol import EncodedDocuments, SpanTable, Tokenizer, token_dtype

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike


class HDF5ShardWriter:
    """Writes one token shard: buffer a chunk, extend by whole chunks, seal, publish by rename.

    Every document is followed by exactly one boundary token: `add_boundary` ends the open document, and so
    do the next `add_document` and `close`. Nothing else is injected. The file at `path` appears when
    `close` returns; as a context manager the writer closes when its block ends and publishes nothing when
    the block raises. While it is written, the shard can be followed in `scratch` through SWMR. Memory does
    not grow with the shard.

    Args:
        path: the shard to publish.
        tokenizer: whose ids these are; decides dtype and boundary. Default: the byte tokenizer.
        window_size: what the default chunk size is a multiple of, in tokens.
        chunk_size: tokens per HDF5 chunk.
        compression: `none`, `gzip`, `lzf`, `zstd`, `zstd-dict` or `blosc2`.
        max_document_tokens: longer documents are cut to this many tokens, and counted.
        fields: dtype of each per-token field, by name.
        spans: names of annotations.
        format: what made the documents, to be recorded; says nothing about what may be added.
        expected_tokens: an upper bound, where one is known; without one, a shard of
            some thousand chunks is copied once more at the end, as any is with `zstd-dict`.
        origin: what the shard is made from; default: named after the file.
        root: the folder that `ShardInfo.path` is relative to; default: the folder of `path`.
        scratch: an existing folder on the same file system where the shard grows; default: `.building`
            in `root`.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        tokenizer: Tokenizer | TokenizerInfo | None = None,
        window_size: int = 1024,
        chunk_size: int | None = None,
        compression: str = "none",
        max_document_tokens: int | None = None,
        fields: Mapping[str, DTypeLike] | None = None,
        spans: Sequence[str] = (),
        format: str = TEXT,
        expected_tokens: int | None = None,
        origin: ShardOrigin | None = None,
        root: Path | None = None,
        scratch: Path | None = None,
    ) -> None:
        self.path = Path(path)
        self._root = root or self.path.parent
        self._scratch = scratch or scratch_folder(self._root)
        self._origin = origin or ShardOrigin(key=self.path.stem, input_name=self.path.stem)
        self._tokenizer = (
            tokenizer if isinstance(tokenizer, TokenizerInfo) else info_of(tokenizer or ByteTokenizer())
        )
        self._window_size = window_size
        self._chunk_size = chunk_size or default_chunk_size(window_size, compression=compression)
        self._compression = compression
        # A dictionary is made of all that there is; and HDF5 can follow what it knows the codec of.
        self._growing_compression = "none" if compression == CODEC else compression
        self._max_document_tokens = max_document_tokens
        self._dtype = token_dtype(max(self._tokenizer.max_token_id, self._tokenizer.boundary_id))
        self._field_dtypes = {name: np.dtype(dtype) for name, dtype in sorted((fields or {}).items())}
        self._format = format
        self._pending: tuple[EncodedDocuments, int] | None = None
        self._documents = 0
        self._truncated_documents = 0
        self._truncated_tokens = 0
        self.growing_path = self._scratch / f"{self._origin.key}-{uuid.uuid4().hex[:8]}.growing.h5"
        self._file: h5py.File | None = self._create(expected_tokens or 0)
        self._columns: dict[str, SpooledColumn] = {}
        self._tokens = TokenColumn(self._dataset(layout.TOKENS, self._dtype, chunk=self._chunk_size))
        self._ends = self._spooled(layout.DOCUMENT_ENDS, np.dtype(np.int64))
        self._rows = self._spooled(layout.DOCUMENT_ROWS, np.dtype(np.int64))
        self._checksums = self._spooled(layout.TOKEN_CRC32, np.dtype(np.uint32))
        self._fields = {
            name: self._spooled(f"{layout.FIELDS}/{name}", dtype, chunk=self._chunk_size)
            for name, dtype in self._field_dtypes.items()
        }
        self._spans = {name: SpanColumns(name, self._spooled) for name in sorted(spans)}
        self._file.swmr_mode = True

    def _create(self, expected_tokens: int) -> h5py.File:
        widths = [self._dtype.itemsize, *(dtype.itemsize for dtype in self._field_dtypes.values())]
        return layout.create_file(
            self.growing_path,
            [*(self._chunk_size * width for width in widths), layout.INDEX_CHUNK],
            chunk_count=len(widths) * expected_tokens // self._chunk_size,
            compression=self._growing_compression,
        )

    def _dataset(self, name: str, dtype: np.dtype, *, chunk: int) -> h5py.Dataset:
        compression = self._growing_compression if layout.is_aligned(name) else "none"
        return layout.create_dataset(self._file, name, dtype, chunk=chunk, compression=compression)

    def _spooled(self, name: str, dtype: np.dtype, *, chunk: int = layout.INDEX_CHUNK) -> SpooledColumn:
        spool = self.growing_path.with_suffix(f".{len(self._columns)}.spool")
        self._columns[name] = SpooledColumn(self._dataset(name, dtype, chunk=chunk), spool)
        return self._columns[name]

    @property
    def token_count(self) -> int:
        """Tokens added so far, boundaries included."""
        return len(self._tokens) + (len(self._pending[0].ids) if self._pending else 0)

    @property
    def document_count(self) -> int:
        """Documents added so far."""
        return self._documents + (self._pending is not None)

    def add_document(
        self,
        ids: ArrayLike,
        *,
        row: int | None = None,
        fields: Mapping[str, ArrayLike] | None = None,
        spans: Mapping[str, SpanTable] | None = None,
    ) -> None:
        """Add the ids of one document, without its boundary.

        Args:
            ids: (N,) integers, N may be 0.
            row: row of the input shard that the document came from; default: its ordinal.
            fields: (N + 1,) values of each field, by name; the last belongs to the boundary.
            spans: annotations, by name, in token positions of the document.

        Raises:
            ValueError: ids that are not whole numbers from 0 to the tokenizer's largest, or that
                contain the boundary; fields or spans that do not fit them.
        """
        if self._pending is not None:
            self.add_boundary()
        values = np.asarray(ids)
        if values.size == 0:
            values = values.astype(self._dtype)
        self._check(values, boundaries=0)
        document = EncodedDocuments(
            ids=np.append(values, self._tokenizer.boundary_id).astype(self._dtype),
            ends=np.array([len(values) + 1]),
            fields={name: np.asarray(column) for name, column in (fields or {}).items()},
            spans=spans or {},
        )
        check_columns(document, self._field_dtypes, self._spans, where=str(self.path))
        self._pending = document, self._documents if row is None else row

    def add_boundary(self) -> None:
        """End the open document with its boundary token.

        Raises:
            ValueError: no document is open, so that the boundary would belong to none.
        """
        if self._pending is None:
            raise ValueError(f"{self.path}: no document is open, expected add_document before add_boundary")
        document, row = self._pending
        self._pending = None
        self._append(document, [row])

    def add_documents(self, documents: EncodedDocuments, rows: Sequence[int]) -> None:
        """Add whole documents at once; equal to `add_document` and `add_boundary` for each.

        Args:
            documents: their ids, boundaries included, with fields and spans.
            rows: (D,) row of each in the input shard.

        Raises:
            ValueError: as `add_document`.
        """
        if self._pending is not None:
            self.add_boundary()
        if len(rows) != len(documents.ends):
            raise ValueError(f"found {len(rows)} rows for {len(documents.ends)} documents")
        self._check(documents.ids, boundaries=len(rows))
        check_columns(documents, self._field_dtypes, self._spans, where=str(self.path))
        self._append(documents, rows)

    def _check(self, ids: np.ndarray, *, boundaries: int) -> None:
        where = f"{self.path}: document {self._documents}"
        check_ids(ids, self._tokenizer, boundaries=boundaries, where=where)

    def _append(self, documents: EncodedDocuments, rows: Sequence[int]) -> None:
        if self._max_document_tokens is not None:
            excess = excess_tokens(documents.ends, self._max_document_tokens)
            if excess.any():
                self._truncated_documents += int(np.count_nonzero(excess))
                self._truncated_tokens += int(excess.sum())
                documents = cut_documents(documents, excess)
        offset = len(self._tokens)
        for name, column in self._fields.items():
            column.append(documents.fields[name])
        for name, table in documents.spans.items():
            self._spans[name].append(table, offset=offset)
        self._ends.append(documents.ends + offset)
        self._rows.append(np.asarray(rows, dtype=np.int64))
        self._tokens.append(documents.ids)
        self._documents += len(rows)

    def close(self, *, ledger: Ledger | None = None, expected: ShardInfo | None = None) -> ShardInfo:
        """Seal and publish the shard.

        Args:
            ledger: the source's side of the account; default: every row was a document.
            expected: publish the shard only if it is this one, its place in an index aside.

        Raises:
            ShardError: the ledger disagrees with what was written, or the shard with what is expected.
        """
        if self._file is None:
            raise ValueError(f"{self.path}: the writer is closed")
        try:
            if self._pending is not None:
                self.add_boundary()
            ledger = ledger or Ledger(rows=self._documents, documents=self._documents)
            return self._publish(ledger, expected)
        finally:
            self.discard()

    def _publish(self, ledger: Ledger, expected: ShardInfo | None) -> ShardInfo:
        assert self._file is not None
        if not ledger.balances or ledger.documents != self._documents:
            raise ShardError(
                f"{self.path}: the ledger is {ledger}, the shard has {self._documents} documents"
            )
        self._tokens.finish()
        self._checksums.append(np.array(self._tokens.checksums, dtype=np.uint32))
        for column in self._columns.values():
            column.finish()
        in_one_run = self._tokens.in_one_run
        self._file.close()
        with published(self.path, scratch=self._scratch) as draft:
            if in_one_run and self._growing_compression == self._compression:
                self.growing_path.rename(draft)
            else:
                copy_datasets(
                    self.growing_path, draft, compression=self._compression, chunk_size=self._chunk_size
                )
            info = seal_shard(
                draft,
                record_path=self.path.relative_to(self._root).as_posix(),
                origin=self._origin,
                tokenizer=self._tokenizer,
                ledger=replace(
                    ledger,
                    rejected=dict(sorted(ledger.rejected.items())),
                    truncated_documents=self._truncated_documents,
                    truncated_tokens=self._truncated_tokens,
                ),
                window_size=self._window_size,
                compression=self._compression,
                sha256=self._tokens.sha256,
                fields=self._field_dtypes,
                spans=list(self._spans),
                column_sha256=combined_digest(
                    self._fields, self._spans, {name: column.digest for name, column in self._columns.items()}
                ),
                format=self._format,
            )
            if expected is not None and replace(expected, global_start=0) != info:
                raise ShardError(
                    f"{self.path}: its sha256 is {info.sha256}, its frame's {info.frame_sha256}, expected "
                    f"{expected.sha256} and {expected.frame_sha256} in {expected.path}; nothing is published"
                )
            return info

    def discard(self) -> None:
        """Drop what was written; nothing is published. Safe to call again."""
        if self._file is None:
            return
        self._file.close()
        self._file = None
        for column in self._columns.values():
            column.discard()
        self.growing_path.unlink(missing_ok=True)

    def __enter__(self) -> HDF5ShardWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._file is not None:
            self.close()
        else:
            self.discard()
