"""Decoded chunks: a bounded cache, and threads that decode what is missing."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from operator import itemgetter

from corpus_assets.loading.chunks import Chunk, ChunkedShard, StoredChunks

Place = tuple[int, int]  # shard, chunk
_Share = list[tuple[ChunkedShard, StoredChunks]]

BLOCK_BYTES = 8 * 1024 * 1024
_LEAST_SHARE = 2


class DecodedChunks:
    """Serves decoded chunks, least recently used ones dropped beyond `cache_bytes`.

    What a request needs is decoded in blocks, so that memory stays bounded however much that is, and each block
    in equal shares, one for each thread and the first for the caller's own: handing a chunk over costs as much as
    decoding it, so that a thread is given as many as there are. The threads end with this object.

    Args:
        shards: chunked shards by number.
        threads: threads that decode, the caller's included.
        cache_bytes: bound of the cache, in bytes of decoded tokens.
    """

    def __init__(self, shards: dict[int, ChunkedShard], *, threads: int, cache_bytes: int) -> None:
        self._shards = shards
        self._threads = threads
        self._cache_bytes = cache_bytes
        self._lock = threading.Lock()
        self._cache: OrderedDict[Place, Chunk] = OrderedDict()
        self._cached_bytes = 0
        self._pool: ThreadPoolExecutor | None = None

    def each(self, places: Sequence[Place]) -> Iterator[Chunk]:
        """The chunks at `places`, all different, in order; each is decoded at most once.

        Raises:
            ShardError, IndexMismatchError: see `ChunkedShard.read`.
        """
        first = 0
        while first < len(places):
            file = self._shards[places[first][0]].file
            size = max(2 * self._threads, BLOCK_BYTES // (file.chunk_size * file.itemsize))
            yield from self._block(places[first : first + size])
            first += size

    def _block(self, places: Sequence[Place]) -> list[Chunk]:
        found = self._cached(places)
        missing = [place for place in places if place not in found]
        if missing:
            decoded = dict(zip(missing, self._decode(missing), strict=True))
            self._keep(decoded)
            found |= decoded
        return [found[place] for place in places]

    def _decode(self, places: Sequence[Place]) -> list[Chunk]:
        size = max(_LEAST_SHARE, -(-len(places) // self._threads))
        own, *others = [self._fetch(places[first : first + size]) for first in range(0, len(places), size)]
        futures = [self._submit(share) for share in others]
        chunks = _decoded(own)
        for future in futures:
            chunks += future.result()
        return chunks

    def _fetch(self, places: Sequence[Place]) -> _Share:
        return [
            (self._shards[shard], self._shards[shard].fetch([chunk for _, chunk in of_shard]))
            for shard, of_shard in groupby(places, itemgetter(0))
        ]

    def _submit(self, share: _Share) -> Future[list[Chunk]]:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads - 1, thread_name_prefix="decode-chunk")
            return self._pool.submit(_decoded, share)

    def _cached(self, places: Sequence[Place]) -> dict[Place, Chunk]:
        found = {}
        with self._lock:
            for place in places:
                if (chunk := self._cache.get(place)) is not None:
                    self._cache.move_to_end(place)
                    found[place] = chunk
        return found

    def _keep(self, chunks: dict[Place, Chunk]) -> None:
        with self._lock:
            for place, chunk in chunks.items():
                if place not in self._cache:
                    self._cache[place] = chunk
                    self._cached_bytes += chunk.stored.nbytes
            while self._cached_bytes > self._cache_bytes:
                _, dropped = self._cache.popitem(last=False)
                self._cached_bytes -= dropped.stored.nbytes

    @property
    def cached_bytes(self) -> int:
        """Bytes of decoded tokens held."""
        return self._cached_bytes


def _decoded(share: _Share) -> list[Chunk]:
    return [chunk for shard, stored in share for chunk in shard.decode(stored)]
