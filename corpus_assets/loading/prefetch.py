"""Prefetcher: results made ahead by one background thread, in order and bounded."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Prefetcher(Generic[T]):
    """Takes items from an iterator in a thread, at most `depth` ahead of the consumer.

    An exception of the iterator reaches the consumer in its place in the order; nothing follows it. The thread
    knows nothing of its consumer, so it can be stopped when the consumer is collected.
    """

    def __init__(self, items: Iterator[T], *, depth: int) -> None:
        self._items = items
        self._depth = depth
        self._ready: deque[T] = deque()
        self._error: BaseException | None = None
        self._ended = False
        self._stopped = False
        self._change = threading.Condition()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name="prefetch-batches", daemon=True)
        self._thread.start()

    @property
    def usable(self) -> bool:
        """Whether the thread runs in this process: a forked child has no copy of it."""
        return self._process == os.getpid() and not self._stopped

    def _run(self) -> None:
        try:
            for item in self._items:
                with self._change:
                    self._ready.append(item)
                    self._change.notify_all()
                    self._change.wait_for(lambda: self._stopped or len(self._ready) < self._depth)
                    if self._stopped:
                        return
        except BaseException as error:  # the consumer raises it
            self._error = error
        with self._change:
            self._ended = True
            self._change.notify_all()

    def __next__(self) -> T:
        with self._change:
            self._change.wait_for(lambda: self._ready or self._ended)
            if self._ready:
                item = self._ready.popleft()
                self._change.notify_all()
                return item
        self.stop()
        raise self._error or StopIteration

    def stop(self) -> None:
        """End the thread and drop what is ready. Safe to call again, and from any thread."""
        if not self.usable:
            return
        with self._change:
            self._stopped = True
            self._ready.clear()
            self._change.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join()
