"""DocumentDataset and RecordDataset: a corpus as numbered samples, read in any order."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import numpy as np

from corpus_assets.loading.ragged import RaggedBatch, Sample, offsets_of, read_ragged
from corpus_assets.loading.requests import checked_store, is_number, item_number, item_numbers, names_of
from corpus_assets.loading.store import MmapTokenStore

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

_COMPUTED = ("document_ids", "position_ids")


class DocumentDataset:
    """Whole documents, one per sample, never joined, cut or padded.

    `dataset[3]` is an array of ids, with fields a `Sample`; `dataset[2:5]` and `dataset[[7, 0, 7]]` are a
    `RaggedBatch`, in the order asked for. Document i is number i of the corpus, through all its shards. It does
    not own the store.

    Args:
        store: the corpus.
        fields: names of per-token values; `document_ids` and `position_ids` are made.
        boundary: `keep` or `drop` the boundary token behind each document, and its values.
        dtype: integer type of the ids; default: the stored one.

    Raises:
        KeyError: a field that the corpus does not have.
        ValueError: an option that does not fit.
    """

    def __init__(
        self,
        store: MmapTokenStore,
        *,
        fields: Sequence[str] = (),
        boundary: str = "keep",
        dtype: DTypeLike | None = None,
    ) -> None:
        if boundary not in ("keep", "drop"):
            raise ValueError(f"boundary is {boundary!r}, expected keep or drop")
        self.store = checked_store(store)
        self.fields = names_of(fields, "fields")
        self.boundary = boundary
        self.dtype = store.dtype if dtype is None else np.dtype(dtype)
        store.check_dtype(self.dtype)
        for name in self.fields:
            if name not in _COMPUTED:
                store.field(name)

    def __len__(self) -> int:
        """Documents in the corpus."""
        return self.store.index.document_count

    @overload
    def __getitem__(self, item: SupportsIndex) -> np.ndarray | Sample: ...
    @overload
    def __getitem__(self, item: slice | ArrayLike) -> RaggedBatch: ...
    def __getitem__(self, item: SupportsIndex | slice | ArrayLike) -> np.ndarray | Sample | RaggedBatch:
        """One document, or those of a slice, a list of numbers or a mask.

        Raises:
            IndexError: a document outside the corpus.
        """
        if is_number(item):
            batch = self.take(np.array([item_number(item, len(self))], np.int64))
            return Sample(batch.values, dict(batch.fields)) if self.fields else batch.values
        return self.take(item_numbers(item, len(self)))

    def __getitems__(self, numbers: Sequence[int]) -> list[np.ndarray | Sample]:
        """One sample for each number, read together: what torch's DataLoader asks for."""
        batch = self.take(item_numbers(np.asarray(numbers, np.int64), len(self)))
        if not self.fields:
            return list(batch)
        edges = batch.cu_seqlens.tolist()
        return [
            Sample(ids, {name: values[edges[i] : edges[i + 1]] for name, values in batch.fields.items()})
            for i, ids in enumerate(batch)
        ]

    def lengths(self, documents: np.ndarray) -> np.ndarray:
        """(N,) int64 ids of each document as this dataset gives it."""
        starts, stops = self._bounds(documents)
        return stops - starts

    def take(self, documents: np.ndarray) -> RaggedBatch:
        """The documents with these numbers, int64 and inside the corpus."""
        starts, stops = self._bounds(documents)
        lengths = stops - starts
        offsets = offsets_of(lengths)
        found: dict[str, np.ndarray] = {}
        for name in self.fields:
            if name == "document_ids":
                found[name] = np.repeat(documents, lengths)
            elif name == "position_ids":
                found[name] = np.arange(offsets[-1], dtype=np.int64) - np.repeat(offsets[:-1], lengths)
            else:
                column = self.store.field(name)
                found[name] = read_ragged(column.get_slice, starts, stops, column.dtype)
        values = read_ragged(self.store.get_slice, starts, stops, self.dtype)
        return RaggedBatch(values, offsets, documents, found)

    def form(self) -> dict[str, Any]:
        """What decides the form of a batch."""
        return {"dtype": self.dtype, "fields": _field_dtypes(self.store, self.fields)}

    def _bounds(self, documents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        starts, stops = self.store.documents.bounds(documents)
        return starts, stops - (self.boundary == "drop")


class RecordDataset:
    """A corpus as dense rows: record i is the tokens [i * length, (i + 1) * length).

    `dataset[3]` is (length,), `dataset[2:5]` and `dataset[[0, 5, 2]]` are (B, length); with fields a `Sample`.
    It does not own the store.

    Args:
        store: the corpus.
        length: tokens per record; a choice of the reader, nothing is stored about it.
        fields: names of per-token values; `document_ids` and `position_ids` are made.
        dtype: integer type of the ids; default: the stored one.

    Raises:
        KeyError: a field that the corpus does not have.
        ValueError: an option that does not fit.
    """

    def __init__(
        self,
        store: MmapTokenStore,
        length: int,
        *,
        fields: Sequence[str] = (),
        dtype: DTypeLike | None = None,
    ) -> None:
        self.length = operator.index(length)
        if self.length < 1:
            raise ValueError(f"length is {length}, expected 1 or more")
        self.store = checked_store(store)
        self.fields = names_of(fields, "fields")
        self.dtype = store.dtype if dtype is None else np.dtype(dtype)
        store.check_dtype(self.dtype)
        for name in self.fields:
            if name not in _COMPUTED:
                store.field(name)

    def __len__(self) -> int:
        """Whole records in the corpus."""
        return len(self.store) // self.length

    def form(self) -> dict[str, Any]:
        """What decides the form of a batch."""
        fields = _field_dtypes(self.store, self.fields)
        return {"length": self.length, "dtype": self.dtype, "fields": fields}

    @property
    def tail_tokens(self) -> int:
        """Tokens behind the last whole record, which belong to none."""
        return len(self.store) % self.length

    def __getitem__(self, item: SupportsIndex | slice | ArrayLike) -> np.ndarray | Sample:
        """One record, or those of a slice, a list of numbers or a mask.

        Raises:
            IndexError: a record outside the corpus.
        """
        if not is_number(item):
            return self.take(item_numbers(item, len(self)))
        found = self.take(np.array([item_number(item, len(self))], np.int64))
        if isinstance(found, Sample):
            return Sample(found.ids[0], {name: values[0] for name, values in found.fields.items()})
        return found[0]

    def __getitems__(self, numbers: Sequence[int]) -> list[np.ndarray | Sample]:
        """One sample for each number, read together: what torch's DataLoader asks for."""
        found = self.take(item_numbers(np.asarray(numbers, np.int64), len(self)))
        if isinstance(found, Sample):
            rows = range(len(found.ids))
            return [Sample(found.ids[i], {name: v[i] for name, v in found.fields.items()}) for i in rows]
        return list(found)

    def take(self, records: np.ndarray) -> np.ndarray | Sample:
        """The records with these numbers, int64 and inside the corpus."""
        starts = records * self.length
        ids = self.store.gather(starts, self.length, dtype=self.dtype)
        if not self.fields:
            return ids
        return Sample(ids, self.store.gather_fields(self.fields, starts, self.length))


def _field_dtypes(store: MmapTokenStore, names: Sequence[str]) -> dict[str, str]:
    return {name: "int64" if name in _COMPUTED else str(store.field(name).dtype) for name in names}
