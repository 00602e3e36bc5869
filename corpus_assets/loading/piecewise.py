"""Reads windows piece by piece, shard by shard: for compressed corpora and where one flat mapping is impossible."""

from __future__ import annotations

import mmap
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np

from corpus_assets.loading.advice import Access, advice_for
from corpus_assets.loading.chunks import Chunk, ChunkedShard
from corpus_assets.loading.decoded import BLOCK_BYTES, DecodedChunks
from corpus_assets.loading.extents import TokenFile
from corpus_assets.loading.mapping import LARGE_WINDOW_BYTES, windows_of
from corpus_assets.loading.pieces import Grid, covered, split

MAX_OPEN_MAPPINGS = 4096


class MappedShards:
    """The token runs of uncompressed shards, each mapped on its own; at most `limit` at a time.

    A mapping is dropped by dropping its array, so one that is being read stays valid.
    """

    def __init__(
        self, files: Sequence[TokenFile], dtype: np.dtype, *, limit: int, advice: int | None
    ) -> None:
        self._files = files
        self._dtype = dtype
        self._limit = limit
        self._lock = threading.Lock()
        self._open: OrderedDict[int, np.ndarray] = OrderedDict()
        self._advice = advice

    def get(self, shard: int) -> np.ndarray:
        """All tokens of a shard, as a read-only view of its file."""
        with self._lock:
            view = self._open.get(shard)
            if view is None:
                view = self._open[shard] = self._map(self._files[shard])
                if len(self._open) > self._limit:
                    self._open.popitem(last=False)
            else:
                self._open.move_to_end(shard)
            return view

    def _map(self, file: TokenFile) -> np.ndarray:
        assert file.offset is not None
        head = file.offset % mmap.ALLOCATIONGRANULARITY
        descriptor = file.open()
        try:
            length = head + file.token_count * file.itemsize
            mapped = mmap.mmap(descriptor, length, access=mmap.ACCESS_READ, offset=file.offset - head)
        finally:
            os.close(descriptor)
        if self._advice is not None:
            mapped.madvise(self._advice)
        return np.frombuffer(mapped, self._dtype, count=file.token_count, offset=head)


class PiecewiseReader:
    """Reads any corpus: mapped shards as they are, chunked shards through a cache of decoded chunks.

    What it returns are copies. Holds no descriptor between calls; survives fork; is not pickled.

    Raises:
        IndexMismatchError: a file that is not what the index says.
    """

    block_bytes = BLOCK_BYTES  # a chunk is decoded once for all rows of a call

    def __init__(
        self,
        files: Sequence[TokenFile],
        dtype: np.dtype,
        *,
        threads: int,
        cache_bytes: int,
        max_open_mappings: int = MAX_OPEN_MAPPINGS,
    ) -> None:
        for file in files:
            os.close(file.open())
        self._files = files
        self._dtype = dtype
        self._threads = threads
        self._cache_bytes = cache_bytes
        self._max_open_mappings = max_open_mappings
        self._advice: int | None = None
        self._chunked = frozenset(i for i, file in enumerate(files) if file.offset is None)
        self._grid = Grid.of(
            [file.token_count for file in files],
            [file.chunk_size if file.offset is None else file.token_count for file in files],
        )
        self._start()

    def _start(self) -> None:
        """Make what a forked child must not share: locks, threads, and what they guard."""
        self._process = os.getpid()
        self._mapped = MappedShards(
            self._files, self._dtype, limit=self._max_open_mappings, advice=self._advice
        )
        shards = {i: ChunkedShard(self._files[i], self._dtype) for i in self._chunked}
        self._decoded = DecodedChunks(shards, threads=self._threads, cache_bytes=self._cache_bytes)

    def read(self, start: int, stop: int) -> np.ndarray:
        """Tokens [start, stop) as a fresh array."""
        if start == stop:
            return np.empty(0, self._dtype)
        return self._ranges(np.array([start]), np.array([stop]))

    def rows(self, starts: np.ndarray, length: int) -> np.ndarray:
        """(B, length) fresh array of the windows at `starts`, all inside the corpus."""
        if not starts.size:
            return np.empty((0, length), self._dtype)
        if length * self._dtype.itemsize > LARGE_WINDOW_BYTES:
            return np.stack([self.read(start, start + length) for start in starts.tolist()])
        # What the windows cover is read once and in order; each of them then lies in one run of that.
        firsts, stops = covered(starts, length)
        tokens = self._ranges(firsts, stops)
        if len(tokens) == len(starts) * length and (starts[1:] > starts[:-1]).all():
            # In order and side by side, or apart: they are the rows.
            return tokens.reshape(len(starts), length)
        shifts = (stops - firsts).cumsum() - stops
        places = starts + shifts[firsts.searchsorted(starts, side="right") - 1]
        return windows_of(tokens, length)[places].view(self._dtype).reshape(len(starts), length)

    def _ranges(self, firsts: np.ndarray, stops: np.ndarray) -> np.ndarray:
        """The tokens of the ranges [first, stop), one after the other."""
        if self._process != os.getpid():
            self._start()
        tokens = np.empty(int((stops - firsts).sum()), self._dtype)
        pieces = split(firsts, stops, self._grid)
        table = np.stack([pieces.shards, pieces.units, pieces.firsts, pieces.stops], axis=1).tolist()
        by_unit = [(unit, list(of_unit)) for unit, of_unit in groupby(map(tuple, table), itemgetter(0, 1))]
        chunks = self._decoded.each([unit for unit, _ in by_unit if unit[0] in self._chunked])
        position = 0
        for (shard, _), of_unit in by_unit:
            chunk = next(chunks) if shard in self._chunked else Chunk(self._mapped.get(shard), self._dtype)
            for _, _, first, stop in of_unit:
                chunk.fill(tokens[position : position + stop - first], first)
                position += stop - first
        return tokens

    def advise(self, access: Access) -> None:
        """Choose the kernel's read-ahead for mapped shards."""
        if (advice := advice_for(access)) is not None:
            self._advice = advice
            self._start()
