"""Bridges: the tokens around each shard border once more, in one piece, for the windows that run across it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

MOST_REACH = 2048
MOST_BYTES = 64 * 1024 * 1024


def bridge_reach(border_count: int, itemsize: int) -> int:
    """Tokens on each side of a border that a bridge holds: up to 2048, fewer where all bridges passed 64 MiB."""
    return min(MOST_REACH, MOST_BYTES // (2 * itemsize * max(1, border_count)))


class Bridges:
    """Memory beside the mapped shards in which a window across a border lies in one piece.

    A bridge is written when the first window crosses its border; the memory of others is never touched. Two
    threads that write the same bridge write the same tokens.

    Args:
        memory: (B * 2 * reach,) writable memory for B borders, of the tokens' dtype.
        first: where that memory begins in the flat array.
        borders: (B,) int64, positions in the corpus of the first tokens behind each border.
        token_count: tokens in the corpus.
    """

    def __init__(
        self,
        memory: np.ndarray,
        *,
        first: int,
        borders: np.ndarray,
        token_count: int,
    ) -> None:
        self._memory = memory
        self._borders = borders
        self._token_count = token_count
        self.reach = len(memory) // (2 * len(borders)) if len(borders) else 0
        middles = first + self.reach * (2 * np.arange(len(borders)) + 1)
        self._shifts = middles - borders
        self._is_written = np.zeros(len(borders), bool)

    def places(
        self, starts: np.ndarray, borders: np.ndarray, read: Callable[[int, int], np.ndarray]
    ) -> np.ndarray:
        """Where windows of up to reach + 1 tokens lie in the flat array.

        Args:
            starts: (N,) positions in the corpus.
            borders: (N,) number of the border that each window crosses first.
            read: gives the tokens [start, stop) of the corpus.
        """
        written = self._is_written.take(borders)
        if not written.all():
            for border in np.unique(borders[~written]).tolist():
                self._write(border, read)
        return starts + self._shifts.take(borders)

    def _write(self, border: int, read: Callable[[int, int], np.ndarray]) -> None:
        position = int(self._borders[border])
        start, stop = max(0, position - self.reach), min(self._token_count, position + self.reach)
        shift = self.reach * (2 * border + 1) - position
        self._memory[start + shift : stop + shift] = read(start, stop)
        self._is_written[border] = True
