"""Working ahead changes when things are done, and nothing else."""

import threading

import pytest

from corpus_assets.defs.ahead import working_ahead


def test_items_come_in_order_with_what_is_said_between():
    def produce(say):
        for number in range(3):
            say(f"about {number}")
            yield number

    assert list(working_ahead(produce)) == ["about 0", 0, "about 1", 1, "about 2", 2]


def test_the_producer_goes_on_while_the_consumer_is_busy():
    done = threading.Event()

    def produce(say):
        yield from range(5)
        done.set()

    items = working_ahead(produce)
    assert next(items) == 0
    assert done.wait(timeout=30)
    assert list(items) == [1, 2, 3, 4]


def test_no_more_than_the_bound_waits():
    produced = []

    def produce(say):
        for number in range(1000):
            produced.append(number)
            yield number

    items = working_ahead(produce, at_most=4)
    for number in range(100):
        assert next(items) == number
        assert len(produced) <= number + 7  # consumed, waiting, in hand
    items.close()


def test_an_error_of_the_producer_reaches_the_consumer_after_what_came_before_it():
    def produce(say):
        yield 1
        raise OSError("disk full")

    items = working_ahead(produce)
    assert next(items) == 1
    with pytest.raises(OSError, match="disk full"):
        next(items)


def test_a_consumer_that_stops_closes_the_producer():
    closed = threading.Event()

    def produce(say):
        try:
            yield from range(1000)
        finally:
            closed.set()

    items = working_ahead(produce, at_most=2)
    next(items)
    items.close()
    assert closed.is_set()


def test_a_producer_that_is_saying_something_when_the_consumer_stops_is_closed_too():
    closed = threading.Event()

    def produce(say):
        try:
            while True:
                say("progress")
            yield
        finally:
            closed.set()

    items = working_ahead(produce, at_most=2)
    next(items)
    items.close()
    assert closed.is_set()
