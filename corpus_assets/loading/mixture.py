"""MixtureDataloader: the samples of several loaders, mixed by weight."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from corpus_assets.errors import IndexMismatchError
from corpus_assets.loading.document_loader import DocumentDataloader
from corpus_assets.loading.epochs import check_samples
from corpus_assets.loading.item_loader import ItemDataloader
from corpus_assets.loading.loader import SlidingWindowDataloader
from corpus_assets.loading.mixing import MixturePlan
from corpus_assets.loading.requests import names_of
from corpus_assets.loading.state import LoaderState
from corpus_assets.loading.stepped import SteppedLoader
from corpus_assets.loading.stitching import stitched, with_corpus

CORPUS = "corpus"
Component = SlidingWindowDataloader | ItemDataloader
_TOKENS = "tokens"
_PLANNED_SAMPLES = 8192


class MixtureDataloader(SteppedLoader[Any]):
    """Yields batches whose rows are samples of several loaders, for ever; see `SteppedLoader`.

    Which loader a row comes from is a function of weights and seed. Each loader gives its samples in its own
    order, epoch after epoch, with all that it gives when it is alone: fields, annotations, padding, skip list. So
    one corpus may come to its third epoch while another is in its first: `epochs` counts them, `shares` says what
    was realised. Batches have the form that the loaders' own have.

    Args:
        loaders: by name, all of one kind, one tokenizer and one form of batch. Each with batch_size=1, since the
            batches are made here, and without ranks, workers, prefetching, buffers, transforms or another tail
            than `wrap`. They belong to the mixture from now on.
        weights: of each, above 0: how many of the samples come from it, as a ratio.
        batch_size: samples per batch of one rank.
        seed: of the mixture, 0 to 2^64 - 1.
        rank, world_size, worker, num_workers, prefetch, transform, transform_threads: see `SteppedLoader`.
        fields: `corpus` or nothing: the place of each row's loader among the names, as one more field. It is
            (batch_size,); of documents it has a value for each id, as their other fields have.

    Raises:
        IndexMismatchError: corpora of different tokenizers.
        ValueError: an option that does not fit, or loaders that do not fit together.
    """

    def __init__(
        self,
        loaders: Mapping[str, Component],
        weights: Mapping[str, float],
        batch_size: int,
        *,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
        worker: int = 0,
        num_workers: int = 1,
        prefetch: int = 0,
        fields: Sequence[str] = (),
        transform: Callable[[Any], Any] | None = None,
        transform_threads: int = 0,
    ) -> None:
        batch_size, seed = map(operator.index, (batch_size, seed))
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, expected 1 or more")
        if loaders.keys() != weights.keys():
            raise ValueError(f"weights are of {sorted(weights)}, expected one for each of {sorted(loaders)}")
        if odd := [name for name in names_of(fields, "fields") if name != CORPUS]:
            raise ValueError(f"fields have {odd[0]}, expected {CORPUS} alone: others are the loaders'")
        super().__init__(
            rank=rank,
            world_size=world_size,
            worker=worker,
            num_workers=num_workers,
            prefetch=prefetch,
            transform=transform,
            transform_threads=transform_threads,
        )
        self._loaders = dict(loaders)
        self._plan = MixturePlan([float(weights[name]) for name in loaders], seed=seed)
        for name, loader in loaders.items():
            _refuse_own_batches(name, loader)
        _refuse_other_forms(loaders)
        _refuse_mixed_tokenizers(loaders)
        self._batch_size = batch_size
        self._says_corpus = CORPUS in fields
        self._options: dict[str, Any] = {
            "seed": seed,
            "global_batch": batch_size * self._world_size,
            "weights": {name: float(weights[name]) for name in loaders},
        }
        for name, loader in loaders.items():
            state = loader._state()
            options = {"loader": state.kind, **state.options}
            self._options |= {f"{option} of {name}": value for option, value in options.items()}

    def _drawn(self, step: int) -> list[int]:
        """Samples of each loader in the first `step` steps of all ranks."""
        drawn: list[int] = self._plan.drawn(step * self._options["global_batch"]).tolist()
        return drawn

    @property
    def shares(self) -> dict[str, float]:
        """The realised share of each loader in the samples that all ranks have consumed; 0 before the first."""
        drawn = self._drawn(self.step)
        return {name: count / max(1, sum(drawn)) for name, count in zip(self._loaders, drawn, strict=True)}

    @property
    def epochs(self) -> dict[str, float]:
        """How many times each corpus has been gone through, by all ranks: 1.5 is once and a half."""
        drawn = self._drawn(self.step)
        return {
            name: (loader.sample_order.origin + count) / loader.sample_order.kept_count
            for (name, loader), count in zip(self._loaders.items(), drawn, strict=True)
        }

    def _made(self, first_step: int, step_stride: int) -> Iterator[Any]:
        loaders = list(self._loaders.values())
        at_once = min(loader.sample_order.steps_to_plan(_PLANNED_SAMPLES, batch_size=1) for loader in loaders)
        steps_at_once = max(1, at_once // self._batch_size)
        while True:
            steps = first_step + np.arange(steps_at_once, dtype=np.int64) * step_stride
            firsts = (steps * self._world_size + self._rank) * self._batch_size
            corpora, numbers = self._plan.locate((firsts[:, None] + np.arange(self._batch_size)).ravel())
            # A corpus's samples come in their order, so each batch takes the next of those planned.
            plans = [loader.plan_samples(numbers[corpora == i]) for i, loader in enumerate(loaders)]
            taken = [0] * len(loaders)
            for row in corpora.reshape(steps_at_once, self._batch_size):
                parts = []
                for corpus in np.unique(row).tolist():
                    places = (row == corpus).nonzero()[0]
                    first, taken[corpus] = taken[corpus], taken[corpus] + len(places)
                    own = (column[first : taken[corpus]] for column in plans[corpus])
                    parts.append((places, loaders[corpus].read_samples(*own)))
                batch = stitched(parts)
                yield with_corpus(batch, CORPUS, row) if self._says_corpus else batch
            first_step += steps_at_once * step_stride

    def _epoch_end(self, step: int) -> int:
        raise ValueError(
            f"step {step}: a mixture has no epochs of its own; `epochs` counts those of its corpora"
        )

    def _check_step(self, step: int) -> None:
        check_samples(step, self._options["global_batch"])
        for loader, count in zip(self._loaders.values(), self._drawn(step), strict=True):
            loader.sample_order.check_step(count)

    def _state(self) -> LoaderState:
        states = {name: loader._state() for name, loader in self._loaders.items()}
        return LoaderState(
            kind="mixture",
            corpora={
                _corpus_key(name, corpus): record
                for name, state in states.items()
                for corpus, record in state.corpora.items()
            },
            options=self._options,
            step=self.step,
            skip={name: state.skip[_TOKENS] for name, state in states.items() if state.skip},
            cursor={f"origin of {name}": state.cursor["origin"] for name, state in states.items()},
        )

    def _admit(self, state: LoaderState, *, allow_other_corpus: bool, allow_other_skip: bool) -> None:
        check_samples(state.step, self._options["global_batch"])
        self.close()  # no batch is made ahead while origins change
        loaders = self._loaders.items()
        before = [loader.sample_order.origin for _, loader in loaders]
        allowed = {"allow_other_corpus": allow_other_corpus, "allow_other_skip": allow_other_skip}
        try:
            for (name, loader), count in zip(loaders, self._drawn(state.step), strict=True):
                loader._admit(_alone(state, name, loader._state(), count), **allowed)
        except BaseException:
            for (_, loader), origin in zip(loaders, before, strict=True):
                loader.sample_order.origin = origin
            raise


def _corpus_key(name: str, corpus: str) -> str:
    """How a mixture's state names a corpus of a loader: as the loader, a stream beside it as `stream of name`."""
    return name if corpus == _TOKENS else f"{corpus} of {name}"


