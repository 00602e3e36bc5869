"""Every point of a run × workers × orders × shapes: a resumed run is the run that never stopped.

Workers are loaders in turn by default, as a DataLoader takes them. The same matrix through real worker processes of
torchdata's StatefulDataLoader is marked slow; one row of it is not.
"""

import json
from itertools import islice

import numpy as np
import pytest

from corpus_assets.loading.document_loader import DocumentDataloader
from corpus_assets.loading.loader import SlidingWindowDataloader
from corpus_assets.loading.mixture import MixtureDataloader
from corpus_assets.loading.ragged import RaggedBatch
from corpus_assets.loading.record_loader import RecordDataloader
from corpus_assets.loading.skipping import SkipList
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets_tests.loading.shaped import random_docs, write_shaped

FOLLOWING = 9


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    root = tmp_path_factory.mktemp("corpora")
    write_shaped(root / "a", random_docs([57, 0, 3, 141]))
    write_shaped(root / "b", random_docs([90], seed=5), compression="gzip")
    with MmapTokenStore(root / "a") as a, MmapTokenStore(root / "b") as b:
        yield a, b


def _windows(stores, **options):
    return SlidingWindowDataloader(stores[0], 4, 6, seed=7, **options)


def _mixture(stores, kind, *sizes, order, prefetch=0, **options):
    loaders = {
        name: kind(store, *sizes, seed=7, order=order, **options)
        for name, store in zip("ab", stores, strict=True)
    }
    return MixtureDataloader(loaders, {"a": 2, "b": 1}, 6, seed=7, prefetch=prefetch)


SHAPES = {
    "windows": _windows,
    "windows, whole batches only": lambda s, **o: _windows(s, tail="drop", **o),
    "windows, last batch padded": lambda s, **o: _windows(s, tail="pad", **o),
    "fields": lambda s, **o: _windows(s, fields=["loss_mask", "weight", "document_ids", "cu_seqlens"], **o),
    "annotations": lambda s, **o: _windows(s, spans=["topic"], **o),
    "one document a window": lambda s, **o: _windows(s, cross_documents="split", **o),
    "a partial window": lambda s, **o: _windows(s, partial="pad", **o),
    "some skipped": lambda s, **o: _windows(s, skip=SkipList(documents=[1, 4]), **o),
    "compressed": lambda s, **o: _windows(s[::-1], **o),
    "documents by count": lambda s, **o: DocumentDataloader(s[0], 3, seed=7, **o),
    "documents by budget": lambda s, **o: DocumentDataloader(s[0], max_tokens=40, seed=7, **o),
    "records": lambda s, **o: RecordDataloader(s[0], 10, 3, seed=7, **o),
    "mixture": lambda s, **o: _mixture(s, SlidingWindowDataloader, 4, 1, **o),
    "mixture with all there is": lambda s, **o: _mixture(
        s,
        SlidingWindowDataloader,
        4,
        1,
        cross_documents="split",
        fields=["weight", "document_ids", "cu_seqlens"],
        spans=["topic"],
        skip=SkipList(documents=[1, 2]),
        **o,
    ),
    "mixture of documents": lambda s, **o: _mixture(s, DocumentDataloader, 1, fields=["weight"], **o),
    "mixture of records": lambda s, **o: _mixture(s, RecordDataloader, 10, 1, **o),
}
ORDERS = pytest.mark.parametrize("order", ["sequential", "random", "cyclic", "replacement"])
ALL_SHAPES = pytest.mark.parametrize("shape", SHAPES)


def _plain(batch):
    """A batch as lists, so that batches can be compared."""
    if isinstance(batch, RaggedBatch):
        batch = batch.values, batch.cu_seqlens, batch.documents
    if isinstance(batch, dict):
        return {name: _plain(part) for name, part in batch.items()}
    if isinstance(batch, tuple | list):
        return [_plain(part) for part in batch]
    return batch.tolist() if isinstance(batch, np.ndarray) or hasattr(batch, "numpy") else batch


def _points(loader):
    """Step 0, the middle of an epoch, its last batch, the first and a later one of the next epochs."""
    if isinstance(loader, MixtureDataloader):
        return 0, 4, 8, 9, 23  # its corpora have epochs of 9 and 4 batches of their own
    end = loader.epoch_end(0)
    return 0, end // 2, end - 1, end, 2 * end + 1


class _InTurn:
    """Some workers of a loader, one batch of each in turn; resumes each from its own state."""

    def __init__(self, loader, count, states=None, taken=0):
        self._workers = [loader.as_worker(worker, count) for worker in range(count)]
        self._count, self._taken = count, taken
        for worker, state in zip(self._workers, states or [], strict=bool(states)):
            worker.load_state_dict(state)

    def take(self, count):
        batches = []
        for _ in range(count):
            batches.append(_plain(next(self._workers[self._taken % self._count])))
            self._taken += 1
        return batches

    def states(self):
        return json.loads(json.dumps([worker.state_dict() for worker in self._workers])), self._taken


