"""Running a function over batches in threads, their order kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")


def transformed(items: Iterator[S], transform: Callable[[S], T], *, threads: int) -> Iterator[T]:
    """`transform` of each item, in order; up to `threads` of them at a time.

    An exception, of `transform` or of `items`, is raised in its place in the order, and nothing follows it.

    Args:
        items: is advanced in the caller's thread, at most `threads` items ahead.
        transform: called with each item; in the caller's thread where `threads` is 0.
        threads: they end with this iterator.
    """
    if threads == 0:
        for item in items:  # not map: a StopIteration of the transform would end it without a word
            yield transform(item)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="transform-batch") as pool:
        ahead: deque[Future[T]] = deque()
        ended = False
        try:
            while True:
                while not ended and len(ahead) <= threads:
                    try:
                        item = next(items)
                    except StopIteration:
                        ended = True
                    except Exception as error:  # what came before it is still to be handed out
                        ended = True
                        ahead.append(_failed(error))
                    else:
                        ahead.append(pool.submit(transform, item))
                if not ahead:
                    return
                yield ahead.popleft().result()
        finally:
            for result in ahead:
                result.cancel()


def _failed(error: Exception) -> Future[T]:
    future: Future[T] = Future()
    future.set_exception(error)
    return future
