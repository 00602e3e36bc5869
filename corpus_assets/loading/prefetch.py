"""Prefetcher: results made ahead by one background thread, in order and bounded."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class Prefetcher(Generic[T]):
    """Takes items from an iterator in a thread, at most `depth` ahead of the consumer.

    An exception of the iterator reaches the consumer in its place in the order; nothing follows it. The thread
    knows nothing of its consumer, so it can be stopped when the consumer is collected. Items and permits travel
    through two queues written in C. A permit is for several items, half of `depth`: waking the thread costs the
    consumer more than all else that it does for an item that is ready.
    """

    def __init__(self, items: Iterator[T], *, depth: int) -> None:
        self._items = items
        self._stopped = False
        self._process = os.getpid()
        self._ready: SimpleQueue[T | _End] = SimpleQueue()
        self._permits: SimpleQueue[int] = SimpleQueue()
        self._permits.put(depth)
        self._permit = max(1, depth // 2)
        self._taken = 0
        self._thread = threading.Thread(target=self._run, name="prefetch-batches", daemon=True)
        self._thread.start()

    @property
    def usable(self) -> bool:
        """Whether the thread serves this process: a forked child has no copy of it."""
        return self._process == os.getpid() and not self._stopped

    def _run(self) -> None:
        try:
            while True:
                for _ in range(self._permits.get()):
                    if self._stopped:
                        return
                    self._ready.put(next(self._items))
        except BaseException as error:  # the consumer raises it, StopIteration included
            self._ready.put(_End(error))

    def __next__(self) -> T:
        if self._stopped:
            raise StopIteration
        item = self._ready.get()
        if isinstance(item, _End):
            self.stop()
            raise item.error
        self._taken += 1
        if self._taken == self._permit:
            self._permits.put(self._permit)
            self._taken = 0
        return item

    def stop(self) -> None:
        """End the thread and drop what is ready. Safe to call again, and from any thread."""
        if not self.usable:
            return
        self._stopped = True
        self._permits.put(1)
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._ready = SimpleQueue()


class _End:
    """Follows the last item: why there are no more."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
