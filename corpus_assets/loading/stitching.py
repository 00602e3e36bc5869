"""One batch of the batches of several corpora, its rows in any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from corpus_assets.loading.batches import WindowBatch
from corpus_assets.loading.ragged import RaggedBatch, Sample, offsets_of

Parts = Sequence[tuple[np.ndarray, Any]]


def stitched(parts: Parts) -> Any:
    """The batch whose row places[i] is row i of its part.

    Args:
        parts: (places, batch) of each part; the places of all parts are 0 to B - 1, each once. Batches are of one
            kind: pairs of arrays, `WindowBatch`es, `RaggedBatch`es, arrays or `Sample`s.
    """
    first = parts[0][1]
    if len(parts) == 1:
        return first  # its rows are in order
    if isinstance(first, RaggedBatch):
        return _ragged(parts)
    if isinstance(first, WindowBatch):
        inputs, targets = _rows([(places, batch[:2]) for places, batch in parts])
        width = first.input_ids.shape[1]
        columns = _columns([(places, batch.fields) for places, batch in parts], width)
        return WindowBatch(inputs, targets, columns)
    if isinstance(first, Sample):
        ids = _rows([(places, batch.ids) for places, batch in parts])
        fields = [(places, batch.fields) for places, batch in parts]
        return Sample(ids, _columns(fields, first.ids.shape[1]))
    return _rows(parts)


def with_corpus(batch: Any, name: str, corpora: np.ndarray) -> Any:
    """`batch` with one more field: the corpus of each row; of each id where rows have different lengths."""
    if isinstance(batch, RaggedBatch):
        column = np.repeat(corpora, np.diff(batch.cu_seqlens))
        return RaggedBatch(batch.values, batch.cu_seqlens, batch.documents, {**batch.fields, name: column})
    if isinstance(batch, np.ndarray):
        return Sample(batch, {name: corpora})
    if hasattr(batch, "_fields"):
        return batch._replace(fields={**batch.fields, name: corpora})
    inputs, targets = batch
    return WindowBatch(inputs, targets, {name: corpora})


def _rows(parts: Parts) -> Any:
    first = parts[0][1]
    if isinstance(first, tuple):
        return tuple(_rows([(places, batch[i]) for places, batch in parts]) for i in range(len(first)))
    count = sum(len(places) for places, _ in parts)
    if isinstance(first, list):
        items: list[Any] = [None] * count
        for places, batch in parts:
            for place, item in zip(places.tolist(), batch, strict=True):
                items[place] = item
        return items
    rows = np.empty((count, *first.shape[1:]), first.dtype)
    for places, batch in parts:
        rows[places] = batch
    return rows


def _columns(parts: Parts, width: int) -> dict[str, Any]:
    found = {}
    for name in parts[0][1]:
        own = [(places, fields[name]) for places, fields in parts]
        found[name] = _begins(own, width) if name == "cu_seqlens" else _rows(own)
    return found


def _begins(parts: Parts, width: int) -> np.ndarray:
    """cu_seqlens: each row of `width` begins a sequence, so that rows can be taken apart."""
    begins = [places[offsets[:-1] // width] * width + offsets[:-1] % width for places, offsets in parts]
    total = sum(int(offsets[-1]) for _, offsets in parts)
    return np.append(np.sort(np.concatenate(begins)), total).astype(parts[0][1].dtype)


def _ragged(parts: Parts) -> RaggedBatch:
    batches: list[RaggedBatch] = [batch for _, batch in parts]
    order = np.argsort(np.concatenate([places for places, _ in parts]))
    lengths = np.concatenate([np.diff(batch.cu_seqlens) for batch in batches]).astype(np.int64)
    begins = np.cumsum(lengths) - lengths
    offsets = offsets_of(lengths[order])
    # Where each value of the result stands among those of the parts laid end to end.
    places = np.arange(offsets[-1], dtype=np.int64)
    places += np.repeat(begins[order] - offsets[:-1], lengths[order])
    return RaggedBatch(
        np.concatenate([batch.values for batch in batches])[places],
        offsets,
        np.concatenate([batch.documents for batch in batches])[order],
        {
            name: np.concatenate([batch.fields[name] for batch in batches])[places]
            for name in batches[0].fields
        },
    )
