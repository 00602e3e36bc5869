import gc
import threading
from itertools import count, islice

import pytest

from corpus_assets.loading.loader import SlidingWindowDataloader
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets.loading.transforming import transformed
from corpus_assets_tests.loading.corpora import random_shards, write_corpus_of


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("corpus")
    write_corpus_of(root, random_shards([201]))
    with MmapTokenStore(root) as opened:
        yield opened


def _loader(store, **options):
    return SlidingWindowDataloader(store, 4, 3, seed=7, **options)


def _sums(batch):
    return batch[0].sum(axis=1).tolist()


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_results_are_in_order_whichever_is_done_first(threads):
    gates = [threading.Event() for _ in range(8)]

    def wait(number):
        if threads == 3 and number % 3 == 0:
            gates[number + 2].wait(10)  # not done before the second behind it
        gates[number].set()
        return number * 10

    assert list(transformed(iter(range(6)), wait, threads=threads)) == [0, 10, 20, 30, 40, 50]


def test_several_batches_are_transformed_at_a_time():
    together = threading.Barrier(3)
    results = transformed(iter(range(9)), lambda number: (together.wait(10), number)[1], threads=3)
    assert list(results) == list(range(9))


def test_an_exception_comes_in_its_place(store):
    def fail(number):
        if number == 2:
            raise KeyError("two")
        return number

    for threads in (0, 2):
        results = transformed(count(), fail, threads=threads)
        assert [next(results), next(results)] == [0, 1]
        with pytest.raises(KeyError, match="two"):
            next(results)

    def items():
        yield 1
        yield 2
        raise OSError("the disk")

    results = transformed(items(), str, threads=3)
    assert [next(results), next(results)] == ["1", "2"]
    with pytest.raises(OSError, match="the disk"):
        next(results)


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("threads", [0, 3])
def test_a_transformed_run_resumes_exactly(store, prefetch, threads):
    expected = [_sums(batch) for batch in islice(_loader(store), 20)]
    options = {"transform": _sums, "transform_threads": threads, "prefetch": prefetch}
    with _loader(store, **options) as loader:
        assert list(islice(loader, 7)) == expected[:7]
        state = loader.state_dict()
    with _loader(store, **options) as again:
        again.load_state_dict(state)
        assert list(islice(again, 13)) == expected[7:]


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("threads", [0, 2])
def test_a_failed_transform_reaches_the_consumer_and_can_be_tried_again(store, prefetch, threads):
    broken = threading.Event()
    broken.set()
    expected = [_sums(batch) for batch in islice(_loader(store), 5)]

    def transform(batch):
        if broken.is_set() and _sums(batch) == expected[2]:
            raise RuntimeError("cannot")
        return _sums(batch)

    with _loader(store, transform=transform, transform_threads=threads, prefetch=prefetch) as loader:
        assert [next(loader), next(loader)] == expected[:2]
        for _ in range(2):
            with pytest.raises(RuntimeError, match="cannot"):
                next(loader)
        assert loader.step == 2
        broken.clear()
        assert list(islice(loader, 3)) == expected[2:]


def test_the_threads_end_with_the_loader(store):
    for prefetch in (0, 2):
        loader = _loader(store, transform=_sums, transform_threads=2, prefetch=prefetch)
        next(loader)
        assert _transforming() > 0
        loader.close()
        gc.collect()
        assert _transforming() == 0


def _transforming():
    return sum(thread.name.startswith("transform-batch") for thread in threading.enumerate())


def test_threads_without_a_transform_are_refused(store):
    with pytest.raises(ValueError, match="transform_threads is 2, but there is no transform"):
        _loader(store, transform_threads=2)
    with pytest.raises(ValueError, match="transform_threads is -1"):
        _loader(store, transform=_sums, transform_threads=-1)
