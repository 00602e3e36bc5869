"""SlidingWindowDataloader: an endless, exactly resumable stream of (input_ids, target_ids) batches."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from functools import partial as partial_of
from typing import TYPE_CHECKING, Any

import numpy as np

from corpus_assets.loading.advice import access_for, memory_size
from corpus_assets.loading.batches import Batch, BatchBuilder, WindowBatch
from corpus_assets.loading.beside import Beside
from corpus_assets.loading.consumed import refuse_unproven_windows
from corpus_assets.loading.epochs import EpochOrder, Tail
from corpus_assets.loading.framing import WindowGrid
from corpus_assets.loading.options import check_buffers, check_dtype, framing_of
from corpus_assets.loading.order import Order, WindowOrder, moves
from corpus_assets.loading.provenance import CorpusRecord
from corpus_assets.loading.requests import checked_store, item_numbers, names_of
from corpus_assets.loading.skipping import SkipList
from corpus_assets.loading.state import LoaderState
from corpus_assets.loading.stepped import SteppedLoader
from corpus_assets.loading.store import MmapTokenStore

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

TOKENS = "tokens"


class SlidingWindowDataloader(SteppedLoader[Any]):
    """Yields (input_ids, target_ids), each (batch_size, window_size), for ever; targets are inputs shifted by one.

    Where fields, annotations or streams are asked for, it yields a `WindowBatch` with them as a third item.

    Its batches are a function of the corpus, window_size, stride, seed, order, epoch, tail, skip and the global
    batch of batch_size * world_size samples. In every epoch each window is seen once over all ranks and workers, unless they
    are drawn with replacement.
    How workers split the steps: `SteppedLoader`. It does not own the store.

    Args:
        store: the corpus.
        window_size: tokens per input; a window spans one more.
        batch_size: windows per batch of one rank.
        seed: 0 to 2^64 - 1.
        order: `random`, `sequential`, `cyclic` or `replacement`; see `WindowOrder`.
        stride: distance between windows; default: window_size.
        epoch: number of the first epoch.
        rank: which part of each global batch is this loader's, below world_size.
        world_size: parts of a global batch.
        worker: which of the steps are this loader's, below num_workers.
        num_workers: loaders that share a rank's steps.
        tail: `wrap`, `drop` or `pad`: what follows an epoch's last whole global batch; see `EpochOrder`.
        dtype: integer type of a batch.
        ignore_index: replaces targets that are the boundary, such as -100 for cross entropy; None keeps them.
        prefetch: batches that a background thread makes ahead; 0 makes them when they are asked for.
        buffers: arrays of the caller that batches are written into in turn, for example pinned memory. A batch
            is valid until the next one is asked for. At least one pair more than are made ahead: with prefetch
            or transform_threads, prefetch + transform_threads + 2.
        cross_documents: `join` lets a window run over the documents that follow each other; `split` makes windows
            that never cross a document, the last of each document padded. It takes no stride.
        partial: what is behind the last whole window, `tail_tokens` many tokens: `drop` leaves it out of every
            epoch, `pad` makes a padded window of it.
        fields: names of per-token values of the inputs, stored ones, `document_ids`, `position_ids`, `cu_seqlens`
            or streams; `loss_mask` is given for the targets.
        target_fields: names of per-token values of the targets.
        spans: names of annotations; each window gets those of its inputs, clipped to it.
        streams: other corpora of the same length by name, to be named in fields or target_fields.
        skip: what is left out.
        transform: called with each batch; what it returns is yielded.
        transform_threads: how many batches are transformed at a time; 0 does it where batches are made.

    In a padded window inputs are the boundary, targets are ignore_index (-100 where it is None), fields 0.

    Raises:
        CorpusTooShortError: a CorpusError and ValueError: the corpus has not one window.
        KeyError: a field or annotation that the corpus does not have.
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
        cross_documents: str = "join",
        partial: str = "drop",
        fields: Sequence[str] = (),
        target_fields: Sequence[str] = (),
        spans: Sequence[str] = (),
        streams: Mapping[str, MmapTokenStore] | None = None,
        skip: SkipList | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_threads: int = 0,
    ) -> None:
        window_size, batch_size, seed, epoch = map(operator.index, (window_size, batch_size, seed, epoch))
        for name, value in (("window_size", window_size), ("batch_size", batch_size)):
            if value < 1:
                raise ValueError(f"{name} is {value}, expected 1 or more")
        super().__init__(
            rank=rank,
            world_size=world_size,
            worker=worker,
            num_workers=num_workers,
            prefetch=prefetch,
            transform=transform,
            transform_threads=transform_threads,
        )
        self._store = checked_store(store)
        self._stride = None if stride is None else operator.index(stride)
        self._framing = framing_of(store, window_size, self._stride, cross_documents, partial)
        self._skip = SkipList.given(skip, len(store))
        self._make_order = partial_of(
            WindowOrder,
            self._framing,
            order=order,
            seed=seed,
            epoch=epoch,
            tail=tail,
            global_batch=batch_size * self._world_size,
        )
        self._order = self._make_order(skipped=self._skipped_windows(self._skip, order))
        self._options: dict[str, str | int] = {
            "window_size": window_size,
            "stride": window_size if self._stride is None else self._stride,
            "order": order,
            "seed": seed,
            "epoch": epoch,
            "tail": tail,
            "global_batch": batch_size * self._world_size,
            "cross_documents": cross_documents,
            "partial": partial,
        }
        self._dtype = np.dtype(dtype)
        check_dtype(store, self._dtype, ignore_index, padded=self._framing.padded)
        self._buffers = None if buffers is None else list(buffers)
        if self._buffers is not None:
            ahead = prefetch + transform_threads
            check_buffers(self._buffers, (batch_size, window_size), self._dtype, ahead)
        self._streams = dict(streams or {})
        beside = Beside(
            fields=names_of(fields, "fields"),
            target_fields=names_of(target_fields, "target_fields"),
            spans=names_of(spans, "spans"),
            streams=self._streams,
        )
        beside.check(store)
        self._builder = BatchBuilder(
            store,
            self._order,
            rank=rank,
            batch_size=batch_size,
            dtype=self._dtype,
            ignore_index=ignore_index,
            beside=beside,
        )
        access = access_for(order, corpus_bytes=len(store) * store.dtype.itemsize, memory_bytes=memory_size())
        if access != "normal":
            store.advise(access)

    @property
    def window_count(self) -> int:
        """Windows per epoch, over all ranks and workers."""
        return self._order.window_count

    @property
    def steps_per_epoch(self) -> int:
        """Steps in which an epoch's windows have all been seen; with tail="drop" its whole batches."""
        return self._order.steps_per_epoch

    @property
    def tail_tokens(self) -> int:
        """Tokens behind the last window of the grid, which only a partial window holds.

        The first of them is the last whole window's last target, as long as stride <= window_size. 0 with
        partial="pad", if there is more than that one, and with cross_documents="split": no target is left out.
        """
        if isinstance(self._framing, WindowGrid) and not self._framing.padded:
            return self._framing.tail_tokens
        return 0

    @property
    def current_epoch(self) -> int:
        """Number of the epoch that the next step begins in."""
        return self._order.epochs.epoch + self._order.epochs.epoch_at(self.step)

    def windows(self, numbers: np.ndarray) -> Batch | WindowBatch:
        """The windows with these numbers, by position, 0 to window_count - 1; as a batch of their own.

        Whatever the order: windows stand where they do in sequential order.

        Raises:
            IndexError: a number outside.
        """
        numbers = item_numbers(numbers, self.window_count)
        starts, lengths = self._framing.locate(self._order.epochs.kept(numbers), None)
        return self.read_samples(starts, lengths)

    @property
    def store(self) -> MmapTokenStore:
        """The corpus."""
        return self._store

    @property
    def sample_order(self) -> EpochOrder:
        """The windows' numbers in order."""
        return self._order.epochs

    def plan_samples(self, numbers: np.ndarray) -> tuple[np.ndarray, ...]:
        """Where the samples with these numbers are, counted from the run's first; see `read_samples`."""
        epochs = self._order.epochs
        starts, lengths = self._order.windows_at(*epochs.places_of(epochs.origin + numbers))
        return (starts,) if lengths is None else (starts, lengths)

    def read_samples(self, starts: np.ndarray, lengths: np.ndarray | None = None) -> Batch | WindowBatch:
        """The samples that `plan_samples` found, as a batch."""
        inputs, targets = np.empty((2, len(starts), self._framing.window_size), self._dtype)
        return self._builder.fill((inputs, targets), starts, lengths)

    def mixed_options(self) -> list[tuple[str, Any, Any]]:
        """See `SteppedLoader`."""
        own = [(name, self._options[name], value) for name, value in (("global_batch", 1), ("tail", "wrap"))]
        return [*super().mixed_options(), *own, ("buffers", self._buffers, None)]

    def batch_form(self) -> dict[str, Any]:
        """What two loaders must have in common for their batches to be of one form."""
        return {
            "batches of": "windows",
            "window_size": self._framing.window_size,
            "dtype": self._dtype,
            **self._builder.beside.form(self._store),
        }

    def _made(self, first_step: int, step_stride: int) -> Iterator[Batch | WindowBatch]:
        return self._builder.batches(
            first_step, step_stride, buffers=self._buffers, first_buffer=self._yielded
        )

    def _epoch_end(self, step: int) -> int:
        return self._order.epochs.epoch_end(step)

    def _check_step(self, step: int) -> None:
        self._order.epochs.check_step(step)

    @cached_property
    def _corpora(self) -> dict[str, CorpusRecord]:
        return {
            name: CorpusRecord.of(store.index)
            for name, store in {TOKENS: self._store, **self._streams}.items()
        }

    def _state(self) -> LoaderState:
        skip = self._skip.to_dict()
        return LoaderState(
            kind="windows",
            corpora=self._corpora,
            options=self._options,
            step=self.step,
            skip={TOKENS: skip} if skip else {},
            cursor={"origin": self._order.epochs.origin},
        )

    def _admit(self, state: LoaderState, *, allow_other_corpus: bool, allow_other_skip: bool) -> None:
        del allow_other_corpus, allow_other_skip  # already refused where they are not
        was = self._order_of(state) if state.skip != self._state().skip else None
        for name, record in state.corpora.items():
            own = self._corpora[name]
            if record.fingerprint != own.fingerprint:
                refuse_unproven_windows(record, own, state, self._order)
        if was is None:
            self._order.epochs.begin_at(state.cursor["origin"], state.step)
        else:
            self._order.epochs.take_over(was.epochs, state.step)

    def _order_of(self, state: LoaderState) -> WindowOrder:
        """The order that a state with another skip list was in, over the same corpus."""
        skip = SkipList.from_dict(state.skip.get(TOKENS, {})).check(len(self._store))
        order = self._make_order(skipped=self._skipped_windows(skip, self._order.order))
        order.epochs.begin_at(state.cursor["origin"], state.step)
        return order

    def _skipped_windows(self, skip: SkipList, order: Order) -> np.ndarray:
        documents = self._store.documents if skip.documents else None
        return skip.windows_of(self._framing, documents, moving=moves(order))
