"""RaggedBatch: sequences of different lengths laid end to end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from corpus_assets.loading.document_index import offset_dtype


class Sample(NamedTuple):
    """One document or record, or a batch of records, with the fields that were asked for."""

    ids: np.ndarray
    fields: dict[str, np.ndarray]


@dataclass(frozen=True, slots=True, eq=False)
class RaggedBatch:
    """B whole documents, never joined, cut or padded.

    Attributes:
        values: (N,) ids of all documents, end to end.
        cu_seqlens: (B + 1,) where each begins in `values`, then N; int32, int64 from 2^31 values on.
        documents: (B,) int64 numbers of the documents in the corpus.
        fields: (N,) columns aligned with `values`, by name.
    """

    values: np.ndarray
    cu_seqlens: np.ndarray
    documents: np.ndarray
    fields: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        """Documents in the batch."""
        return len(self.documents)

    def __getitem__(self, place: int) -> np.ndarray:
        """The ids of one document, as a view of `values`."""
        if not -len(self) <= place < len(self):
            raise IndexError(f"document is {place} of a batch of {len(self)}")
        place %= len(self)
        return self.values[int(self.cu_seqlens[place]) : int(self.cu_seqlens[place + 1])]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[place] for place in range(len(self)))

    def arrays(self) -> list[np.ndarray]:
        """The ids of each document, as views of `values`."""
        return list(self)


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """(B + 1,) where sequences of these lengths begin when they are laid end to end, then their sum."""
    total = int(lengths.sum())
    offsets = np.zeros(len(lengths) + 1, offset_dtype(total))
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def read_ragged(
    read: Callable[[int, int], np.ndarray], starts: np.ndarray, stops: np.ndarray, dtype: np.dtype
) -> np.ndarray:
    """(N,) values of the stretches [start, stop), end to end.

    They are read in the order of their positions, so that a chunk that several share is decoded once.
    """
    offsets = offsets_of(stops - starts).tolist()
    values = np.empty(offsets[-1], dtype)
    bounds = list(zip(starts.tolist(), stops.tolist(), strict=True))
    for place in np.argsort(starts, kind="stable").tolist():
        start, stop = bounds[place]
        if start < stop:
            values[offsets[place] : offsets[place + 1]] = read(start, stop)
    return values