def _alone(state: LoaderState, name: str, own: LoaderState, step: int) -> LoaderState:
    """What the state of a mixture says about one loader, of which a step is a sample."""
    return LoaderState(
        kind=own.kind,
        corpora={corpus: state.corpora[_corpus_key(name, corpus)] for corpus in own.corpora},
        options=own.options,
        step=step,
        skip={_TOKENS: state.skip[name]} if name in state.skip else {},
        cursor={"origin": state.cursor[f"origin of {name}"]},
    )


def _refuse_own_batches(name: str, loader: Component) -> None:
    if not isinstance(loader, Component):
        raise ValueError(
            f"{name} is a {type(loader).__name__}, expected a loader of windows, documents or records"
        )
    if isinstance(loader, DocumentDataloader) and loader.max_tokens is not None:
        raise ValueError(f"loader {name} has max_tokens, expected batch_size=1: a mixture counts documents")
    for option, found, expected in loader.mixed_options():
        if found != expected:
            raise ValueError(f"loader {name} has {option}={found!r}, expected {expected!r} in a mixture")


def _refuse_other_forms(loaders: Mapping[str, Component]) -> None:
    first = next(iter(loaders))
    expected = loaders[first].batch_form()
    for name, loader in loaders.items():
        found = loader.batch_form()
        for key in {**expected, **found}:
            if found.get(key) != expected.get(key):
                raise ValueError(
                    f"loader {name} has {key} {found.get(key)}, loader {first} has {expected.get(key)}; "
                    "expected batches of one form"
                )


def _refuse_mixed_tokenizers(loaders: Mapping[str, Component]) -> None:
    first_name, first = next(iter(loaders.items()))
    for name, loader in loaders.items():
        mine, other = first.store.index.tokenizer, loader.store.index.tokenizer
        if mine is not None and other is not None and mine.fingerprint != other.fingerprint:
            raise IndexMismatchError(
                f"corpus {name} has tokenizer {other.name} {other.fingerprint}, corpus {first_name} has "
                f"{mine.name} {mine.fingerprint}; expected one for the whole mixture"
            )
