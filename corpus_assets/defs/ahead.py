"""An iterator that works ahead of its consumer, on a thread of its own."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from queue import Empty, Full, Queue
from typing import TypeVar

T = TypeVar("T")
_POLL_SECONDS = 0.2


class _AbandonedError(Exception):
    """The consumer has gone."""


class _End:
    """What the worker says last; `error` is what stopped it."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def working_ahead(
    produce: Callable[[Callable[[T], None]], Iterator[T]], *, at_most: int = 256
) -> Iterator[T]:
    """What `produce` yields, in its order, produced while the consumer is busy with earlier items.

    Storing an event takes Dagster as long as building a small shard; done in turns, each would wait for the
    other. When the consumer stops early, the producer is closed before this returns.

    Args:
        produce: called on the thread with a function that says an item out of turn; returns the iterator.
        at_most: items that may wait to be consumed.
    """
    queue: Queue[T | _End] = Queue(maxsize=at_most)
    abandoned = threading.Event()

    def say(item: T | _End) -> None:
        while not abandoned.is_set():
            try:
                queue.put(item, timeout=_POLL_SECONDS)
            except Full:
                continue
            return
        raise _AbandonedError

    def work() -> None:
        try:
            with closing(produce(say)) as items:  # type: ignore[type-var]
                for item in items:
                    say(item)
            say(_End(None))
        except _AbandonedError:
            pass
        except BaseException as error:
            # Whatever it is belongs to the consumer, who raises it.
            queue.put(_End(error))

    worker = threading.Thread(target=work, name="working-ahead", daemon=True)
    worker.start()
    try:
        while not isinstance(item := queue.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        abandoned.set()
        _drain(queue)
        worker.join()


def _drain(queue: "Queue[T]") -> None:
    """Make room, so that nobody waits to say something."""
    while True:
        try:
            queue.get_nowait()
        except Empty:
            return
