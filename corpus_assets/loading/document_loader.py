"""DocumentDataloader: batches of whole documents, by count or by a budget of tokens."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from corpus_assets.errors import StateMismatchError
from corpus_assets.loading.budget import BudgetPlan, Cursor
from corpus_assets.loading.datasets import DocumentDataset
from corpus_assets.loading.epochs import EpochOrder, Tail
from corpus_assets.loading.item_loader import ItemDataloader
from corpus_assets.loading.order import Order
from corpus_assets.loading.provenance import CorpusRecord
from corpus_assets.loading.skipping import SkipList
from corpus_assets.loading.state import LoaderState
from corpus_assets.loading.store import MmapTokenStore

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


class DocumentDataloader(ItemDataloader):
    """Yields `RaggedBatch`es of whole documents for ever; padding or packing is the collator's.

    By count every batch has `batch_size` documents. By budget a batch takes documents as long as they have
    `max_tokens` together; one that is longer is a batch of its own, never cut. Each step has one batch for each
    rank, so that all ranks make the same number of steps.

    By count, `seek` takes constant time. By budget a step's place depends on the lengths of all documents before
    it, so `seek` reads lengths from where it is known; a state has the place and resumes at once.

    Args:
        store: the corpus.
        batch_size: documents per batch of one rank.
        max_tokens: most ids in a batch, instead of batch_size.
        seed, order, epoch, tail, skip: see `ItemDataloader`; by budget tail="pad" fills the last step of an
            epoch with the batches that it began with, and "drop" leaves that step out.
        rank, world_size, worker, num_workers, prefetch, transform, transform_threads: see `SteppedLoader`.
        dtype: integer type of the ids.
        fields, boundary: see `DocumentDataset`.

    Raises:
        CorpusTooShortError: a CorpusError and ValueError: the corpus has no documents.
        KeyError: a field that the corpus does not have.
        ValueError: an option that does not fit.
    """

    _unit = "document_count"

    def __init__(
        self,
        store: MmapTokenStore,
        batch_size: int | None = None,
        *,
        max_tokens: int | None = None,
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
        boundary: str = "keep",
        skip: SkipList | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_threads: int = 0,
    ) -> None:
        if (batch_size is None) == (max_tokens is None):
            raise ValueError(
                f"batch_size is {batch_size}, max_tokens is {max_tokens}, expected one of the two"
            )
        self._max_tokens = None if max_tokens is None else operator.index(max_tokens)
        if self._max_tokens is not None and self._max_tokens < 1:
            raise ValueError(f"max_tokens is {max_tokens}, expected 1 or more")
        self._documents = DocumentDataset(store, fields=fields, boundary=boundary, dtype=dtype)
        by_budget: dict[str, str | int] = {"max_tokens": self._max_tokens or 0, "boundary": boundary}
        super().__init__(
            self._documents,
            kind="documents",
            seed=seed,
            order=order,
            epoch=epoch,
            tail=tail,
            batch_size=1 if batch_size is None else batch_size,
            skip=skip,
            options=by_budget if batch_size is None else {"global_batch": batch_size * world_size},
            rank=rank,
            world_size=world_size,
            worker=worker,
            num_workers=num_workers,
            prefetch=prefetch,
            transform=transform,
            transform_threads=transform_threads,
        )
        # A step whose place is known, and that place; and the places of batches that are made and not yet taken.
        self._known = 0, Cursor(0, 0)
        self._upcoming: deque[tuple[int, Cursor]] = deque()

    @property
    def max_tokens(self) -> int | None:
        """The budget of a batch; None where documents are counted."""
        return self._max_tokens

    @property
    def steps_per_epoch(self) -> int:
        """Steps in which an epoch's documents have all been seen; with tail="drop" its whole batches.

        Raises:
            ValueError: batches by budget: epochs have different numbers of steps.
        """
        if self._max_tokens is not None:
            raise ValueError("batches by max_tokens have no fixed number per epoch; use rest_of_epoch")
        return super().steps_per_epoch

    @property
    def current_epoch(self) -> int:
        """Number of the epoch that the next step begins in."""
        if self._max_tokens is None:
            return super().current_epoch
        return self._order.epoch + self._place_of(self.step).epoch

    def _plan(self) -> BudgetPlan:
        assert self._max_tokens is not None
        return BudgetPlan(
            self._order, self._documents.lengths, max_tokens=self._max_tokens, world_size=self._world_size
        )

    def _made(self, first_step: int, step_stride: int) -> Iterator[Any]:
        if self._max_tokens is None:
            return super()._made(first_step, step_stride)
        return self._by_budget(first_step, step_stride, self._place_of(first_step))

    def _started(self) -> Any:
        self._upcoming = deque()  # shared with the copy that makes the batches
        return super()._started()

    def _by_budget(self, step: int, stride: int, start: Cursor) -> Iterator[Any]:
        for number, (cursor, batches) in enumerate(self._plan().rounds(start)):
            if number % stride == 0:
                batch = self._documents.take(batches[self._rank])
                self._upcoming.append((step + number, cursor))
                yield batch

    def __next__(self) -> Any:
        """The next batch of this rank and worker."""
        batch = super().__next__()
        if self._max_tokens is not None:
            self._known = self._upcoming.popleft()
        return batch

    def _place_of(self, step: int) -> Cursor:
        """Where a step begins, found by planning from the nearest known step before it."""
        known, cursor = self._known if self._known[0] <= step else (0, Cursor(0, 0))
        if known == step:
            return cursor
        for number, (found, _) in enumerate(self._plan().rounds(cursor), known):
            if number == step:
                return found
        raise AssertionError("rounds never end")

    def _epoch_end(self, step: int) -> int:
        if self._max_tokens is None:
            return super()._epoch_end(step)
        cursor = self._place_of(step)
        for number, (found, _) in enumerate(self._plan().rounds(cursor), step):
            if found.epoch > cursor.epoch:
                return number
        raise AssertionError("rounds never end")

    def seek(self, step: int) -> None:
        """Go to a global step; by budget lengths are read from the nearest step before it that is known."""
        super().seek(step)
        if self._max_tokens is not None:
            self._known = self.step, self._place_of(self.step)

    def _cursor(self) -> dict[str, int]:
        return super()._cursor() if self._max_tokens is None else self._place_of(self.step)._asdict()

    def _consumed_samples(self, state: LoaderState) -> int:
        if self._max_tokens is None:
            return super()._consumed_samples(state)
        cursor = _cursor_of(state)
        return cursor.epoch * self._order.kept_count + cursor.place

    def _take_cursor(self, state: LoaderState) -> None:
        if self._max_tokens is None:
            super()._take_cursor(state)
            return
        cursor = _cursor_of(state)
        if cursor.place > self._order.kept_count:
            raise StateMismatchError(
                f"loader state: place is {cursor.place} of {self._order.kept_count} documents"
            )
        self._known = state.step, cursor

    def _take_over(self, was: EpochOrder, state: LoaderState) -> None:
        if self._max_tokens is None:
            super()._take_over(was, state)
            return
        cursor = _cursor_of(state)
        self._known = (
            state.step,
            Cursor(cursor.epoch, self._order.place_like(was, cursor.epoch, cursor.place)),
        )

    def _skipped(self, skip: SkipList) -> np.ndarray:
        return skip.documents_of(self._documents.store.documents)

    def _stretches(self, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return items, items + 1

    def _other_count(self, other: CorpusRecord) -> int:
        return sum(mark.document_count for mark in other.marks)


def _cursor_of(state: LoaderState) -> Cursor:
    if min(state.cursor.values()) < 0:
        raise StateMismatchError(f"loader state: cursor is {state.cursor}, expected numbers from 0 on")
    return Cursor(**state.cursor)
