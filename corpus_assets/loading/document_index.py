"""DocumentIndex: where every document of a corpus begins and ends, for many documents and windows at once.

It reads the ends that the shards store, through the same mapping as the tokens; nothing is searched for in the
tokens. Up to 262,144 of the ends, 2 MiB, are kept once they are asked for: all of them, or every k-th.
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
_MOST_KEPT = 2**18


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
        self._last: tuple[tuple[bytes, int], tuple[np.ndarray, np.ndarray]] = (
            (b"", 0),
            (np.empty(0, np.int64), np.zeros(1, np.int64)),
        )
        self._apart = max(1, -(-len(self) // _MOST_KEPT))
        self._kept: np.ndarray | None = None
        self._shard_of_document = ShardLookup(self._documents)
        self._ramp = np.empty(0, np.int64)

    def __len__(self) -> int:
        """Documents in the corpus."""
        return int(self._documents[-1])

    def stops(self, documents: np.ndarray) -> np.ndarray:
        """(N,) int64 positions behind the boundary of each document; the documents must be in the corpus."""
        if not documents.size:
            return np.empty(0, np.int64)
        if self._apart == 1:
            return self._kept_stops().take(documents)
        return self._read_stops(documents)

    def _read_stops(self, documents: np.ndarray) -> np.ndarray:
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

        A binary search in the ends that are kept; where they are every k-th, log2(k) reads for any number of
        positions follow.
        """
        low = self._kept_stops().searchsorted(positions, side="right") * self._apart
        high = np.minimum(low + self._apart, len(self)) - 1
        low = np.minimum(low, high)  # a damaged shard's last document may end before its tokens do
        while (low < high).any():
            middle = (low + high) // 2
            behind = self.stops(middle) <= positions
            low = np.where(behind, np.minimum(middle + 1, high), low)
            high = np.where(behind, high, middle)
        return low

    def _kept_stops(self) -> np.ndarray:
        """(N // k,) int64 stops of every k-th document, k - 1 first, k = `_apart`."""
        if self._kept is None:
            self._kept = (
                self.stops_between(0, len(self))
                if self._apart == 1
                else self._read_stops(np.arange(self._apart - 1, len(self), self._apart))
            )
        return self._kept

    def document_ids(self, starts: ArrayLike, length: int) -> np.ndarray:
        """(B, length) int64: the number of the document that each token of each window belongs to."""
        documents, begins = self._runs(starts, length)
        return np.repeat(documents, np.diff(begins)).reshape(-1, length)

    def position_ids(self, starts: ArrayLike, length: int) -> np.ndarray:
        """(B, length) int64: tokens of its document before each token, inside the window.

        It is 0 where a document begins and in a window's first column, so always below `length`.
        """
        _, begins = self._runs(starts, length)
        positions = np.repeat(begins[:-1], np.diff(begins))
        ramp = self._ramp
        if len(ramp) < len(positions):
            ramp = self._ramp = np.arange(len(positions))
        np.subtract(ramp[: len(positions)], positions, out=positions)
        return positions.reshape(-1, length)

    def cu_seqlens(self, starts: ArrayLike, length: int) -> np.ndarray:
        """Where the documents of a batch begin when its windows are laid end to end, then B * length.

        Each window begins with a document of its own, whole or not: attention never looks into another window.
        So the differences are sequence lengths, as kernels for variable lengths take them.

        Returns:
            (N + 1,) int32, int64 where the batch has 2^31 tokens or more.
        """
        _, begins = self._runs(starts, length)
        return begins.astype(offset_dtype(int(begins[-1])))

    def _runs(self, starts: ArrayLike, length: int) -> tuple[np.ndarray, np.ndarray]:
        """The document of each run of tokens in a batch whose windows are laid end to end; and the runs' bounds.

        The last batch is remembered: one is often asked for its ids, positions and lengths in turn.
        """
        positions = checked_starts(starts, length, self._token_count)
        asked = positions.tobytes(), length
        found, runs = self._last
        if found != asked:
            runs = self._find_runs(positions, length)
            self._last = asked, runs
        return runs

    def _find_runs(self, starts: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
        if not len(starts):
            return np.empty(0, np.int64), np.zeros(1, np.int64)
        both = self.containing(np.concatenate([starts, starts + length - 1]))
        first, last = both[: len(starts)], both[len(starts) :]
        counts = np.maximum(last - first, 0) + 1
        ends = np.cumsum(counts)
        rows = np.repeat(np.arange(len(starts)), counts)
        documents = np.arange(ends[-1]) + np.repeat(first - (ends - counts), counts)
        inside = np.ones(len(rows), bool)
        inside[ends - counts] = False
        begins = np.append(rows * length, len(starts) * length)
        columns = self.stops(documents[inside] - 1) - starts.take(rows[inside])
        begins[:-1][inside] += columns
        if columns.size and ((columns <= 0) | (columns >= length) | (np.diff(begins)[inside] <= 0)).any():
            raise ShardError(
                f"{self._root}: the ends of documents {documents.min()} to {documents.max()} are not in order; "
                "`corpus validate` names the shard"
            )
        return documents, begins


def offset_dtype(total: int) -> np.dtype:
    """int32, as kernels for variable lengths want their offsets; int64 where `total` needs it."""
    return np.dtype(np.int32 if total <= _LARGEST_INT32 else np.int64)
