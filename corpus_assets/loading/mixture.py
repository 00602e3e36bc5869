"""MixtureDataloader: windows of several corpora, mixed by weight."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from functools import partial as partial_of
from typing import TYPE_CHECKING, Any

import numpy as np

from corpus_assets.errors import IndexMismatchError, StateMismatchError
from corpus_assets.loading.batches import Batch, BatchBuilder, WindowBatch
from corpus_assets.loading.beside import Beside
from corpus_assets.loading.consumed import refuse_unproven_windows
from corpus_assets.loading.framing import WindowGrid
from corpus_assets.loading.mixing import MixturePlan
from corpus_assets.loading.order import Order, WindowOrder, moves
from corpus_assets.loading.provenance import CorpusRecord
from corpus_assets.loading.skipping import SkipList
from corpus_assets.loading.state import LoaderState
from corpus_assets.loading.stepped import SteppedLoader
from corpus_assets.loading.store import MmapTokenStore

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

CORPUS = "corpus"
_PLANNED_SAMPLES = 8192


class MixtureDataloader(SteppedLoader[Any]):
    """Yields (input_ids, target_ids) whose rows are windows of several corpora, for ever; see `SteppedLoader`.

    Which corpus a row comes from is a function of weights and seed; each corpus is gone through in its own order,
    epoch after epoch, as a `SlidingWindowDataloader` would. So a corpus may come to its third epoch while another
    is in its first: `epochs` counts them, `shares` says what was realised. It does not own the stores.

    Args:
        stores: the corpora by name, all of one tokenizer.
        weights: of each, above 0: how many of the windows come from it, as a ratio.
        window_size: tokens per input; a window spans one more.
        batch_size: windows per batch of one rank.
        seed, order, stride, epoch: as for `SlidingWindowDataloader`; epoch is that of every corpus.
        rank, world_size, worker, num_workers, prefetch, transform, transform_threads: see `SteppedLoader`.
        dtype: integer type of a batch.
        ignore_index: replaces targets that are the boundary; None keeps them.
        fields, target_fields: as for `SlidingWindowDataloader`, without `cu_seqlens`; `corpus` is (batch_size,),
            the place of each row's corpus among the names. With any, a `WindowBatch` is yielded.
        skip: what is left out, by corpus.

    Raises:
        CorpusTooShortError: a CorpusError and ValueError: a corpus has not one window.
        IndexMismatchError: corpora of different tokenizers.
        KeyError: a field that a corpus does not have.
        ValueError: an option that does not fit.
    """

    def __init__(
        self,
        stores: Mapping[str, MmapTokenStore],
        weights: Mapping[str, float],
        window_size: int,
        batch_size: int,
        *,
        seed: int,
        order: Order = "cyclic",
        stride: int | None = None,
        epoch: int = 0,
        rank: int = 0,
        world_size: int = 1,
        worker: int = 0,
        num_workers: int = 1,
        dtype: DTypeLike = np.int64,
        ignore_index: int | None = None,
        prefetch: int = 0,
        fields: Sequence[str] = (),
        target_fields: Sequence[str] = (),
        skip: Mapping[str, SkipList] | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_threads: int = 0,
    ) -> None:
        window_size, batch_size, seed, epoch = map(operator.index, (window_size, batch_size, seed, epoch))
        stride = window_size if stride is None else operator.index(stride)
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, expected 1 or more")
        if stores.keys() != weights.keys():
            raise ValueError(f"weights are of {sorted(weights)}, expected one for each of {sorted(stores)}")
        if unknown := sorted((skip or {}).keys() - stores.keys()):
            raise ValueError(f"skip names {unknown[0]}, expected names among {sorted(stores)}")
        if "cu_seqlens" in fields:
            raise ValueError("fields have cu_seqlens, which a mixture does not give")
        super().__init__(
            rank=rank,
            world_size=world_size,
            worker=worker,
            num_workers=num_workers,
            prefetch=prefetch,
            transform=transform,
            transform_threads=transform_threads,
        )
        _refuse_mixed_tokenizers(stores)
        self._names = list(stores)
        self._stores = list(stores.values())
        self._plan = MixturePlan([float(weights[name]) for name in self._names], seed=seed)
        self._skip = [(skip or {}).get(name, SkipList()).check(len(store)) for name, store in stores.items()]
        self._make_order = partial_of(WindowOrder, order=order, seed=seed, epoch=epoch)
        self._grids = [
            WindowGrid(len(store), window_size=window_size, stride=stride) for store in self._stores
        ]
        self._orders = [self._order_of(place, skip_list) for place, skip_list in enumerate(self._skip)]
        self._window_size = window_size
        self._batch_size = batch_size
        self._dtype = np.dtype(dtype)
        self._says_corpus = CORPUS in fields
        beside = Beside(
            fields=tuple(name for name in fields if name != CORPUS),
            target_fields=tuple(target_fields),
            streams={},
        )
        self._beside = bool(beside) or self._says_corpus
        self._builders = []
        for store, window_order in zip(self._stores, self._orders, strict=True):
            beside.check(store)
            store.check_dtype(self._dtype)
            self._builders.append(
                BatchBuilder(
                    store,
                    window_order,
                    rank=0,
                    batch_size=1,
                    dtype=self._dtype,
                    ignore_index=ignore_index,
                    beside=beside,
                )
            )
        self._options: dict[str, Any] = {
            "window_size": window_size,
            "stride": stride,
            "order": order,
            "seed": seed,
            "epoch": epoch,
            "global_batch": batch_size * world_size,
            "weights": {name: float(weights[name]) for name in self._names},
        }

    def _order_of(self, place: int, skip: SkipList) -> WindowOrder:
        documents = self._stores[place].documents if skip.documents else None
        moving = moves(self._make_order.keywords["order"])
        return self._make_order(
            self._grids[place], skipped=skip.windows_of(self._grids[place], documents, moving=moving)
        )

    def _drawn(self) -> np.ndarray:
        """(C,) windows of each corpus that all ranks have consumed."""
        return self._plan.drawn(self.step * self._options["global_batch"])

    @property
    def shares(self) -> dict[str, float]:
        """The realised share of each corpus in the windows that all ranks have consumed; 0 before the first."""
        drawn = self._drawn()
        return dict(zip(self._names, (drawn / max(1, drawn.sum())).tolist(), strict=True))

    @property
    def epochs(self) -> dict[str, float]:
        """How many times each corpus has been gone through, by all ranks: 1.5 is once and a half."""
        counts = self._drawn().tolist()
        return {
            name: (order.epochs.origin + count) / order.window_count
            for name, order, count in zip(self._names, self._orders, counts, strict=True)
        }

    def _made(self, first_step: int, step_stride: int) -> Iterator[Batch | WindowBatch]:
        steps_at_once = max(1, _PLANNED_SAMPLES // self._batch_size)
        while True:
            steps = first_step + np.arange(steps_at_once, dtype=np.int64) * step_stride
            firsts = (steps * self._world_size + self._rank) * self._batch_size
            corpora, numbers = self._plan.locate((firsts[:, None] + np.arange(self._batch_size)).ravel())
            starts = np.empty_like(numbers)
            for place, order in enumerate(self._orders):
                own = corpora == place
                if own.any():
                    places = order.epochs.places_of(order.epochs.origin + numbers[own])
                    starts[own] = order.windows_at(*places)[0]
            shape = (steps_at_once, self._batch_size)
            for row_corpora, row_starts in zip(corpora.reshape(shape), starts.reshape(shape), strict=True):
                yield self._batch(row_corpora, row_starts)
            first_step += steps_at_once * step_stride

    def _batch(self, corpora: np.ndarray, starts: np.ndarray) -> Batch | WindowBatch:
        inputs, targets = np.empty((2, len(starts), self._window_size), self._dtype)
        fields: dict[str, Any] = {CORPUS: corpora} if self._says_corpus else {}
        for place in np.unique(corpora).tolist():
            own = (corpora == place).nonzero()[0]
            part = np.empty((2, len(own), self._window_size), self._dtype)
            filled = self._builders[place].fill((part[0], part[1]), starts[own], None)
            inputs[own], targets[own] = part
            for name, values in filled[2].items() if len(filled) == 3 else ():
                if name not in fields:
                    fields[name] = np.empty((len(starts), self._window_size), values.dtype)
                fields[name][own] = values
        return WindowBatch(inputs, targets, fields) if self._beside else (inputs, targets)

    def _epoch_end(self, step: int) -> int:
        raise ValueError(
            f"step {step}: a mixture has no epochs of its own; `epochs` counts those of its corpora"
        )

    def seek(self, step: int) -> None:
        """Go to a global step, in constant time; batches made ahead are dropped."""
        drawn = self._plan.drawn(max(0, step) * self._options["global_batch"]).tolist()
        for order, count in zip(self._orders, drawn, strict=True):
            order.epochs.check_step(count)
        super().seek(step)

    @cached_property
    def _corpora(self) -> dict[str, CorpusRecord]:
        return {
            name: CorpusRecord.of(store.index) for name, store in zip(self._names, self._stores, strict=True)
        }

    def _state(self) -> LoaderState:
        return LoaderState(
            kind="mixture",
            corpora=self._corpora,
            options=self._options,
            step=self.step,
            skip={name: skip.to_dict() for name, skip in zip(self._names, self._skip, strict=True) if skip},
            cursor={name: order.epochs.origin for name, order in zip(self._names, self._orders, strict=True)},
        )

    def _admit(self, state: LoaderState, *, allow_other_corpus: bool, allow_other_skip: bool) -> None:
        del allow_other_corpus, allow_other_skip  # already refused where they are not
        if state.cursor.keys() != set(self._names):
            raise StateMismatchError(f"loader state: cursor is {state.cursor}, expected one for each corpus")
        drawn = self._plan.drawn(state.step * self._options["global_batch"]).tolist()
        before: list[WindowOrder | None] = []
        for place, (name, count) in enumerate(zip(self._names, drawn, strict=True)):
            found, own = state.corpora[name], self._corpora[name]
            if found.fingerprint != own.fingerprint:
                # Of this corpus alone, a step is one window.
                alone = replace(
                    state,
                    step=count,
                    cursor={"origin": state.cursor[name]},
                    skip=state.skip.get(name, {}),
                    options={
                        **self._make_order.keywords,
                        "tail": "wrap",
                        "global_batch": 1,
                        "partial": "drop",
                    },
                )
                refuse_unproven_windows(found, own, alone, self._orders[place])
            skip = SkipList.from_dict(state.skip.get(name, {})).check(len(self._stores[place]))
            before.append(None if skip == self._skip[place] else self._order_of(place, skip))
        for order, was, name, count in zip(self._orders, before, self._names, drawn, strict=True):
            order.epochs.begin_at(state.cursor[name], count)
            if was is not None:
                was.epochs.begin_at(state.cursor[name], count)
                order.epochs.take_over(was.epochs, count)


def _refuse_mixed_tokenizers(stores: Mapping[str, MmapTokenStore]) -> None:
    first_name, first = next(iter(stores.items()), ("", None))
    for name, store in stores.items():
        mine, other = first.index.tokenizer if first else None, store.index.tokenizer
        if mine is not None and other is not None and mine.fingerprint != other.fingerprint:
            raise IndexMismatchError(
                f"corpus {name} has tokenizer {other.name} {other.fingerprint}, corpus {first_name} has "
                f"{mine.name} {mine.fingerprint}; expected one for the whole mixture"
            )
