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
    knows nothing of its consumer, so it can be stopped when the consumer is collected. Items and permissions to
    make one travel through two queues written in C: a consumer pays a microsecond for an item that is ready.
    """

    def __init__(self, items: Iterator[T], *, depth: int) -> None:
        self._items = items
        self._stopped = False
        self._process = os.getpid()
        self._ready: SimpleQueue[T | _End] = SimpleQueue()
        self._permits: SimpleQueue[None] = SimpleQueue()
        for _ in range(depth):
            self._permits.put(None)
        self._thread = threading.Thread(target=self._run, name="prefetch-batches", daemon=True)
        self._thread.start()

    @property
    def usable(self) -> bool:
        """Whether the thread serves this process: a forked child has no copy of it."""
        return self._process == os.getpid() and not self._stopped

    def _run(self) -> None:
        try:
            while True:
                self._permits.get()
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
        self._permits.put(None)
        return item

    def stop(self) -> None:
        """End the thread and drop what is ready. Safe to call again, and from any thread."""
        if not self.usable:
            return
        self._stopped = True
        self._permits.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._ready = SimpleQueue()


class _End:
    """Follows the last item: why there are no more."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
