"""SpanIndex: the annotations that a stretch of a corpus covers, clipped to it."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np

from corpus_assets.errors import IndexMismatchError, ShardError
from corpus_assets.loading.extents import TokenFile, shard_path
from corpus_assets.loading.reader import TokenReader, open_reader
from corpus_assets.shards.records import ShardIndex, ShardInfo
from corpus_assets.tokenizers.protocol import SpanTable

_INT64, _BYTE = np.dtype("<i8"), np.dtype(np.uint8)
_PARTS: dict[str, np.dtype] = {"starts": _INT64, "stops": _INT64, "value_ends": _INT64, "values": _BYTE}
_BLOCK = 256
_BLOCKS_AT_ONCE = 4096
_OPEN_SHARDS = 256


class Span(NamedTuple):
    """An annotation of the tokens [start, stop) of a window, and its value decoded from JSON."""

    start: int
    stop: int
    value: Any


class SpanIndex:
    """The annotations of one name in a corpus.

    A shard's are opened when a window first touches it. 16 bytes are kept for each 256 of them: where a block
    begins, and how far the annotations up to its end reach. So finding those of a window reads a few blocks,
    however many there are and however they overlap, as long as they are not much longer than their neighbours.

    Args:
        index: a checked index.
        name: of the annotations.

    Raises:
        KeyError: no shard has them.
    """

    def __init__(self, index: ShardIndex, name: str) -> None:
        if not any(name in shard.spans for shard in index.shards):
            names = sorted({found for shard in index.shards for found in shard.spans})
            raise KeyError(f"{index.root}: no spans {name!r}, found {', '.join(names) or 'no spans'}")
        self._index = index
        self._name = name
        self._shards = [shard for shard in index.shards if shard.token_count]
        self._starts = np.array([shard.global_start for shard in self._shards], np.int64)
        self._open: OrderedDict[int, _ShardSpans | None] = OrderedDict()

    def table(self, start: int, stop: int) -> SpanTable:
        """The annotations that touch the tokens [start, stop), in positions of that stretch, clipped to it.

        They are in the order of their starts in the corpus, values as JSON.

        Raises:
            IndexMismatchError: a file is not what the index says.
            ShardError: a shard's annotations cannot be read.
        """
        starts, stops, values = [np.empty(0, np.int64)], [np.empty(0, np.int64)], list[bytes]()
        number = int(np.searchsorted(self._starts, start, side="right")) - 1
        while start < stop and number < len(self._shards) and self._starts[number] < stop:
            first = int(self._starts[number])
            if (spans := self._shard(number)) is not None:
                part = spans.touching(max(0, start - first), stop - first)
                starts.append(part.starts + first)
                stops.append(part.stops + first)
                values += part.values
            number += 1
        return SpanTable(
            starts=np.clip(np.concatenate(starts), start, stop) - start,
            stops=np.clip(np.concatenate(stops), start, stop) - start,
            values=values,
        )

    def spans(self, start: int, stop: int) -> list[Span]:
        """The same, decoded."""
        table = self.table(start, stop)
        try:
            decoded = [json.loads(value) for value in table.values]
        except ValueError as error:
            raise ShardError(
                f"{self._index.root}: an annotation {self._name} of the tokens [{start}, {stop}) is not JSON: {error}"
            ) from error
        return [
            Span(*found) for found in zip(table.starts.tolist(), table.stops.tolist(), decoded, strict=True)
        ]

    def _shard(self, number: int) -> _ShardSpans | None:
        if number not in self._open:
            shard = self._shards[number]
            found = _ShardSpans(self._index, shard, self._name) if self._name in shard.spans else None
            self._open[number] = found if found is not None and found.count else None
            if len(self._open) > _OPEN_SHARDS:
                self._open.popitem(last=False)
        return self._open[number]


class _ShardSpans:
    """The annotations of one shard, in positions of the shard; sorted by start, as they were written."""

    def __init__(self, index: ShardIndex, shard: ShardInfo, name: str) -> None:
        from corpus_assets.shards.contents import read_contents

        self._path = shard_path(index, shard)
        try:
            contents = read_contents(self._path)
        except OSError as error:
            raise IndexMismatchError(
                f"{self._path}: {error.strerror}; shards.json names this file"
            ) from error
        self._readers: dict[str, TokenReader] = {}
        lengths = {}
        for part, dtype in _PARTS.items():
            dataset = f"spans/{name}/{part}"
            facts = contents.datasets.get(dataset)
            if facts is None or facts.dtype != dtype.name or facts.length < 0 or facts.chunk < 1:
                raise ShardError(f"{self._path}: {dataset} is {facts}, expected {dtype.name} in chunks")
            lengths[part] = facts.length
            if not facts.length:
                continue
            offset = facts.run_offset
            if offset is not None and not 0 <= offset <= shard.file_bytes - facts.length * dtype.itemsize:
                raise ShardError(f"{self._path}: {dataset} begins at byte {offset} of {shard.file_bytes}")
            file = TokenFile(
                path=self._path,
                offset=offset,
                token_count=facts.length,
                itemsize=dtype.itemsize,
                chunk_size=facts.chunk,
                file_bytes=shard.file_bytes,
                dataset=dataset,
            )
            self._readers[part] = open_reader([file], dtype, layout="pieces", cache_bytes=2**20, threads=1)
        self.count = lengths["starts"]
        self._value_bytes = lengths["values"]
        if not lengths["starts"] == lengths["stops"] == lengths["value_ends"]:
            raise ShardError(f"{self._path}: spans {name} have {lengths}, expected as many stops as starts")
        firsts, reaches = [], []
        for first in range(0, self.count, _BLOCK * _BLOCKS_AT_ONCE):
            last = min(self.count, first + _BLOCK * _BLOCKS_AT_ONCE)
            edges = np.arange(0, last - first, _BLOCK)
            firsts.append(self._readers["starts"].read(first, last)[edges])
            reaches.append(np.maximum.reduceat(self._readers["stops"].read(first, last), edges))
        if self.count:
            self._firsts = np.concatenate(firsts)
            self._reaches = np.maximum.accumulate(np.concatenate(reaches))

    def touching(self, start: int, stop: int) -> SpanTable:
        """The annotations that touch [start, stop), unclipped."""
        first = int(np.searchsorted(self._reaches, start, side="right")) * _BLOCK
        last = min(self.count, int(np.searchsorted(self._firsts, stop)) * _BLOCK)
        if first >= last:
            return SpanTable(np.empty(0, np.int64), np.empty(0, np.int64), [])
        starts, stops = (self._readers[part].read(first, last) for part in ("starts", "stops"))
        found = ((starts < stop) & (stops > start)).nonzero()[0]
        return SpanTable(starts[found], stops[found], self._values(found + first))

    def _values(self, numbers: np.ndarray) -> list[bytes]:
        if not numbers.size:
            return []
        first, last = int(numbers[0]), int(numbers[-1]) + 1
        ends = self._readers["value_ends"].read(max(0, first - 1), last)
        if first == 0:
            ends = np.concatenate([[0], ends])
        if (np.diff(ends) < 0).any() or ends[0] < 0 or ends[-1] > self._value_bytes:
            raise ShardError(
                f"{self._path}: the values of annotations {first} to {last - 1} are not in order"
            )
        begin = int(ends[0])
        raw = self._readers["values"].read(begin, int(ends[-1])).tobytes() if ends[-1] > begin else b""
        edges = (ends - begin).tolist()
        return [raw[edges[place] : edges[place + 1]] for place in (numbers - first).tolist()]
