"""What all loaders have in common: threads that end, copies that stand alone, interrupts, states of other loaders."""

import copy
import gc
import json
import pickle
import threading
from itertools import islice

import numpy as np
import pytest

from corpus_assets.errors import StateMismatchError
from corpus_assets.loading.document_loader import DocumentDataloader
from corpus_assets.loading.loader import SlidingWindowDataloader
from corpus_assets.loading.mixture import MixtureDataloader
from corpus_assets.loading.ragged import RaggedBatch
from corpus_assets.loading.record_loader import RecordDataloader
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets_tests.loading.corpora import random_shards, write_corpus_of


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("corpus")
    write_corpus_of(root, random_shards([57, 0, 3, 141]))
    with MmapTokenStore(root) as opened:
        yield opened


def _mixture(store, **options):
    loaders = {name: SlidingWindowDataloader(store, 4, 1, seed=7, order="cyclic") for name in "ab"}
    return MixtureDataloader(loaders, {"a": 1, "b": 2}, 3, seed=7, **options)


LOADERS = {
    "windows": lambda store, **o: SlidingWindowDataloader(store, 4, 3, seed=7, **o),
    "documents by count": lambda store, **o: DocumentDataloader(store, 3, seed=7, **o),
    "documents by budget": lambda store, **o: DocumentDataloader(store, max_tokens=40, seed=7, **o),
    "records": lambda store, **o: RecordDataloader(store, 10, 3, seed=7, **o),
    "mixture": _mixture,
}
ALL = pytest.mark.parametrize("kind", LOADERS)


def _plain(batch):
    if isinstance(batch, RaggedBatch):
        batch = batch.values, batch.documents
    return [part.tolist() for part in batch] if isinstance(batch, tuple) else np.asarray(batch).tolist()


def _take(loader, count):
    return [_plain(batch) for batch in islice(loader, count)]


def _own_threads(before):
    gc.collect()
    return [thread for thread in threading.enumerate() if thread not in before]


@ALL
@pytest.mark.parametrize("threads", [0, 2])
def test_threads_end_with_the_loader(store, kind, threads):
    gc.collect()  # loaders of other tests
    before = threading.enumerate()
    options = {"transform": lambda batch: batch, "transform_threads": threads} if threads else {}
    loader = LOADERS[kind](store, prefetch=2, **options)
    next(loader)
    assert _own_threads(before)
    del loader
    assert not _own_threads(before)
    with LOADERS[kind](store, prefetch=2, **options) as loader:
        next(loader)
    assert not _own_threads(before)


@ALL
@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda loader: pickle.loads(pickle.dumps(loader))]
)
def test_a_copy_goes_on_alone(store, kind, prefetch, copied):
    expected = _take(LOADERS[kind](store), 12)
    with LOADERS[kind](store, prefetch=prefetch) as loader:
        assert _take(loader, 4) == expected[:4]
        with copied(loader) as other:
            assert _take(other, 3) == expected[4:7]
            assert _take(loader, 5) == expected[4:9]
            assert _take(other, 5) == expected[7:]
            assert (loader.step, other.step) == (9, 12)


@ALL
@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("error", [ArithmeticError, KeyboardInterrupt])
def test_what_a_transform_raises_reaches_the_consumer_in_its_place(store, kind, prefetch, threads, error):
    expected = _take(LOADERS[kind](store), 6)
    made, armed = [], [True]

    def fails_once(batch):
        made.append(_plain(batch))
        if made[-1] == expected[3] and armed.pop():
            raise error("no")
        return batch

    options = {"transform": fails_once, "prefetch": prefetch, "transform_threads": threads}
    with LOADERS[kind](store, **options) as loader:
        assert _take(loader, 3) == expected[:3]
        with pytest.raises(error, match="no"):
            next(loader)
        assert loader.step == 3
        armed.append(False)
        assert _take(loader, 3) == expected[3:]


@ALL
def test_closing_while_batches_are_made_loses_none(store, kind):
    expected = _take(LOADERS[kind](store), 40)
    loader = LOADERS[kind](store, prefetch=3)
    found = []
    for number in range(40):
        found += _take(loader, 1)
        if number % 3 == 0:
            loader.close()
    loader.close()
    assert found == expected


@ALL
def test_a_loader_may_be_closed_from_another_thread(store, kind):
    loader = LOADERS[kind](store, prefetch=2, transform=lambda batch: batch)
    next(loader)
    closing = threading.Thread(target=loader.close)
    closing.start()
    closing.join(timeout=30)
    assert not closing.is_alive()
    assert _take(loader, 2) == _take(LOADERS[kind](store), 3)[1:]
    loader.close()


@ALL
def test_states_of_other_loaders_are_refused(store, kind):
    loader = LOADERS[kind](store)
    _take(loader, 2)
    own = loader.state_dict()
    for other, make in LOADERS.items():
        state = json.loads(json.dumps(make(store).state_dict()))
        if other == kind:
            loader.load_state_dict(own)
            continue
        with pytest.raises(StateMismatchError, match=r" in the state, .* in this loader"):
            loader.load_state_dict(state)
        assert loader.step == 2
    for damaged in ({}, None, [], "state", {**own, "step": -1}, {**own, "step": "2"}, {**own, "extra": 1}):
        with pytest.raises(StateMismatchError, match="loader state"):
            loader.load_state_dict(damaged)
    assert _take(loader, 2) == _take(LOADERS[kind](store), 4)[2:]
