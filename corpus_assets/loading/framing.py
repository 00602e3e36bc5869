"""How a corpus is framed into windows: which tokens window i covers, for many windows at once.

A whole window spans window_size + 1 tokens, targets being inputs shifted by one. A shorter one is padded by whoever
reads it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np

from corpus_assets.loading.document_index import DocumentIndex
from corpus_assets.loading.windows import cell_widths, num_windows, tail_tokens

_BLOCK = 256
_BLOCKS_AT_ONCE = 4096


class Framing(Protocol):
    """Windows numbered from 0 by position."""

    @property
    def window_size(self) -> int:
        """Inputs per window."""

    @property
    def count(self) -> int:
        """Windows in the corpus."""

    @property
    def padded(self) -> bool:
        """Whether a window may be shorter than window_size + 1 tokens."""

    def locate(self, windows: np.ndarray, drawn: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """First token of each window, and tokens in it where it may be shorter; int64, same shape.

        Args:
            windows: int64 numbers.
            drawn: uint64 random numbers; windows move by up to stride - 1 tokens then, where they can.
        """

    def touching(self, start: int, stop: int, *, moving: bool) -> tuple[int, int]:
        """The numbers [first, last) of the windows that touch the tokens [start, stop).

        Args:
            start: first token of a stretch of the corpus.
            stop: past its last token; the stretch is not empty.
            moving: count windows that touch it for some drawn number.
        """


class WindowGrid:
    """Windows at every multiple of `stride`, whatever documents they cover.

    Args:
        token_count: tokens in the corpus.
        window_size: inputs per window.
        stride: distance of window starts.
        partial: `drop` leaves out what is behind the last whole window, `pad` makes a window of it.

    Raises:
        ValueError: a number or name that does not fit.
    """

    def __init__(self, token_count: int, *, window_size: int, stride: int, partial: str = "drop") -> None:
        if partial not in ("drop", "pad"):
            raise ValueError(f"partial is {partial!r}, expected drop or pad")
        self.token_count = token_count
        self.window_size = window_size
        self.stride = stride
        self.whole_count = num_windows(token_count, window_size=window_size, stride=stride)
        # One token alone has no target.
        self.padded = partial == "pad" and self.tail_tokens > 1
        self.count = self.whole_count + self.padded

    @property
    def tail_tokens(self) -> int:
        """Tokens behind the last whole window's stride; see `windows.tail_tokens`."""
        return tail_tokens(self.token_count, window_size=self.window_size, stride=self.stride)

    def locate(self, windows: np.ndarray, drawn: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """See `Framing`; the partial window never moves."""
        starts = windows * self.stride
        if drawn is not None:
            sizes = {"window_size": self.window_size, "stride": self.stride}
            widths = np.maximum(1, cell_widths(windows, self.token_count, **sizes))
            starts += (drawn % widths.astype(np.uint64)).astype(np.int64)
        if not self.padded:
            return starts, None
        return starts, np.minimum(self.window_size + 1, self.token_count - starts)

    def touching(self, start: int, stop: int, *, moving: bool) -> tuple[int, int]:
        """See `Framing`."""
        behind = start - self.window_size  # the first start of a window that reaches `start`
        first = behind // self.stride if moving else -(-behind // self.stride)
        last = (stop - 1) // self.stride + 1
        return min(max(0, first), self.count), min(last, self.count)


class DocumentWindows:
    """Windows that never cross a document: each document is cut from its start, its last window is the shorter one.

    A document of n tokens, its boundary included, has n - 1 targets and so ceil((n - 1) / window_size) windows:
    an empty one has none. Keeps 8 bytes for every 256 documents, counted once when it is made.

    Args:
        documents: the corpus's documents.
        window_size: inputs per window.
    """

    padded = True

    def __init__(self, documents: DocumentIndex, *, window_size: int) -> None:
        self._documents = documents
        self.window_size = window_size
        sums = [np.zeros(1, np.int64)]
        for first in range(0, len(documents), _BLOCK * _BLOCKS_AT_ONCE):
            last = min(len(documents), first + _BLOCK * _BLOCKS_AT_ONCE)
            counts = self._counts(self._edges(first, last))
            sums.append(np.add.reduceat(counts, np.arange(0, last - first, _BLOCK)))
        self._windows_before = np.cumsum(np.concatenate(sums))
        self.count = int(self._windows_before[-1])

    def _edges(self, first: int, last: int) -> np.ndarray:
        """(last - first + 1,) int64: the start of document `first`, then the stops of [first, last)."""
        if first:
            return self._documents.stops_between(first - 1, last)
        return np.concatenate([[0], self._documents.stops_between(0, last)])

    def _counts(self, edges: np.ndarray) -> np.ndarray:
        return -(-(np.diff(edges) - 1) // self.window_size)

    def _block(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Edges of the documents of a block, and the windows of the corpus before each and behind the last."""
        edges = self._edges(number * _BLOCK, min(len(self._documents), (number + 1) * _BLOCK))
        before = np.concatenate([[0], np.cumsum(self._counts(edges))])
        return edges, before + self._windows_before[number]

    def locate(self, windows: np.ndarray, drawn: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """See `Framing`; these windows never move."""
        del drawn
        flat = windows.ravel()
        starts, stops = np.empty_like(flat), np.empty_like(flat)
        blocks = np.searchsorted(self._windows_before, flat, side="right") - 1
        for block in np.unique(blocks).tolist():
            inside = (blocks == block).nonzero()[0]
            edges, before = self._block(block)
            numbers = flat[inside]
            documents = np.searchsorted(before, numbers, side="right") - 1
            starts[inside] = edges[documents] + (numbers - before[documents]) * self.window_size
            stops[inside] = edges[documents + 1]
        lengths = np.minimum(self.window_size + 1, stops - starts)
        return starts.reshape(windows.shape), lengths.reshape(windows.shape)

    def touching(self, start: int, stop: int, *, moving: bool) -> tuple[int, int]:
        """See `Framing`."""
        del moving
        first_document, last_document = self._documents.containing(np.array([start, stop - 1])).tolist()
        edges, before, place = self._document(first_document)
        # A window's last token is a target, and the next window's first input.
        reached = max(0, -(-(start - int(edges[place])) // self.window_size) - 1)
        first = min(int(before[place]) + reached, int(before[place + 1]))
        edges, before, place = self._document(last_document)
        begun = (stop - 1 - int(edges[place])) // self.window_size + 1
        return first, min(int(before[place]) + begun, int(before[place + 1]))

    def _document(self, number: int) -> tuple[np.ndarray, np.ndarray, int]:
        return *self._block(number // _BLOCK), number % _BLOCK


def numbers_in(ranges: Iterable[tuple[int, int]]) -> np.ndarray:
    """The numbers of all ranges [first, last), sorted, each once; int64."""
    parts = [np.arange(first, last, dtype=np.int64) for first, last in ranges]
    return np.unique(np.concatenate([np.empty(0, np.int64), *parts]))
