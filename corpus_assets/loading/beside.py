"""What a batch of windows carries beside its tokens: fields, document ids, annotations, windows of other streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from corpus_assets.loading.columns import COMPUTED_FIELDS
from corpus_assets.loading.document_index import offset_dtype
from corpus_assets.loading.requests import checked_store
from corpus_assets.loading.store import MmapTokenStore

LOSS_MASK = "loss_mask"
NO_DOCUMENT = -1

Gather = Callable[[np.ndarray, int], np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Which columns a loader yields, and of which tokens.

    Attributes:
        fields: names of columns of the inputs; `loss_mask` among them is one of the targets, whose loss it masks.
        target_fields: names of columns of the targets, such as weights of the loss.
        spans: names of annotations of the inputs.
        streams: other corpora of the same length, by name; a name in `fields` or `target_fields` may be one.
    """

    fields: tuple[str, ...] = ()
    target_fields: tuple[str, ...] = ()
    spans: tuple[str, ...] = ()
    streams: Mapping[str, MmapTokenStore]

    def __post_init__(self) -> None:
        names = [*self.fields, *self.target_fields, *self.spans]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"{twice[0]} is asked for twice, expected each name once")
        if odd := sorted(set(self.target_fields) & set(COMPUTED_FIELDS)):
            raise ValueError(f"{odd[0]} is about the inputs, expected it in fields")
        if unused := sorted(self.streams.keys() - set(names)):
            raise ValueError(f"stream {unused[0]} is in neither fields nor target_fields")

    def __bool__(self) -> bool:
        return bool(self.fields or self.target_fields or self.spans)

    def check(self, store: MmapTokenStore) -> None:
        """Raise unless the columns exist and every stream is as long as the corpus.

        Raises:
            KeyError: a name that neither the corpus nor the streams have.
            ValueError: a stream of another length, or one with the name of a field.
        """
        for name, stream in self.streams.items():
            if len(checked_store(stream, f"stream {name}")) != len(store):
                raise ValueError(f"stream {name} has {len(stream)} tokens, the corpus has {len(store)}")
            if name in COMPUTED_FIELDS or any(name in shard.fields for shard in store.index.shards):
                raise ValueError(f"stream {name} has the name of a field, expected another name")
        for name in (*self.fields, *self.target_fields):
            if name not in COMPUTED_FIELDS and name not in self.streams:
                store.field(name)
        for name in self.spans:
            store.span_index(name)

    def form(self, store: MmapTokenStore) -> dict[str, Any]:
        """The names of all columns, with the dtype of each."""
        return {
            "fields": {
                name: "int64"
                if name in COMPUTED_FIELDS
                else str(self.streams[name].dtype if name in self.streams else store.field(name).dtype)
                for name in (*self.fields, *self.target_fields)
            },
            "spans": list(self.spans),
        }

    def read(
        self, store: MmapTokenStore, starts: np.ndarray, lengths: np.ndarray | None, window_size: int
    ) -> dict[str, Any]:
        """The columns of the windows at `starts` by name, each (B, window_size).

        `cu_seqlens` has a shape of its own, see `DocumentIndex`; annotations are a list for each window. Where a
        window is shorter, the rest is 0, and -1 in `document_ids`.
        """
        found: dict[str, Any] = {}
        for name in (*self.fields, *self.target_fields):
            shift = int(name in self.target_fields or name == LOSS_MASK)
            if name == "cu_seqlens":
                found[name] = self._cu_seqlens(store, starts, lengths, window_size)
                continue
            fill = NO_DOCUMENT if name == "document_ids" else 0
            sizes = None if lengths is None else lengths - 1
            found[name] = padded(
                self._gather(store, name),
                starts + shift,
                sizes,
                window_size,
                fill=fill,
                token_count=len(store),
            )
        for name in self.spans:
            sizes = np.full(len(starts), window_size) if lengths is None else lengths - 1
            stops = np.minimum(starts + sizes, len(store))
            found[name] = [
                store.spans(name, start, stop)
                for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
            ]
        return found

    def _gather(self, store: MmapTokenStore, name: str) -> Gather:
        if name in self.streams:
            return self.streams[name].gather
        if name in COMPUTED_FIELDS:
            gather: Gather = getattr(store.documents, name)
            return gather
        return store.field(name).gather

    @staticmethod
    def _cu_seqlens(
        store: MmapTokenStore, starts: np.ndarray, lengths: np.ndarray | None, window_size: int
    ) -> np.ndarray:
        if lengths is None:
            return store.documents.cu_seqlens(starts, window_size)
        gather = store.documents.document_ids
        ids = padded(gather, starts, lengths - 1, window_size, fill=NO_DOCUMENT, token_count=len(store))
        begins = np.ones(ids.shape, bool)
        begins[:, 1:] = ids[:, 1:] != ids[:, :-1]
        return np.append(begins.ravel().nonzero()[0], ids.size).astype(offset_dtype(ids.size))


def padded(
    gather: Gather,
    starts: np.ndarray,
    lengths: np.ndarray | None,
    size: int,
    *,
    fill: int,
    token_count: int,
) -> np.ndarray:
    """(B, size) values of windows of which some are shorter than `size`, `fill` behind them.

    Args:
        gather: gives (B, n) values of whole windows inside the corpus.
        starts: (B,) int64.
        lengths: (B,) values to keep of each window; None where all are whole.
        size: columns of the result.
        fill: what stands behind a shorter window.
        token_count: tokens in the corpus.
    """
    if lengths is None:
        return gather(starts, size)
    fits = starts + size <= token_count
    whole = gather(starts[fits], size)
    values = whole
    if not fits.all():
        values = np.full((len(starts), size), fill, whole.dtype)
        values[fits] = whole
        for row in (~fits).nonzero()[0].tolist():
            left = token_count - int(starts[row])
            values[row, :left] = gather(starts[row : row + 1], left)[0]
    values[np.arange(size) >= lengths[:, None]] = fill
    return values
