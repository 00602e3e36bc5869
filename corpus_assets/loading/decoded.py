"""Decoded chunks: a bounded cache, filled by threads that run ahead of the reader."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from corpus_assets.loading.chunks import ChunkedShard

Place = tuple[int, int]  # shard, chunk

_MAX_GROUP = 8


class DecodedChunks:
    """Serves decoded chunks, least recently used ones dropped beyond `cache_bytes`.

    A thread takes a group of up to eight chunks at a time, since handing over costs as much as decoding a small
    one. At most two groups per thread are decoded ahead, so that memory stays bounded however many chunks one
    request needs. The threads end with this object.

    Args:
        shards: chunked shards by number.
        threads: decoding threads; 1 decodes in the caller's thread.
        cache_bytes: bound of the cache, in bytes of decoded tokens.
    """

    def __init__(self, shards: dict[int, ChunkedShard], *, threads: int, cache_bytes: int) -> None:
        self._shards = shards
        self._threads = threads
        self._cache_bytes = cache_bytes
        self._lock = threading.Lock()
        self._cache: OrderedDict[Place, np.ndarray] = OrderedDict()
        self._cached_bytes = 0
        self._pool: ThreadPoolExecutor | None = None

    def each(self, places: Sequence[Place]) -> Iterator[np.ndarray]:
        """The chunks at `places`, all different, in order; each is decoded at most once.

        Raises:
            ShardError, IndexMismatchError: see `ChunkedShard.read`.
        """
        if self._threads == 1 or len(places) == 1:
            yield from map(self._get, places)
            return
        size = min(_MAX_GROUP, -(-len(places) // (2 * self._threads)))
        upcoming = (places[first : first + size] for first in range(0, len(places), size))
        ahead: deque[list[np.ndarray] | Future[list[np.ndarray]]] = deque()
        try:
            while True:
                while len(ahead) < 2 * self._threads and (group := next(upcoming, None)) is not None:
                    ahead.append(self._all_cached(group) or self._submit(group))
                if not ahead:
                    return
                chunks = ahead.popleft()
                yield from chunks.result() if isinstance(chunks, Future) else chunks
        finally:
            for chunks in ahead:
                if isinstance(chunks, Future):
                    chunks.cancel()

    def _submit(self, places: Sequence[Place]) -> Future[list[np.ndarray]]:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="decode-chunk")
            return self._pool.submit(lambda: [self._get(place) for place in places])

    def _all_cached(self, places: Sequence[Place]) -> list[np.ndarray] | None:
        """The chunks of a group that needs no thread."""
        found = []
        for place in places:
            if (chunk := self._cached(place)) is None:
                return None
            found.append(chunk)
        return found

    def _cached(self, place: Place) -> np.ndarray | None:
        with self._lock:
            chunk = self._cache.get(place)
            if chunk is not None:
                self._cache.move_to_end(place)
            return chunk

    def _get(self, place: Place) -> np.ndarray:
        chunk = self._cached(place)
        if chunk is None:
            shard, number = place
            chunk = self._shards[shard].read(number)
            self._keep(place, chunk)
        return chunk

    def _keep(self, place: Place, chunk: np.ndarray) -> None:
        with self._lock:
            if place in self._cache:
                return
            self._cache[place] = chunk
            self._cached_bytes += chunk.nbytes
            while self._cached_bytes > self._cache_bytes:
                _, dropped = self._cache.popitem(last=False)
                self._cached_bytes -= dropped.nbytes

    @property
    def cached_bytes(self) -> int:
        """Bytes of decoded tokens held."""
        return self._cached_bytes