@ORDERS
@ALL_SHAPES
@pytest.mark.parametrize("workers", [0, 1, 4])
def test_every_point_of_every_run(stores, shape, order, workers):
    make = SHAPES[shape]
    points = _points(make(stores, order=order))
    uninterrupted = [_plain(b) for b in islice(make(stores, order=order), points[-1] + 2 * FOLLOWING)]
    assert uninterrupted[:3] != uninterrupted[3:6]
    for point in points:
        expected = uninterrupted[point : point + 2 * FOLLOWING]
        if workers == 0:
            found = _resumed_alone(make, stores, order, point)
        else:
            first = _InTurn(make(stores, order=order), workers)
            first.take(point)
            second = _InTurn(make(stores, order=order), workers, *first.states())
            found = second.take(FOLLOWING)
            third = _InTurn(make(stores, order=order), workers, *second.states())
            found += third.take(FOLLOWING)
        assert found == expected, f"at step {point}"


def _resumed_alone(make, stores, order, point):
    with make(stores, order=order, prefetch=3) as first:
        for _ in range(point):
            next(first)
        state = json.loads(json.dumps(first.state_dict()))
    with make(stores, order=order) as second:
        second.load_state_dict(state)
        found = [_plain(batch) for batch in islice(second, FOLLOWING)]
        state = json.loads(json.dumps(second.state_dict()))
    with make(stores, order=order, prefetch=2) as third:
        next(third)
        third.load_state_dict(state)
        return found + [_plain(batch) for batch in islice(third, FOLLOWING)]


@ORDERS
@pytest.mark.parametrize("shape", ["windows", "records", "documents by count", "mixture of documents"])
def test_another_number_of_workers_or_ranks_goes_on(stores, shape, order):
    """4 workers on one rank, then 3 ranks with 1 and 2 workers, then 2 ranks without: the same global batches."""
    make = {
        "windows": lambda size, **o: SlidingWindowDataloader(stores[0], 4, size, seed=7, order=order, **o),
        "records": lambda size, **o: RecordDataloader(stores[0], 10, size, seed=7, order=order, **o),
        "documents by count": lambda size, **o: DocumentDataloader(stores[0], size, seed=7, order=order, **o),
        "mixture of documents": lambda size, **o: MixtureDataloader(
            {
                name: DocumentDataloader(store, 1, seed=7, order=order)
                for name, store in zip("ab", stores, strict=True)
            },
            {"a": 2, "b": 1},
            size,
            seed=7,
            **o,
        ),
    }[shape]
    uninterrupted = [_rows_of(batch) for batch in islice(make(6), 40)]
    for point in (0, 4, 12):
        state, found = None, []
        for world_size, workers, steps in ((1, 4, point), (3, 1, 5), (3, 2, 8), (2, 0, 7)):
            size = 6 // world_size
            ranks = [make(size, rank=rank, world_size=world_size) for rank in range(world_size)]
            if state is not None:
                for rank in ranks:
                    rank.load_state_dict(state)
            turns = [
                [rank.as_worker(worker, workers) for worker in range(workers)] or [rank] for rank in ranks
            ]
            for step in range(steps):
                batches = [own[step % len(own)] for own in turns]
                found.append([row for loader in batches for row in _rows_of(next(loader))])
            state = json.loads(json.dumps(turns[0][-1].state_dict()))
        assert found == uninterrupted[: point + 20]


def _rows_of(batch):
    return [row.tolist() for row in (batch[0] if isinstance(batch, tuple) else batch)]


REAL = pytest.mark.filterwarnings(
    "ignore:.*multi-threaded.*fork:DeprecationWarning",  # Python 3.12, of any fork beside a thread
    "ignore:'set_vital' is deprecated:UserWarning",  # torchdata 0.11 calls it in torch 2.13
    "ignore:This DataLoader will create:UserWarning",  # torch, of more workers than cores
)


@REAL
@pytest.mark.parametrize("workers", [0, 1, 4])
def test_one_row_through_real_workers(stores, workers):
    _through_torch(stores, "windows", "cyclic", workers, points=slice(1, 4))


@REAL
@pytest.mark.slow
@ORDERS
@ALL_SHAPES
@pytest.mark.parametrize("workers", [0, 1, 4])
def test_every_point_through_real_workers(stores, shape, order, workers):
    _through_torch(stores, shape, order, workers, points=slice(None))


def _through_torch(stores, shape, order, workers, *, points):
    data = pytest.importorskip("torchdata.stateful_dataloader")
    from corpus_assets.loading.torch import BatchIterableDataset, as_tensors

    make = SHAPES[shape]
    options = {"batch_size": None, "num_workers": workers}
    if workers:
        options["multiprocessing_context"] = "fork"

    def through(state=None):
        loader = data.StatefulDataLoader(
            BatchIterableDataset(make(stores, order=order), until="forever"), **options
        )
        if state is not None:
            loader.load_state_dict(state)
        return loader

    chosen = _points(make(stores, order=order))[points]
    length = chosen[-1] + 2 * FOLLOWING
    uninterrupted = [_plain(as_tensors(batch)) for batch in islice(make(stores, order=order), length)]
    for point in chosen:
        first = through()
        batches = iter(first)
        for _ in range(point):
            next(batches)
        second = through(first.state_dict())
        del batches, first
        batches = iter(second)
        found = [_plain(next(batches)) for _ in range(FOLLOWING)]
        third = through(second.state_dict())
        del batches, second
        found += [_plain(batch) for batch in islice(third, FOLLOWING)]
        assert found == uninterrupted[point : point + 2 * FOLLOWING], f"at step {point}"
