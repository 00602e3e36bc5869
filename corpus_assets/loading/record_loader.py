"""RecordDataloader: batches of dense rows of a fixed length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from corpus_assets.loading.datasets import RecordDataset
from corpus_assets.loading.epochs import Tail
from corpus_assets.loading.framing import numbers_in
from corpus_assets.loading.item_loader import ItemDataloader
from corpus_assets.loading.order import Order
from corpus_assets.loading.provenance import CorpusRecord
from corpus_assets.loading.skipping import SkipList
from corpus_assets.loading.store import MmapTokenStore

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


class RecordDataloader(ItemDataloader):
    """Yields (batch_size, length) arrays of records, with fields a `Sample`, for ever.

    Args:
        store: the corpus.
        length: tokens per record.
        batch_size: records per batch of one rank.
        seed, order, epoch, tail, skip: see `ItemDataloader`; skip leaves out records that touch what it names.
        rank, world_size, worker, num_workers, prefetch, transform, transform_threads: see `SteppedLoader`.
        dtype: integer type of a batch.
        fields: names of per-token values.

    Raises:
        CorpusTooShortError: a CorpusError and ValueError: the corpus has not one record.
        KeyError: a field that the corpus does not have.
        ValueError: an option that does not fit.
    """

    def __init__(
        self,
        store: MmapTokenStore,
        length: int,
        batch_size: int,
        *,
        seed: int,
        order: Order = "cyclic",
        epoch: int = 0,
        rank: int = 0,
        world_size: int = 1,
        worker: int = 0,
        num_workers: int = 1,
        tail: Tail = "wrap",
        dtype: DTypeLike = np.int64,
        prefetch: int = 0,
        fields: Sequence[str] = (),
        skip: SkipList | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_threads: int = 0,
    ) -> None:
        records = RecordDataset(store, length, fields=fields, dtype=dtype)
        self._length = records.length
        super().__init__(
            records,
            kind="records",
            seed=seed,
            order=order,
            epoch=epoch,
            tail=tail,
            batch_size=batch_size,
            skip=skip,
            options={"length": length, "global_batch": batch_size * world_size},
            rank=rank,
            world_size=world_size,
            worker=worker,
            num_workers=num_workers,
            prefetch=prefetch,
            transform=transform,
            transform_threads=transform_threads,
        )

    def _skipped(self, skip: SkipList) -> np.ndarray:
        store = self._dataset.store
        count = len(self._dataset)
        if skip.windows and skip.windows[-1][1] > count:
            raise IndexError(f"skipped records are {list(skip.windows[-1])}, the corpus has {count}")
        touched = [
            (start // self._length, min(count, (stop - 1) // self._length + 1))
            for start, stop in skip.stretches(store.documents if skip.documents else None)
        ]
        return numbers_in([*touched, *skip.windows])

    def _stretches(self, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return items * self._length, (items + 1) * self._length

    def _other_count(self, other: CorpusRecord) -> int:
        return sum(mark.token_count for mark in other.marks) // self._length
