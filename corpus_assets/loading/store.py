"""MmapTokenStore: a corpus as one flat array of token ids, read at random."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from corpus_assets.errors import IndexMismatchError
from corpus_assets.loading.advice import Access
from corpus_assets.loading.columns import Columns, TokenField
from corpus_assets.loading.extents import token_dtype_of, token_files
from corpus_assets.loading.marks import ReadingMark
from corpus_assets.loading.reader import Layout, TokenReader, open_reader
from corpus_assets.loading.requests import check_id_dtype, check_out, checked_slice, checked_starts
from corpus_assets.shards.records import ShardIndex

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

    from corpus_assets.formats.protocol import Window
    from corpus_assets.loading.annotations import Span, SpanIndex
    from corpus_assets.loading.document_index import DocumentIndex
    from corpus_assets.loading.documents import DocumentLocation

DEFAULT_CACHE_BYTES = 64 * 1024 * 1024
_CAST_BLOCK_BYTES = 64 * 1024


class MmapTokenStore:
    """Reads any range or batch of windows of a corpus, across shard borders.

    Everything it returns is a fresh array; no view of a mapped file leaves it, so an array stays valid after
    the store is closed. Uncompressed shards are mapped, side by side where the platform can; compressed ones
    are decoded chunk by chunk. It holds no file descriptor and no HDF5 handle between calls. It may be read from
    several threads and after a fork; a pickled store carries the index and opens the files again in the process
    that reads it, the same files even if shards.json has been replaced since. While it is open, `corpus gc`
    spares its files.

    Args:
        index_path: shards.json, its folder, or a loaded index.
        require_release: refuse a corpus that did not pass its gate.
        layout: `flat` maps the corpus as one array, `pieces` reads shard by shard; `auto` takes `flat` where it
            is possible. The results are equal.
        cache_bytes: bound of the cache of decoded chunks of a compressed corpus.
        threads: decoding threads for a compressed corpus; default: the machine's cores, 4 at most.

    Raises:
        IndexMismatchError: the index or a file is not what it should be; found before anything is read.
        NotReleasedError: with `require_release`, no release for this index.
    """

    def __init__(
        self,
        index_path: str | os.PathLike[str] | ShardIndex,
        *,
        require_release: bool = False,
        layout: Layout = "auto",
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        threads: int | None = None,
    ) -> None:
        if layout not in ("auto", "flat", "pieces"):
            raise ValueError(f"layout is {layout!r}, expected auto, flat or pieces")
        self._index = index_path if isinstance(index_path, ShardIndex) else _load(Path(index_path))
        self._fingerprint = self._index.fingerprint
        if require_release:
            from corpus_assets.shards.release import load_release

            load_release(self._index.root, self._fingerprint)
        self._layout: Layout = layout
        self._cache_bytes = cache_bytes
        self._threads = threads or min(4, os.cpu_count() or 1)
        self._access: Access = "normal"
        self._closed = False
        self._columns: Columns | None = None
        self._mark = ReadingMark(self._index)
        self._open()
        self._mark.hold()

    def _open(self) -> None:
        self._dtype, self._token_count = token_dtype_of(self._index), self._index.token_count
        self._reader: TokenReader | None = open_reader(
            token_files(self._index, self._dtype),
            self._dtype,
            layout=self._layout,
            cache_bytes=self._cache_bytes,
            threads=self._threads,
        )

    def __len__(self) -> int:
        """Tokens in the corpus."""
        return self._token_count

    @property
    def index(self) -> ShardIndex:
        """The index that the store was opened with."""
        return self._index

    @property
    def fingerprint(self) -> str:
        """Identity of the corpus: the index's fingerprint."""
        return self._fingerprint

    @property
    def dtype(self) -> np.dtype:
        """Stored type of the ids, uint16 or uint32, little-endian."""
        return self._dtype

    @property
    def boundary_id(self) -> int:
        """The id that follows every document.

        Raises:
            IndexMismatchError: a corpus without shards has no tokenizer.
        """
        tokenizer = self._index.tokenizer
        if tokenizer is None:
            raise IndexMismatchError(f"{self._index.root}: the corpus has no shards, so no tokenizer")
        return tokenizer.boundary_id

    def get_slice(self, start: SupportsIndex, stop: SupportsIndex) -> np.ndarray:
        """Tokens [start, stop) as a fresh (stop - start,) array of the stored dtype.

        Raises:
            IndexError: unless 0 <= start <= stop <= len(store).
        """
        return self._opened().read(*checked_slice(start, stop, self._token_count))

    def gather(
        self,
        starts: ArrayLike,
        length: int,
        *,
        out: np.ndarray | None = None,
        dtype: DTypeLike | None = None,
    ) -> np.ndarray:
        """The windows [start, start + length) as rows of a fresh array, or of `out`.

        Args:
            starts: (B,) integers in any order, repeats allowed.
            length: tokens per window, at least 1.
            out: (B, length) writable array to fill; decides the dtype.
            dtype: integer type of the result that holds every id; default: the stored one.

        Returns:
            (B, length), `out` where it was given.

        Raises:
            IndexError: a window that leaves the corpus.
            ValueError: a shape or dtype that does not fit.
        """
        positions = checked_starts(starts, length, self._token_count)
        if out is None and dtype is None:
            return self.rows(positions, length)
        if out is None:
            target = np.dtype(dtype)
        else:
            check_out(out, (len(positions), length), dtype)
            target = out.dtype
        self.check_dtype(target)
        result = np.empty((len(positions), length), target) if out is None else out
        # In blocks, so that the ids are still in the processor's cache when they are converted.
        block = self.rows_at_once(length, _CAST_BLOCK_BYTES)
        for first in range(0, len(positions), block):
            result[first : first + block] = self.rows(positions[first : first + block], length)
        return result

    def rows(self, starts: np.ndarray, length: int) -> np.ndarray:
        """`gather` of (B,) int64 starts that are known to lie inside the corpus, nothing checked."""
        return self._opened().rows(starts, length)

    def rows_at_once(self, length: int, block_bytes: int) -> int:
        """How many windows of `length` to ask `rows` for, if `block_bytes` of them suit the caller best."""
        return max(1, max(block_bytes, self._opened().block_bytes) // (length * self._dtype.itemsize))

    def check_dtype(self, dtype: DTypeLike) -> None:
        """Raise ValueError unless `dtype` is an integer type that holds every id of the corpus."""
        tokenizer = self._index.tokenizer
        check_id_dtype(np.dtype(dtype), self._dtype, tokenizer.max_token_id if tokenizer else 0)

    def field(self, name: str) -> TokenField:
        """The per-token field `name`, as it was stored; its dtype is in the corpus.

        Raises:
            KeyError: the corpus has no such field.
            IndexMismatchError: its shards do not agree about it.
        """
        return self._columns_opened().field(name)

    def gather_fields(self, names: Sequence[str], starts: ArrayLike, length: int) -> dict[str, np.ndarray]:
        """(B, length) values by name for the same windows as `gather` with the same arguments.

        Besides stored fields, `document_ids` and `position_ids` (int64, made from the document index), and
        `cu_seqlens`; see `DocumentIndex`.

        Raises:
            KeyError: a name that the corpus does not have.
            IndexError: a window that leaves the corpus.
        """
        return self._columns_opened().gather(names, starts, length)

    def spans(self, name: str, start: SupportsIndex, stop: SupportsIndex) -> list[Span]:
        """The annotations `name` that touch the tokens [start, stop), clipped to them.

        Starts and stops are positions in that window; values are decoded from JSON.

        Raises:
            KeyError: the corpus has no such annotations.
            IndexError: unless 0 <= start <= stop <= len(store).
        """
        first, last = checked_slice(start, stop, self._token_count)
        return self.span_index(name).spans(first, last)

    def span_index(self, name: str) -> SpanIndex:
        """The annotations `name`, for reading many windows."""
        return self._columns_opened().span_index(name)

    def window(
        self,
        start: SupportsIndex,
        stop: SupportsIndex,
        *,
        fields: Sequence[str] = (),
        spans: Sequence[str] = (),
    ) -> Window:
        """The tokens [start, stop) with fields and annotations, as a format's `unpack` takes them."""
        first, last = checked_slice(start, stop, self._token_count)
        ids = self._opened().read(first, last)
        return self._columns_opened().window(ids, first, fields=fields, spans=spans)

    @property
    def documents(self) -> DocumentIndex:
        """Where each document of the corpus begins and ends."""
        return self._columns_opened().documents()

    def _columns_opened(self) -> Columns:
        self._opened()
        if self._columns is None:
            self._columns = Columns(
                self._index,
                layout=self._layout,
                cache_bytes=self._cache_bytes,
                threads=self._threads,
                access=self._access,
            )
        return self._columns

    def document_at(self, position: SupportsIndex) -> DocumentLocation:
        """Which document holds the token at `position`: its shard, input file, row and extent.

        A boundary token belongs to the document before it.

        Raises:
            IndexError: unless 0 <= position < len(store).
            ShardError: the shard's document index cannot be read.
        """
        from corpus_assets.loading.documents import locate_document

        found = operator.index(position)
        if not 0 <= found < self._token_count:
            raise IndexError(f"position is {found}, expected 0 to {self._token_count - 1}")
        self._opened()
        return locate_document(self._index, found)

    def advise(self, access: Access) -> None:
        """Say how the corpus will be read: `random`, `sequential` or `normal`; the kernel reads ahead accordingly."""
        if access not in ("random", "sequential", "normal"):
            raise ValueError(f"access is {access!r}, expected random, sequential or normal")
        self._access = access
        self._opened().advise(access)
        if self._columns is not None:
            self._columns.advise(access)

    def _opened(self) -> TokenReader:
        if self._closed:
            raise ValueError(f"{self._index.root}: the store is closed")
        if self._reader is None:
            self._open()
            assert self._reader is not None
            if self._access != "normal":
                self._reader.advise(self._access)
        self._mark.hold()
        return self._reader

    def close(self) -> None:
        """Give the mappings back; a read in another thread finishes first. Safe to call again."""
        # The reader owns nothing but memory; it goes with its last reference, which a running read holds too.
        self._closed = True
        self._reader = self._columns = None
        self._mark.release()

    def __enter__(self) -> MmapTokenStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_reader": None, "_columns": None}

    def __repr__(self) -> str:
        return f"MmapTokenStore({str(self._index.root)!r}, {self._token_count} tokens)"


def _load(path: Path) -> ShardIndex:
    from corpus_assets.shards.index import load_index

    return load_index(path)
