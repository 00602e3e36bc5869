"""Which document a token belongs to: from a position in the corpus back to a row of an input file."""

from __future__ import annotations

import bisect
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from corpus_assets.errors import ShardError
from corpus_assets.loading.hdf5 import open_shard
from corpus_assets.shards.records import ShardIndex, ShardInfo

if TYPE_CHECKING:
    import h5py


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
        ShardError: the shard's document index cannot be read or does not cover the position.
    """
    first_document = 0
    for shard in index.shards:
        if position < shard.global_start + shard.token_count:
            return _locate(index, shard, position, first_document)
        first_document += shard.document_count
    raise IndexError(f"position is {position}, expected 0 to {index.token_count - 1}")


def _locate(index: ShardIndex, shard: ShardInfo, position: int, first_document: int) -> DocumentLocation:
    path = os.path.join(index.root, shard.path)
    local = position - shard.global_start
    try:
        with open_shard(path) as file:
            ends, rows = file["document_ends"], file["document_rows"]
            number = bisect.bisect_right(_Lazy(ends), local)
            stop = int(ends[number])
            start = int(ends[number - 1]) if number else 0
            row = int(rows[number])
    except (OSError, KeyError, ValueError, IndexError, TypeError, AttributeError, RuntimeError) as error:
        raise ShardError(f"{path}: no document found for token {local} of the shard: {error}") from error
    if not start <= local < stop <= shard.token_count:
        raise ShardError(f"{path}: document {number} is [{start}, {stop}), expected it to hold token {local}")
    return DocumentLocation(
        shard=shard.key,
        input_name=shard.input_name,
        row=row,
        document=first_document + number,
        start=shard.global_start + start,
        stop=shard.global_start + stop,
    )


class _Lazy:
    """A dataset as bisect wants it: values read one by one."""

    def __init__(self, dataset: h5py.Dataset) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return int(self._dataset.shape[0])

    def __getitem__(self, number: int) -> np.int64:
        return self._dataset[number]
