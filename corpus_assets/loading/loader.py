"""SlidingWindowDataloader: an endless, exactly resumable stream of (input_ids, target_ids) batches."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from corpus_assets.loading.advice import access_for, memory_size
from corpus_assets.loading.batches import Batch, BatchBuilder
from corpus_assets.loading.order import Order, SampleOrder, Tail
from corpus_assets.loading.prefetch import Prefetcher
from corpus_assets.loading.state import LoaderState
from corpus_assets.loading.store import MmapTokenStore

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


class SlidingWindowDataloader:
    """Yields (input_ids, target_ids), each (batch_size, window_size), for ever; targets are inputs shifted by one.

    Its batches are a function of the corpus, window_size, stride, seed, order, epoch, tail and the global batch of
    batch_size * world_size samples. In every epoch each window is seen once over all ranks and workers.

    Workers split the steps: worker w of W takes the steps s with s = w (mod W), counted from the last `seek` or
    `load_state_dict`. So taking one batch of each worker in turn, from worker 0 on, gives the stream of a single
    loader, also after resuming at a step that is no multiple of W.

    It does not own the store. Pickled or forked, it goes on where it stood, with a thread of its own.

    Args:
        store: the corpus.
        window_size: tokens per input; a window spans one more.
        batch_size: windows per batch of one rank.
        seed: 0 to 2^64 - 1.
        order: `random`, `sequential` or `cyclic`; see `SampleOrder`.
        stride: distance between windows; default: window_size.
        epoch: number of the first epoch.
        rank: which part of each global batch is this loader's, below world_size.
        world_size: parts of a global batch.
        worker: which of the steps are this loader's, below num_workers.
        num_workers: loaders that share a rank's steps.
        tail: `wrap`, `drop` or `pad`: what follows an epoch's last whole global batch; see `SampleOrder`.
        dtype: integer type of a batch.
        ignore_index: replaces targets that are the boundary, such as -100 for cross entropy; None keeps them.
        prefetch: batches that a background thread makes ahead; 0 makes them when they are asked for.
        buffers: arrays of the caller that batches are written into in turn, for example pinned memory. A batch
            is valid until the next one is asked for. At least prefetch + 2 pairs with prefetch, else at least 1.

    Raises:
        CorpusTooShortError: a CorpusError and ValueError: the corpus has not one window.
        ValueError: an option that does not fit.
    """

    def __init__(
        self,
        store: MmapTokenStore,
        window_size: int,
        batch_size: int,
        *,
        seed: int,
        order: Order = "random",
        stride: int | None = None,
        epoch: int = 0,
        rank: int = 0,
        world_size: int = 1,
        worker: int = 0,
        num_workers: int = 1,
        tail: Tail = "wrap",
        dtype: DTypeLike = np.int64,
        ignore_index: int | None = None,
        prefetch: int = 0,
        buffers: Sequence[Batch] | None = None,
    ) -> None:
        window_size, batch_size, seed, epoch = map(operator.index, (window_size, batch_size, seed, epoch))
        stride = window_size if stride is None else operator.index(stride)
        for name, value, least in (
            ("window_size", window_size, 1),
            ("batch_size", batch_size, 1),
            ("world_size", world_size, 1),
            ("num_workers", num_workers, 1),
            ("prefetch", prefetch, 0),
        ):
            if value < least:
                raise ValueError(f"{name} is {value}, expected {least} or more")
        for name, value, count in (("rank", rank, world_size), ("worker", worker, num_workers)):
            if not 0 <= value < count:
                raise ValueError(f"{name} is {value}, expected 0 to {count - 1}")
        self._order = SampleOrder(
            token_count=len(store),
            window_size=window_size,
            stride=stride,
            order=order,
            seed=seed,
            epoch=epoch,
            tail=tail,
            global_batch=batch_size * world_size,
        )
        self._dtype = np.dtype(dtype)
        _check_dtype(store, self._dtype, ignore_index)
        self._buffers = None if buffers is None else list(buffers)
        if self._buffers is not None:
            _check_buffers(self._buffers, (batch_size, window_size), self._dtype, prefetch)
        self._builder = BatchBuilder(
            store, self._order, rank=rank, batch_size=batch_size, dtype=self._dtype, ignore_index=ignore_index
        )
        access = access_for(order, corpus_bytes=len(store) * store.dtype.itemsize, memory_bytes=memory_size())
        if access != "normal":
            store.advise(access)
        self._fingerprint = store.fingerprint
        self._worker = worker
        self._num_workers = num_workers
        self._prefetch = prefetch
        self._first_step = 0
        self._taken = 0
        self._yielded = 0
        self._batches: Iterator[Batch] | Prefetcher[Batch] | None = None
        self._stop_when_collected: weakref.finalize | None = None

    @property
    def window_count(self) -> int:
        """Windows per epoch, over all ranks and workers."""
        return self._order.window_count

    @property
    def steps_per_epoch(self) -> int:
        """Steps in which an epoch's windows have all been seen; with tail="drop" its whole batches."""
        return self._order.steps_per_epoch

    @property
    def step(self) -> int:
        """The global step that the workers' next round begins with; for one worker, the next step."""
        return self._first_step + self._taken * self._num_workers

    def __iter__(self) -> SlidingWindowDataloader:
        return self

    def __next__(self) -> Batch:
        """The next batch of this rank and worker."""
        if isinstance(self._batches, Prefetcher) and not self._batches.usable:
            self.close()  # a forked child has no copy of the thread
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

    def _started(self) -> Iterator[Batch] | Prefetcher[Batch]:
        batches = _batches(
            self._builder,
            self._buffers,
            first_step=self.step + self._worker,
            step_stride=self._num_workers,
            first_buffer=self._yielded,
        )
        if not self._prefetch:
            return batches
        prefetcher = Prefetcher(batches, depth=self._prefetch)
        self._stop_when_collected = weakref.finalize(self, prefetcher.stop)
        return prefetcher

    def seek(self, step: int) -> None:
        """Go to a global step, in constant time; batches made ahead are dropped."""
        if step < 0:
            raise ValueError(f"step is {step}, expected 0 or more")
        self.close()
        self._first_step, self._taken = step, 0

    def state_dict(self) -> dict[str, Any]:
        """What the trainer has consumed, whatever was made ahead; JSON can hold it."""
        return self._state().to_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, also one of another rank, world size or number of workers at this global batch.

        With several workers a state says where a whole round of them begins: save it after a batch of the last
        worker, or save the state of each worker and give it back to the same one.

        Raises:
            StateMismatchError: a state of another corpus, naming both fingerprints, or of another order, naming
                both values of each option; the loader stays where it was.
        """
        loaded = LoaderState.from_dict(state)
        loaded.refuse_other(self._state())
        self.seek(loaded.step)

    def _state(self) -> LoaderState:
        order = self._order
        return LoaderState(
            fingerprint=self._fingerprint,
            window_size=order.window_size,
            stride=order.stride,
            order=order.order,
            seed=order.seed,
            epoch=order.epoch,
            tail=order.tail,
            global_batch=order.global_batch,
            step=self.step,
        )

    def close(self) -> None:
        """Stop making batches ahead; the next batch asked for starts it again. The store stays open."""
        batches, self._batches = self._batches, None
        if isinstance(batches, Prefetcher):
            batches.stop()
        if self._stop_when_collected is not None:
            self._stop_when_collected.detach()
            self._stop_when_collected = None

    def __enter__(self) -> SlidingWindowDataloader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_batches": None, "_stop_when_collected": None}


def _batches(
    builder: BatchBuilder,
    buffers: list[Batch] | None,
    *,
    first_step: int,
    step_stride: int,
    first_buffer: int,
) -> Iterator[Batch]:
    for number, starts in enumerate(builder.starts(first_step, step_stride), first_buffer):
        batch = builder.new() if buffers is None else buffers[number % len(buffers)]
        builder.fill(batch, starts)
        yield batch
        del batch  # whose memory may serve the next one


def _check_dtype(store: MmapTokenStore, dtype: np.dtype, ignore_index: int | None) -> None:
    store.check_dtype(dtype)
    if ignore_index is not None:
        limits = np.iinfo(dtype)
        if not limits.min <= ignore_index <= limits.max:
            raise ValueError(
                f"ignore_index is {ignore_index}, dtype {dtype} holds {limits.min} to {limits.max}"
            )


def _check_buffers(buffers: Sequence[Batch], shape: tuple[int, int], dtype: np.dtype, prefetch: int) -> None:
    least = prefetch + 2 if prefetch else 1
    if len(buffers) < least:
        raise ValueError(f"found {len(buffers)} buffers, expected at least {least} with prefetch={prefetch}")
    for pair in buffers:
        for buffer in pair:
            if buffer.shape != shape or buffer.dtype != dtype or not buffer.flags.writeable:
                raise ValueError(
                    f"a buffer is {buffer.dtype} of shape {buffer.shape}, "
                    f"expected a writable one, {dtype} of shape {shape}"
                )
