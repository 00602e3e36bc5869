"""What a corpus stores beside its tokens: opened when it is first asked for, read by the same mapping machinery."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, SupportsIndex

import numpy as np

from corpus_assets.loading.advice import Access
from corpus_assets.loading.annotations import SpanIndex
from corpus_assets.loading.document_index import DocumentIndex
from corpus_assets.loading.extents import TokenFile, document_end_files, field_dtype_of, field_files
from corpus_assets.loading.reader import Layout, TokenReader, open_reader
from corpus_assets.loading.requests import checked_slice, checked_starts
from corpus_assets.shards.records import ShardIndex

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from corpus_assets.formats.protocol import Window

COMPUTED_FIELDS = ("document_ids", "position_ids", "cu_seqlens")


class TokenField:
    """One value of a fixed size for every token of a corpus, boundaries included; read like the tokens.

    Everything it returns is a fresh array.
    """

    def __init__(self, name: str, dtype: np.dtype, token_count: int, reader: TokenReader) -> None:
        self.name = name
        self.dtype = dtype
        self._token_count = token_count
        self._reader = reader

    def __len__(self) -> int:
        """Values, as many as tokens in the corpus."""
        return self._token_count

    def get_slice(self, start: SupportsIndex, stop: SupportsIndex) -> np.ndarray:
        """(stop - start,) values of the tokens [start, stop).

        Raises:
            IndexError: unless 0 <= start <= stop <= len(field).
        """
        return self._reader.read(*checked_slice(start, stop, self._token_count))

    def gather(self, starts: ArrayLike, length: int) -> np.ndarray:
        """(B, length) values of the windows [start, start + length).

        Raises:
            IndexError: a window that leaves the corpus.
        """
        return self._reader.rows(checked_starts(starts, length, self._token_count), length)

    def __repr__(self) -> str:
        return f"TokenField({self.name!r}, {self.dtype}, {self._token_count} values)"


class Columns:
    """The fields and the document index of one open corpus; may be asked from several threads.

    Args:
        index: a checked index.
        layout, cache_bytes, threads, access: as for the tokens; each column has a cache of its own.
    """

    def __init__(
        self, index: ShardIndex, *, layout: Layout, cache_bytes: int, threads: int, access: Access
    ) -> None:
        self._index = index
        # A column may be compressed where the tokens are not, so nothing is insisted on.
        self._layout: Layout = "pieces" if layout == "pieces" else "auto"
        self._cache_bytes = cache_bytes
        self._threads = threads
        self._fields: dict[str, TokenField] = {}
        self._spans: dict[str, SpanIndex] = {}
        self._documents: DocumentIndex | None = None
        self._readers: list[TokenReader] = []
        self._access: Access = access

    def field(self, name: str) -> TokenField:
        """The field `name`.

        Raises:
            KeyError: the corpus has no such field.
            IndexMismatchError: its shards do not agree about it, or a file is not what the index says.
        """
        found = self._fields.get(name)
        if found is None:
            dtype = field_dtype_of(self._index, name)
            reader = self._reader(field_files(self._index, name, dtype), dtype)
            # Two threads may both have opened it: one of the two is kept.
            found = self._fields.setdefault(name, TokenField(name, dtype, self._index.token_count, reader))
        return found

    def documents(self) -> DocumentIndex:
        """The document index."""
        if self._documents is None:
            reader = self._reader(document_end_files(self._index), np.dtype("<i8"))
            self._documents = DocumentIndex(self._index, reader)
        return self._documents

    def span_index(self, name: str) -> SpanIndex:
        """The annotations `name`.

        Raises:
            KeyError: the corpus has no such annotations.
        """
        found = self._spans.get(name)
        if found is None:
            found = self._spans.setdefault(name, SpanIndex(self._index, name))
        return found

    def gather(self, names: Sequence[str], starts: ArrayLike, length: int) -> dict[str, np.ndarray]:
        """See `MmapTokenStore.gather_fields`."""
        return {
            name: getattr(self.documents(), name)(starts, length)
            if name in COMPUTED_FIELDS
            else self.field(name).gather(starts, length)
            for name in names
        }

    def window(self, ids: np.ndarray, start: int, *, fields: Sequence[str], spans: Sequence[str]) -> Window:
        """See `MmapTokenStore.window`."""
        from corpus_assets.formats.protocol import Window

        stop = start + len(ids)
        values = self.gather(fields, [start] if len(ids) else [], max(1, len(ids)))
        return Window(
            ids=ids,
            fields={name: column.reshape(-1) for name, column in values.items()},
            spans={name: self.span_index(name).table(start, stop) for name in spans},
        )

    def advise(self, access: Access) -> None:
        """Choose the kernel's read-ahead for fields that are open and those that will be."""
        self._access = access
        for reader in self._readers:
            reader.advise(access)

    def _reader(self, files: Sequence[TokenFile], dtype: np.dtype) -> TokenReader:
        reader = open_reader(
            files, dtype, layout=self._layout, cache_bytes=self._cache_bytes, threads=self._threads
        )
        if self._access != "normal":
            reader.advise(self._access)
        self._readers.append(reader)
        return reader
