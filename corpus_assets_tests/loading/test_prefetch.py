import itertools
import threading

import pytest

from corpus_assets.loading.prefetch import Prefetcher


def test_items_come_in_order_and_the_end_is_the_end():
    prefetcher = Prefetcher(iter(range(50)), depth=3)
    assert list(iter(lambda: next(prefetcher, None), None)) == list(range(50))


def test_no_more_than_depth_items_wait():
    made, enough = [], threading.Event()

    def items():
        for number in itertools.count():
            made.append(number)
            if number == 2:
                enough.set()
            yield number

    prefetcher = Prefetcher(items(), depth=3)
    enough.wait()
    prefetcher.stop()
    assert made == [0, 1, 2]


def test_an_exception_comes_after_the_items_before_it():
    def items():
        yield 1
        raise OSError("disk gone")

    prefetcher = Prefetcher(items(), depth=5)
    assert next(prefetcher) == 1
    with pytest.raises(OSError, match="disk gone"):
        next(prefetcher)
    assert not prefetcher.usable


def test_stop_ends_the_thread():
    before = threading.enumerate()
    prefetcher = Prefetcher(itertools.count(), depth=2)
    next(prefetcher)
    (own,) = (thread for thread in threading.enumerate() if thread not in before)
    assert own.name == "prefetch-batches"
    prefetcher.stop()
    prefetcher.stop()
    assert not own.is_alive()
