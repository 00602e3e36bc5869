"""DocumentIndex: where every document of a corpus begins and ends, for many documents and windows at once.

It reads the ends that the shards store, through the same mapping as the tokens; nothing is searched for in the
tokens and nothing is kept that grows with the corpus.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from corpus_assets.errors import ShardError
from corpus_assets.loading.lookup import ShardLookup
from corpus_assets.loading.reader import TokenReader
from corpus_assets.loading.requests import checked_starts
from corpus_assets.shards.records import ShardIndex

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_LARGEST_INT32 = 2**31 - 1


class DocumentIndex:
    """The documents of a corpus, numbered from 0 through all its shards in order.

    A document's tokens include the boundary behind it, so that documents part the corpus without a gap.

    Args:
        index: whose documents these are.
        ends: reads the `document_ends` of all its shards end to end.
    """

    def __init__(self, index: ShardIndex, ends: TokenReader) -> None:
        shards = [shard for shard in index.shards if shard.document_count]
        self._root = index.root
        self._token_count = index.token_count
        self._ends = ends
        self._token_starts = np.array([shard.global_start for shard in shards], np.int64)
        self._documents = np.cumsum([0, *(shard.document_count for shard in shards)], dtype=np.int64)
        self._shard_of_document = ShardLookup(self._documents)
        self._shard_of_token = ShardLookup(np.append(self._token_starts, self._token_count))

    def __len__(self) -> int:
        """Documents in the corpus."""
        return int(self._documents[-1])

    def stops(self, documents: np.ndarray) -> np.ndarray:
        """(N,) int64 positions behind the boundary of each document; the documents must be in the corpus."""
        if not documents.size:
            return np.empty(0, np.int64)
        local = self._ends.rows(documents, 1)[:, 0]
        return local + self._token_starts.take(self._shard_of_document.find(documents))

    def bounds(self, documents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(N,) int64 starts and (N,) int64 stops of documents of the corpus.

        Raises:
            ShardError: what the shards say cannot be the bounds of documents.
        """
        both = self.stops(np.concatenate([documents, np.maximum(documents - 1, 0)]))
        stops, starts = both[: len(documents)], both[len(documents) :]
        starts = np.where(documents == 0, 0, starts)
        wrong = (starts < 0) | (starts >= stops) | (stops > self._token_count)
        if wrong.any():
            place = int(wrong.argmax())
            raise ShardError(
                f"{self._root}: document {documents[place]} is [{starts[place]}, {stops[place]}), expected a "
                f"stretch of the corpus's {self._token_count} tokens"
            )
        return starts, stops

    def stops_between(self, first: int, last: int) -> np.ndarray:
        """(last - first,) int64 stops of the documents [first, last), which lie together in a shard's file."""
        stops = self._ends.read(first, last)
        shard = int(np.searchsorted(self._documents, first, side="right")) - 1
        while shard < len(self._token_starts) and self._documents[shard] < last:
            begin, end = int(self._documents[shard]), int(self._documents[shard + 1])
            stops[max(begin, first) - first : end - first] += self._token_starts[shard]
            shard += 1
        return stops

    def containing(self, positions: np.ndarray) -> np.ndarray:
        """(N,) int64: the document that each position of the corpus belongs to.

        A binary search in the shard's document ends: a handful of reads for any number of positions.
        """
        shards = self._shard_of_token.find(positions)
        low, high = self._documents.take(shards), self._documents.take(shards + 1) - 1
        while (low < high).any():
            middle = (low + high) // 2
            behind = self.stops(middle) <= positions
            low = np.where(behind, np.minimum(middle + 1, high), low)
            high = np.where(behind, high, middle)
        return low

    def document_ids(self, starts: ArrayLike, length: int) -> np.ndarray:
        """(B, length) int64: the number of the document that each token of each window belongs to."""
        positions = checked_starts(starts, length, self._token_count)
        first, rows, columns = self._begins(positions, length)
        ids = np.zeros((len(positions), length), np.int64)
        ids[rows, columns] = 1
        ids[:, :1] = first[:, None]
        return np.cumsum(ids, axis=1, out=ids)

    def position_ids(self, starts: ArrayLike, length: int) -> np.ndarray:
        """(B, length) int64: tokens of its document before each token, inside the window.

        It is 0 where a document begins and in a window's first column, so always below `length`.
        """
        positions = checked_starts(starts, length, self._token_count)
        _, rows, columns = self._begins(positions, length)
        begins = np.zeros((len(positions), length), np.int64)
        begins[rows, columns] = columns
        return np.arange(length) - np.maximum.accumulate(begins, axis=1)

    def cu_seqlens(self, starts: ArrayLike, length: int) -> np.ndarray:
        """Where the documents of a batch begin when its windows are laid end to end, then B * length.

        Each window begins with a document of its own, whole or not: attention never looks into another window.
        So the differences are sequence lengths, as kernels for variable lengths take them.

        Returns:
            (N + 1,) int32, int64 where the batch has 2^31 tokens or more.
        """
        positions = checked_starts(starts, length, self._token_count)
        _, rows, columns = self._begins(positions, length)
        windows = np.arange(len(positions) + 1, dtype=np.int64) * length
        begins = np.sort(np.concatenate([windows, rows * length + columns]))
        return begins.astype(offset_dtype(int(windows[-1])))

    def _begins(self, starts: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Each window's first document; and row and column of every document that begins inside a window."""
        if not len(starts):
            nothing = np.empty(0, np.int64)
            return nothing, nothing, nothing
        both = self.containing(np.concatenate([starts, starts + length - 1]))
        first, last = both[: len(starts)], both[len(starts) :]
        counts = last - first
        rows = np.repeat(np.arange(len(starts)), counts)
        ended = np.arange(len(rows)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
        columns = self.stops(ended) - starts.take(rows)
        if columns.size and not 0 < columns.min() <= columns.max() < length:
            raise ShardError(
                f"{self._root}: the ends of documents {ended.min()} to {ended.max()} are not in order; "
                "`corpus validate` names the shard"
            )
        return first, rows, columns


def offset_dtype(total: int) -> np.dtype:
    """int32, as kernels for variable lengths want their offsets; int64 where `total` needs it."""
    return np.dtype(np.int32 if total <= _LARGEST_INT32 else np.int64)
