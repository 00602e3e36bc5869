"""Which document a token belongs to: from a position in the corpus back to a row of an input file."""

from __future__ import annotations

import bisect
import os
from dataclasses import dataclass
from types import TracebackType

import numpy as np

from corpus_assets.errors import ShardError
from corpus_assets.loading.extents import DOCUMENT_ENDS, DOCUMENT_ROWS, TokenFile, document_file
from corpus_assets.shards.records import ShardIndex, ShardInfo

_INT64 = np.dtype("<i8")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentLocation:
    """Where one document stands, in the corpus and in its input.

    Attributes:
        shard: partition key of its shard.
        input_name: the input file, relative to the corpus's input.
        row: its row (line) in the input file, from 0.
        document: its number in the corpus, from 0.
        start: position of its first token in the corpus.
        stop: position behind its boundary token.
    """

    shard: str
    input_name: str
    row: int
    document: int
    start: int
    stop: int


def locate_document(index: ShardIndex, position: int) -> DocumentLocation:
    """The document whose tokens, its boundary included, hold `position`.

    Reads a handful of values from the shard's document index, whatever its size.

    Raises:
        IndexMismatchError: the file is not what the index says.
        ShardError: the shard's document index cannot be read or does not cover the position.
    """
    first_document = 0
    for shard in index.shards:
        if position < shard.global_start + shard.token_count:
            return _locate(index, shard, position, first_document)
        first_document += shard.document_count
    raise IndexError(f"position is {position}, expected 0 to {index.token_count - 1}")


def _locate(index: ShardIndex, shard: ShardInfo, position: int, first_document: int) -> DocumentLocation:
    local = position - shard.global_start
    ends_file = document_file(index, shard, DOCUMENT_ENDS)
    with _Values(ends_file) as ends, _Values(document_file(index, shard, DOCUMENT_ROWS)) as rows:
        number = bisect.bisect_right(ends, local)
        if number == len(ends):
            raise ShardError(f"{ends_file.path}: no document ends behind token {local} of the shard")
        start, stop = ends[number - 1] if number else 0, ends[number]
        row = rows[number]
    if not 0 <= start <= local < stop <= shard.token_count:
        raise ShardError(
            f"{ends_file.path}: document {number} is [{start}, {stop}), expected it to hold token {local}"
        )
    return DocumentLocation(
        shard=shard.key,
        input_name=shard.input_name,
        row=row,
        document=first_document + number,
        start=shard.global_start + start,
        stop=shard.global_start + stop,
    )


class _Values:
    """The values of one shard, one for each document, as bisect wants them: read one by one."""

    def __init__(self, file: TokenFile) -> None:
        self._file = file
        self._descriptor = file.open()

    def __len__(self) -> int:
        return self._file.token_count

    def __getitem__(self, number: int) -> int:
        if self._file.offset is not None:
            raw = os.pread(self._descriptor, 8, self._file.offset + 8 * number)
            return int(np.frombuffer(raw, _INT64)[0])
        from corpus_assets.loading.chunks import ChunkedShard

        chunk, place = divmod(number, self._file.chunk_size)
        value = np.empty(1, _INT64)
        ChunkedShard(self._file, _INT64).read([chunk])[0].fill(value, place)
        return int(value[0])

    def __enter__(self) -> _Values:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)
