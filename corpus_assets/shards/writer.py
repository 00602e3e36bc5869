"""HDF5ShardWriter: token ids of documents → one published token shard."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import h5py
import numpy as np

from corpus_assets.config import default_chunk_size
from corpus_assets.errors import ShardError
from corpus_assets.shards import layout
from corpus_assets.shards.columns import SpooledColumn, TokenColumn
from corpus_assets.shards.publish import published, scratch_folder
from corpus_assets.shards.records import Ledger, ShardInfo, TokenizerInfo
from corpus_assets.shards.seal import seal_shard
from corpus_assets.tokenizers.byte import ByteTokenizer
from corpus_assets.tokenizers.protocol import EncodedDocuments, Tokenizer, token_dtype

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardOrigin:
    """What a shard was made from; part of its file and of its record."""

    key: str
    input_name: str
    input_sha256: str = ""
    input_bytes: int = 0
    build: str = ""


def info_of(tokenizer: Tokenizer) -> TokenizerInfo:
    """The facts about `tokenizer` that a shard records."""
    return TokenizerInfo(
        name=tokenizer.name,
        fingerprint=tokenizer.fingerprint,
        boundary_id=tokenizer.boundary_id,
        max_token_id=tokenizer.max_token_id,
        canary_ids=tokenizer.canary_ids,
    )


class HDF5ShardWriter:
    """Writes one token shard: buffer a chunk, extend by whole chunks, seal, publish by rename.

    Memory does not grow with the shard.

    Every document is followed by exactly one boundary token: `add_boundary` ends the open document, and so
    do the next `add_document` and `close`. Nothing else is injected. The file at `path` appears when
    `close` returns; as a context manager the writer closes when its block ends and publishes nothing when
    the block raises. While it is written, the shard can be followed in `scratch` through SWMR.

    Args:
        path: the shard to publish.
        tokenizer: whose ids these are; decides dtype and boundary. Default: the byte tokenizer.
        window_size: what the default chunk size is a multiple of, in tokens.
        chunk_size: tokens per HDF5 chunk.
        compression: `none`, `gzip`, `lzf` or `zstd`.
        max_document_tokens: longer documents are cut to this many tokens, and counted.
        expected_tokens: an upper bound, where one is known; without one, a shard of
            some thousand chunks is copied once more at the end.
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
        self._chunk_size = chunk_size or default_chunk_size(window_size)
        self._compression = compression
        self._max_document_tokens = max_document_tokens
        self._dtype = token_dtype(max(self._tokenizer.max_token_id, self._tokenizer.boundary_id))
        self._open_document = False
        self._documents = 0
        self._truncated_documents = 0
        self._truncated_tokens = 0
        self.growing_path = self._scratch / f"{self._origin.key}-{uuid.uuid4().hex[:8]}.growing.h5"
        self._file: h5py.File | None = layout.create_file(
            self.growing_path,
            [self._chunk_size * self._dtype.itemsize, layout.INDEX_CHUNK * 4],
            chunk_count=(expected_tokens or 0) // self._chunk_size,
        )
        self._tokens = TokenColumn(
            layout.create_dataset(
                self._file, layout.TOKENS, self._dtype, chunk=self._chunk_size, compression=compression
            )
        )
        self._ends = self._spooled(layout.DOCUMENT_ENDS, np.dtype(np.int64))
        self._rows = self._spooled(layout.DOCUMENT_ROWS, np.dtype(np.int64))
        self._checksums = self._spooled(layout.TOKEN_CRC32, np.dtype(np.uint32))
        self._file.swmr_mode = True

    def _spooled(self, name: str, dtype: np.dtype) -> SpooledColumn:
        dataset = layout.create_dataset(self._file, name, dtype, chunk=layout.INDEX_CHUNK)
        return SpooledColumn(dataset, self.growing_path.with_suffix(f".{name}"))

    @property
    def _columns(self) -> tuple[SpooledColumn, ...]:
        return self._ends, self._rows, self._checksums

    @property
    def token_count(self) -> int:
        """Tokens added so far, boundaries included."""
        return len(self._tokens)

    @property
    def document_count(self) -> int:
        """Documents added so far."""
        return self._documents

    def add_document(self, ids: ArrayLike, *, row: int | None = None) -> None:
        """Add the ids of one document, without its boundary.

        Args:
            ids: (N,) integers, N may be 0.
            row: row of the input shard that the document came from; default: its ordinal.

        Raises:
            ValueError: ids that are not whole numbers from 0 to the tokenizer's largest, or that
                contain the boundary.
        """
        if self._open_document:
            self.add_boundary()
        values = np.asarray(ids)
        if values.size == 0:
            values = values.astype(self._dtype)
        self._check(values)
        kept = values[: self._max_document_tokens]
        if len(kept) < len(values):
            self._truncated_documents += 1
            self._truncated_tokens += len(values) - len(kept)
        self._tokens.append(kept)
        self._rows.append(np.array([self._documents if row is None else row]))
        self._documents += 1
        self._open_document = True

    def add_boundary(self) -> None:
        """End the open document with its boundary token.

        Raises:
            ValueError: no document is open, so that the boundary would belong to none.
        """
        if not self._open_document:
            raise ValueError(f"{self.path}: no document is open, expected add_document before add_boundary")
        self._tokens.append(np.array([self._tokenizer.boundary_id], dtype=self._dtype))
        self._ends.append(np.array([len(self._tokens)]))
        self._open_document = False

    def add_documents(self, encoded: EncodedDocuments, rows: Sequence[int]) -> None:
        """Add whole documents at once; equal to `add_document` and `add_boundary` for each.

        Args:
            encoded: their ids, boundaries included.
            rows: (D,) row of each in the input shard.
        """
        if self._open_document:
            self.add_boundary()
        if len(rows) != len(encoded.ends):
            raise ValueError(f"found {len(rows)} rows for {len(encoded.ends)} documents")
        self._check(encoded.ids, boundaries=len(rows))
        encoded = self._cut(encoded)
        self._ends.append(encoded.ends + len(self._tokens))
        self._tokens.append(encoded.ids)
        self._rows.append(np.asarray(rows, dtype=np.int64))
        self._documents += len(rows)

    def _check(self, ids: np.ndarray, *, boundaries: int = 0) -> None:
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise ValueError(
                f"{self.path}: ids are {ids.dtype} of shape {ids.shape}, expected one row of integers"
            )
        if not ids.size:
            return
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high > self._tokenizer.max_token_id:
            raise ValueError(
                f"{self.path}: document {self._documents} has id {low if low < 0 else high}, "
                f"expected 0 to {self._tokenizer.max_token_id} for tokenizer {self._tokenizer.name}"
            )
        found = int(np.count_nonzero(ids == self._tokenizer.boundary_id))
        if found != boundaries:
            raise ValueError(
                f"{self.path}: found {found} boundary ids ({self._tokenizer.boundary_id}) "
                f"for {boundaries} documents in the ids, expected one after each"
            )

    def _cut(self, encoded: EncodedDocuments) -> EncodedDocuments:
        """`encoded` with no document longer than max_document_tokens and its boundary."""
        if self._max_document_tokens is None:
            return encoded
        lengths = np.diff(encoded.ends, prepend=0) - 1
        excess = np.maximum(lengths - self._max_document_tokens, 0)
        if not excess.any():
            return encoded
        self._truncated_documents += int(np.count_nonzero(excess))
        self._truncated_tokens += int(excess.sum())
        # A token goes when it lies in the excess before its document's boundary.
        change = np.zeros(len(encoded.ids) + 1, dtype=np.int8)
        long = excess > 0
        change[encoded.ends[long] - 1 - excess[long]] += 1
        change[encoded.ends[long] - 1] -= 1
        kept = encoded.ids[np.cumsum(change[:-1], dtype=np.int8) == 0]
        return EncodedDocuments(ids=kept, ends=encoded.ends - np.cumsum(excess))

    def close(self, *, ledger: Ledger | None = None) -> ShardInfo:
        """Seal and publish the shard.

        Args:
            ledger: the source's side of the account; default: every row was a document.

        Raises:
            ShardError: the ledger disagrees with what was written.
        """
        if self._file is None:
            raise ValueError(f"{self.path}: the writer is closed")
        try:
            return self._publish(ledger or Ledger(rows=self._documents, documents=self._documents))
        finally:
            self.discard()

    def _publish(self, ledger: Ledger) -> ShardInfo:
        assert self._file is not None
        if self._open_document:
            self.add_boundary()
        if not ledger.balances or ledger.documents != self._documents:
            raise ShardError(
                f"{self.path}: the ledger is {ledger}, the shard has {self._documents} documents"
            )
        ledger = Ledger(
            rows=ledger.rows,
            documents=ledger.documents,
            blank=ledger.blank,
            rejected=dict(sorted(ledger.rejected.items())),
            truncated_documents=self._truncated_documents,
            truncated_tokens=self._truncated_tokens,
        )
        self._tokens.finish()
        self._checksums.append(np.array(self._tokens.checksums, dtype=np.uint32))
        for column in self._columns:
            column.finish()
        in_one_run = self._tokens.in_one_run
        self._file.close()
        with published(self.path, scratch=self._scratch) as draft:
            if in_one_run:
                self.growing_path.rename(draft)
            else:
                layout.repack(self.growing_path, draft)
            return seal_shard(
                draft,
                record_path=self.path.relative_to(self._root).as_posix(),
                origin=self._origin,
                tokenizer=self._tokenizer,
                ledger=ledger,
                window_size=self._window_size,
                compression=self._compression,
                sha256=self._tokens.sha256,
            )

    def discard(self) -> None:
        """Drop what was written; nothing is published. Safe to call again."""
        if self._file is None:
            return
        self._file.close()
        self._file = None
        for column in self._columns:
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
