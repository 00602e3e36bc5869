"""SteppedLoader: what all loaders have in common: an endless stream of batches by step, exactly resumable."""

from __future__ import annotations

import copy
import operator
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from corpus_assets.errors import StateMismatchError
from corpus_assets.loading.prefetch import Prefetcher
from corpus_assets.loading.state import LoaderState
from corpus_assets.loading.transforming import transformed

B = TypeVar("B")


class SteppedLoader(ABC, Generic[B]):
    """Yields one batch per step, for ever; its state counts what was taken, whatever was made ahead.

    Workers split the steps: worker w of W takes the steps s with s = w (mod W), counted from the last `seek` or
    `load_state_dict`. So taking one batch of each worker in turn, from worker 0 on, gives the stream of a single
    loader, also after resuming at a step that is no multiple of W.

    Pickled or forked, it goes on where it stood, with threads of its own.

    Args:
        rank, world_size: which part of each step is this loader's.
        worker, num_workers: which of the steps are this loader's.
        prefetch: batches that a background thread makes ahead; 0 makes them when they are asked for.
        transform: called with each batch; what it returns is yielded. Its exceptions reach the consumer.
        transform_threads: how many batches are transformed at a time; 0 does it where batches are made.

    Raises:
        ValueError: a number that does not fit.
    """

    def __init__(
        self,
        *,
        rank: int,
        world_size: int,
        worker: int,
        num_workers: int,
        prefetch: int,
        transform: Callable[[Any], Any] | None = None,
        transform_threads: int = 0,
    ) -> None:
        rank, world_size, worker, num_workers, prefetch, transform_threads = map(
            operator.index, (rank, world_size, worker, num_workers, prefetch, transform_threads)
        )
        for name, value, least in (
            ("world_size", world_size, 1),
            ("num_workers", num_workers, 1),
            ("prefetch", prefetch, 0),
            ("transform_threads", transform_threads, 0),
        ):
            if value < least:
                raise ValueError(f"{name} is {value}, expected {least} or more")
        for name, value, count in (("rank", rank, world_size), ("worker", worker, num_workers)):
            if not 0 <= value < count:
                raise ValueError(f"{name} is {value}, expected 0 to {count - 1}")
        if transform_threads and transform is None:
            raise ValueError(f"transform_threads is {transform_threads}, but there is no transform")
        self._rank = rank
        self._world_size = world_size
        self._worker = worker
        self._num_workers = num_workers
        self._prefetch = prefetch
        self._transform = transform
        self._transform_threads = transform_threads
        self._first_step = 0
        self._taken = 0
        self._yielded = 0
        self._batches: Iterator[B] | Prefetcher[B] | None = None
        self._process = 0
        self._stop_when_collected: weakref.finalize | None = None

    @abstractmethod
    def _made(self, first_step: int, step_stride: int) -> Iterator[B]:
        """The batches of the steps first_step, first_step + step_stride and so on, for ever."""

    @abstractmethod
    def _epoch_end(self, step: int) -> int:
        """The first step of the epoch behind the one that `step` begins in."""

    @abstractmethod
    def _check_step(self, step: int) -> None:
        """Raise ValueError for a step, 0 or more, that this run does not come to."""

    @abstractmethod
    def _state(self) -> LoaderState:
        """What goes into `state_dict`."""

    @abstractmethod
    def _admit(self, state: LoaderState, *, allow_other_corpus: bool, allow_other_skip: bool) -> None:
        """Raise StateMismatchError unless this loader can go on from `state`; keep what else it says."""

    def mixed_options(self) -> list[tuple[str, Any, Any]]:
        """(name, found, expected) of the options that a mixture chooses itself."""
        return [
            ("rank", self._rank, 0),
            ("world_size", self._world_size, 1),
            ("worker", self._worker, 0),
            ("num_workers", self._num_workers, 1),
            ("prefetch", self._prefetch, 0),
            ("transform", self._transform, None),
        ]

    @property
    def step(self) -> int:
        """The global step that the workers' next round begins with; for one worker, the next step."""
        return self._first_step + self._taken * self._num_workers

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> B:
        """The next batch of this rank and worker."""
        if self._batches is not None and self._process != os.getpid():
            self.close()  # a forked child has no copy of the threads
        if self._batches is None:
            self._batches = self._started()
        try:
            batch = next(self._batches)
        except BaseException:
            self.close()  # so that asking again tries the same step again
            raise
        self._taken += 1
        self._yielded += 1
        return batch

    def rest_of_epoch(self) -> Iterator[B]:
        """The batches of this rank and worker up to the end of the epoch that the next step begins in.

        `for epoch in range(epochs): for batch in loader.rest_of_epoch(): ...` goes through whole epochs, and
        resumed in the middle of one through what is left of it. With tail="wrap" the batch that ends an epoch
        begins the next one too.
        """
        end = self._epoch_end(self.step)
        while self.step + self._worker < end:
            yield next(self)
        if self.step != end:
            self.seek(end)  # the next epoch is dealt out from worker 0 on again

    def epoch_start(self, number: int) -> int:
        """The step at which `rest_of_epoch` begins epoch `number`, counted from this loader's first."""
        step = 0
        for _ in range(number):
            step = self._epoch_end(step)
        return step

    def epoch_end(self, step: int) -> int:
        """The step at which `rest_of_epoch` ends the epoch that `step` begins in."""
        return self._epoch_end(step)

    def as_worker(self, worker: int, num_workers: int) -> Self:
        """A loader of the same batches that takes its share of the steps, from where this one stands."""
        if not 0 <= worker < num_workers:
            raise ValueError(f"worker is {worker}, expected 0 to {num_workers - 1}")
        own = copy.copy(self)
        own._worker, own._num_workers = worker, num_workers
        own._first_step, own._taken = self.step, 0
        return own

    def _started(self) -> Iterator[B] | Prefetcher[B]:
        self._process = os.getpid()
        # Made by a copy: a thread that held the loader would keep it from being collected.
        batches = copy.copy(self)._made(self.step + self._worker, self._num_workers)
        if self._transform is not None:
            batches = transformed(batches, self._transform, threads=self._transform_threads)
        if not self._prefetch:
            return batches
        prefetcher = Prefetcher(batches, depth=self._prefetch)
        self._stop_when_collected = weakref.finalize(self, prefetcher.stop)
        return prefetcher

    def seek(self, step: int) -> None:
        """Go to a global step, in constant time; batches made ahead are dropped.

        Raises:
            ValueError: a negative step, one that no run comes to, or one before the skip list was changed in the
                middle of a run.
        """
        step = operator.index(step)
        if step < 0:
            raise ValueError(f"step is {step}, expected 0 or more")
        self._check_step(step)
        self.close()
        self._first_step, self._taken = step, 0

    def state_dict(self) -> dict[str, Any]:
        """What the trainer has consumed, whatever was made ahead; JSON can hold it."""
        return self._state().to_dict()

    def load_state_dict(
        self, state: Mapping[str, Any], *, allow_other_corpus: bool = False, allow_other_skip: bool = False
    ) -> None:
        """Go on from a state, also one of another rank, world size or number of workers at this global batch.

        With several workers a state says where a whole round of them begins: save it after a batch of the last
        worker, or save the state of each worker and give it back to the same one.

        Args:
            state: what `state_dict` gave.
            allow_other_corpus: accept a state of another corpus where all that was consumed so far is proven to
                be the same here: it comes at the same steps, at the same positions, from shards of equal
                content. So a corpus that only grew behind what a sequential run has read is accepted, and one in
                which a shard was replaced by one of equal size that no window has touched yet.
            allow_other_skip: go on with this loader's skip list although the state has another: what comes next
                is what would have come next, without what is now left out.

        Raises:
            StateMismatchError: a state of another corpus, naming both fingerprints and the shards that differ, or
                of another order, naming both values of each option; the loader stays where it was.
        """
        loaded = LoaderState.from_dict(state)
        own = self._state()
        loaded.refuse_other_order(own)
        if not allow_other_corpus:
            loaded.refuse_other_corpus(own)
        if not allow_other_skip:
            loaded.refuse_other_skip(own)
        try:
            self._admit(loaded, allow_other_corpus=allow_other_corpus, allow_other_skip=allow_other_skip)
        except (
            IndexError,
            ValueError,
        ) as error:  # a skip list of another corpus, or one that cannot change here
            raise StateMismatchError(f"loader state: {error}") from error
        self.seek(loaded.step)

    def close(self) -> None:
        """Stop making batches ahead; the next batch asked for starts it again. The store stays open."""
        batches, self._batches = self._batches, None
        if isinstance(batches, Prefetcher):
            batches.stop()
        if self._stop_when_collected is not None:
            self._stop_when_collected.detach()
            self._stop_when_collected = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_batches": None, "_stop_when_collected": None}
