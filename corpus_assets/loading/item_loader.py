"""ItemDataloader: what loaders of numbered samples have in common."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import cached_property
from functools import partial as partial_of
from typing import Any, Protocol

import numpy as np

from corpus_assets.loading.consumed import refuse_unproven_items
from corpus_assets.loading.epochs import CorpusTooShortError, EpochOrder, Tail
from corpus_assets.loading.order import Order, scheme_of
from corpus_assets.loading.provenance import CorpusRecord
from corpus_assets.loading.skipping import SkipList
from corpus_assets.loading.state import LoaderState
from corpus_assets.loading.stepped import SteppedLoader
from corpus_assets.loading.store import MmapTokenStore

TOKENS = "tokens"
_PLANNED_SAMPLES = 4096


class Dataset(Protocol):
    """Numbered samples of one corpus."""

    @property
    def store(self) -> MmapTokenStore:
        """The corpus."""

    def __len__(self) -> int: ...

    def take(self, numbers: np.ndarray) -> Any:
        """A batch of the samples with these numbers."""

    def form(self) -> dict[str, Any]:
        """What decides the form of a batch."""


class ItemDataloader(SteppedLoader[Any]):
    """Yields batches of a dataset's samples by step, for ever; see `SteppedLoader` for workers, threads and resuming.

    Args:
        dataset: the samples.
        kind: what they are, in the plural.
        seed: 0 to 2^64 - 1.
        order: `sequential`; `cyclic` or `random`, which are one thing for samples that cannot move: a permutation
            of all for each epoch; `replacement`: each sample any of them, drawn for itself.
        epoch, tail: see `EpochOrder`.
        batch_size: samples per batch of one rank.
        skip: what is left out.
        options: what else decides the order, for the state.
        rank, world_size, worker, num_workers, prefetch, transform, transform_threads: see `SteppedLoader`.
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        kind: str,
        seed: int,
        order: Order,
        epoch: int,
        tail: Tail,
        batch_size: int,
        skip: SkipList | None,
        options: dict[str, str | int],
        rank: int,
        world_size: int,
        worker: int,
        num_workers: int,
        prefetch: int,
        transform: Callable[[Any], Any] | None,
        transform_threads: int,
    ) -> None:
        seed, epoch, batch_size = map(operator.index, (seed, epoch, batch_size))
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, expected 1 or more")
        scheme = scheme_of(order)
        super().__init__(
            rank=rank,
            world_size=world_size,
            worker=worker,
            num_workers=num_workers,
            prefetch=prefetch,
            transform=transform,
            transform_threads=transform_threads,
        )
        if len(dataset) == 0:
            raise CorpusTooShortError(f"the corpus has {len(dataset.store)} tokens and no {kind}")
        self._dataset = dataset
        self._kind = kind
        self._batch_size = batch_size
        self._skip = SkipList.given(skip, len(dataset.store))
        self._make_order = partial_of(
            EpochOrder,
            len(dataset),
            scheme=scheme,
            seed=seed,
            epoch=epoch,
            tail=tail,
            global_batch=batch_size * self._world_size,
            what=kind,
        )
        self._order = self._make_order(skipped=self._skipped(self._skip))
        self._options: dict[str, str | int] = {"order": order, "seed": seed, "epoch": epoch, "tail": tail}
        self._options |= {
            name: value if isinstance(value, str) else operator.index(value)
            for name, value in options.items()
        }

    @property
    def item_count(self) -> int:
        """Samples per epoch, over all ranks and workers; skipped ones not counted."""
        return self._order.kept_count

    def _skipped(self, skip: SkipList) -> np.ndarray:
        """(S,) int64 numbers of the samples that are left out, sorted."""
        raise NotImplementedError

    def _stretches(self, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First and last unit, as in `_unit`, of each sample."""
        raise NotImplementedError

    def _other_count(self, other: CorpusRecord) -> int:
        """How many samples another corpus has."""
        raise NotImplementedError

    _unit = "token_count"

    def _made(self, first_step: int, step_stride: int) -> Iterator[Any]:
        steps_at_once = self._order.steps_to_plan(_PLANNED_SAMPLES, batch_size=self._batch_size)
        while True:
            steps = [first_step + i * step_stride for i in range(steps_at_once)]
            places = self._order.places(steps, rank=self._rank, batch_size=self._batch_size)
            for items in self._order.items(*places):
                yield self._dataset.take(items)
            first_step += steps_at_once * step_stride

    @property
    def store(self) -> MmapTokenStore:
        """The corpus."""
        return self._dataset.store

    @property
    def sample_order(self) -> EpochOrder:
        """The samples' numbers in order."""
        return self._order

    def plan_samples(self, numbers: np.ndarray) -> tuple[np.ndarray, ...]:
        """Which samples have these numbers, counted from the run's first; see `read_samples`."""
        return (self._order.items(*self._order.places_of(self._order.origin + numbers)),)

    def read_samples(self, items: np.ndarray) -> Any:
        """The samples that `plan_samples` found, as a batch."""
        return self._dataset.take(items)

    def mixed_options(self) -> list[tuple[str, Any, Any]]:
        """See `SteppedLoader`."""
        own = [("batch_size", self._batch_size, 1), ("tail", self._order.tail, "wrap")]
        return [*super().mixed_options(), *own]

    def batch_form(self) -> dict[str, Any]:
        """What two loaders must have in common for their batches to be of one form."""
        return {"batches of": self._kind, **self._dataset.form()}

    def _epoch_end(self, step: int) -> int:
        return self._order.epoch_end(step)

    @property
    def steps_per_epoch(self) -> int:
        """Steps in which an epoch's samples have all been seen; with tail="drop" its whole batches."""
        return self._order.steps_per_epoch

    @property
    def current_epoch(self) -> int:
        """Number of the epoch that the next step begins in."""
        return self._order.epoch + self._order.epoch_at(self.step)

    def _check_step(self, step: int) -> None:
        self._order.check_step(step)

    @cached_property
    def _corpora(self) -> dict[str, CorpusRecord]:
        return {TOKENS: CorpusRecord.of(self._dataset.store.index)}

    def _cursor(self) -> dict[str, int]:
        return {"origin": self._order.origin}

    def _consumed_samples(self, state: LoaderState) -> int:
        return state.cursor["origin"] + state.step * self._order.global_batch

    def _state(self) -> LoaderState:
        skip = self._skip.to_dict()
        return LoaderState(
            kind=self._kind,
            corpora=self._corpora,
            options=self._options,
            step=self.step,
            skip={TOKENS: skip} if skip else {},
            cursor=self._cursor(),
        )

    def _admit(self, state: LoaderState, *, allow_other_corpus: bool, allow_other_skip: bool) -> None:
        del allow_other_corpus, allow_other_skip  # already refused where they are not
        own, found = self._corpora[TOKENS], state.corpora[TOKENS]
        if own.fingerprint != found.fingerprint:
            refuse_unproven_items(
                found,
                own,
                state,
                self._order,
                samples=self._consumed_samples(state),
                other_count=self._other_count(found),
                unit=self._unit,
                stretches=self._stretches,
            )
        if state.skip == self._state().skip:
            self._take_cursor(state)
            return
        skip = SkipList.from_dict(state.skip.get(TOKENS, {})).check(len(self._dataset.store))
        was = self._make_order(skipped=self._skipped(skip))
        was.begin_at(state.cursor.get("origin", 0), state.step)
        self._take_over(was, state)

    def _take_cursor(self, state: LoaderState) -> None:
        self._order.begin_at(state.cursor["origin"], state.step)

    def _take_over(self, was: EpochOrder, state: LoaderState) -> None:
        self._order.take_over(was, state.step)
