"""Every sample of an epoch comes exactly once, for every shape × tail over ranks × workers; ranks make as many steps."""

from collections import Counter

import numpy as np
import pytest

from corpus_assets.loading.document_loader import DocumentDataloader
from corpus_assets.loading.loader import SlidingWindowDataloader
from corpus_assets.loading.mixture import MixtureDataloader
from corpus_assets.loading.record_loader import RecordDataloader
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets_tests.loading.corpora import random_shards, tokens_of, write_corpus_of

SHARDS = random_shards([157, 0, 3, 224])
TWINS = [[[token + 1 for token in document] for document in shard] for shard in SHARDS]
DOCUMENTS = [(*document, 0) for shard in SHARDS for document in shard]
GLOBAL_BATCH = 6
BUDGET = 40  # no document is longer

SPLIT = pytest.mark.parametrize(("world_size", "workers"), [(1, 1), (1, 4), (2, 3), (3, 2)])


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    root = tmp_path_factory.mktemp("corpora")
    write_corpus_of(root / "a", SHARDS)
    write_corpus_of(root / "b", TWINS)
    with MmapTokenStore(root / "a") as a, MmapTokenStore(root / "b") as b:
        yield a, b


def _windows(stores, batch_size, **options):
    return SlidingWindowDataloader(stores[0], 4, batch_size, **options)


SHAPES = {
    "windows": _windows,
    "windows and a partial one": lambda s, n, **o: _windows(s, n, partial="pad", **o),
    "windows inside documents": lambda s, n, **o: _windows(s, n, cross_documents="split", **o),
    "windows, a stream beside": lambda s, n, **o: _windows(s, n, streams={"b": s[1]}, fields=["b"], **o),
    "documents by count": lambda s, n, **o: DocumentDataloader(s[0], n, **o),
    "documents by budget": lambda s, _, **o: DocumentDataloader(s[0], max_tokens=BUDGET, **o),
    "records": lambda s, n, **o: RecordDataloader(s[0], 10, n, **o),
}


def _blocks(values, size, *, last=False):
    """Blocks of a row; the last one, filled with boundaries, if asked for."""
    rows = [tuple(values[start : start + size]) for start in range(0, len(values), size)]
    return [(*row, *[0] * (size - len(row))) for row in rows if last or len(row) == size]


FLAT, TWIN = tokens_of(SHARDS).tolist(), tokens_of(TWINS).tolist()
EXPECTED = {
    "windows": _blocks(FLAT[:-1], 4),  # a window needs one more token, its last target
    "windows and a partial one": _blocks(FLAT, 4, last=True),
    "windows inside documents": [row for ids in DOCUMENTS for row in _blocks(ids[:-1], 4, last=True)],
    "windows, a stream beside": [
        a + b for a, b in zip(_blocks(FLAT[:-1], 4), _blocks(TWIN[:-1], 4), strict=True)
    ],
    "documents by count": DOCUMENTS,
    "documents by budget": DOCUMENTS,
    "records": _blocks(FLAT, 10),
}


def _samples(batch):
    """The samples of a batch, each as all that it holds."""
    if isinstance(batch, tuple):
        inputs, _, *fields = batch
        return [tuple(row) for row in np.hstack([inputs, *(fields[0]["b"] for _ in fields)]).tolist()]
    return [tuple(ids.tolist()) for ids in batch]


def _epoch(ranks):
    """The samples of one epoch in the order of steps and ranks; `ranks` has the workers of each."""
    taken = []
    for workers in ranks:
        parts = [list(worker.rest_of_epoch()) for worker in workers]
        steps = sum(map(len, parts))
        taken.append([parts[step % len(workers)][step // len(workers)] for step in range(steps)])
    return [sample for step in zip(*taken, strict=True) for batch in step for sample in _samples(batch)]


@SPLIT
@pytest.mark.parametrize("tail", ["wrap", "drop", "pad"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_sample_of_an_epoch_comes_exactly_once(stores, shape, tail, world_size, workers):
    options = {"seed": 7, "order": "cyclic", "tail": tail, "world_size": world_size}
    ranks = []
    for rank in range(world_size):
        loader = SHAPES[shape](stores, GLOBAL_BATCH // world_size, rank=rank, **options)
        ranks.append([loader.as_worker(worker, workers) for worker in range(workers)])
    epochs = [_epoch(ranks) for _ in range(3)]
    expected = Counter(EXPECTED[shape])
    count = expected.total()
    if tail == "wrap":
        run = [sample for epoch in epochs for sample in epoch]
        epochs = [run[:count], run[count : 2 * count]]
    assert epochs[0] != epochs[1]
    for epoch in epochs:
        if tail == "drop":
            missing = expected - Counter(epoch)
            assert Counter(epoch) + missing == expected
            if "budget" in shape:
                assert sum(len(ids) * times for ids, times in missing.items()) <= world_size * BUDGET
            else:
                assert missing.total() == count % GLOBAL_BATCH
        else:
            assert Counter(epoch[:count]) == expected
            assert epoch[count:] == epoch[: len(epoch) - count]  # a padded step: what the epoch began with
            assert "budget" in shape or len(epoch) - count < GLOBAL_BATCH


@SPLIT
def test_a_mixture_goes_through_each_corpus_sample_by_sample(stores, world_size, workers):
    def mixture(rank):
        loaders = {
            name: SlidingWindowDataloader(store, 4, 1, seed=7, order="cyclic")
            for name, store in zip("ab", stores, strict=True)
        }
        size = GLOBAL_BATCH // world_size
        options = {"rank": rank, "world_size": world_size, "fields": ["corpus"]}
        return MixtureDataloader(loaders, {"a": 2, "b": 1}, size, seed=7, **options)

    ranks = [
        [mixture(rank).as_worker(worker, workers) for worker in range(workers)] for rank in range(world_size)
    ]
    came = [[], []]
    for step in range(60):
        for turns in ranks:
            inputs, _, fields = next(turns[step % workers])
            for row, corpus in zip(inputs.tolist(), fields["corpus"].tolist(), strict=True):
                came[corpus].append(tuple(row))
    for samples, tokens, epochs in zip(came, (FLAT, TWIN), (2, 1), strict=True):
        expected = Counter(_blocks(tokens[:-1], 4))
        for epoch in range(epochs):
            assert Counter(samples[epoch * expected.total() : (epoch + 1) * expected.total()]) == expected
