"""Batches of documents by a budget of tokens: where each begins, cut greedily from an endless order."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from corpus_assets.loading.epochs import CorpusTooShortError, EpochOrder

_BLOCK = 4096
_KEPT_BLOCKS = 4


class Cursor(NamedTuple):
    """Where a step begins: an epoch, counted from the first, and a place in its order."""

    epoch: int
    place: int


class BudgetPlan:
    """Cuts the documents of an endless order into batches of at most `max_tokens`, a round of one per rank a step.

    A document longer than the budget is a batch of its own; none is cut. Every rank plans the whole round, which
    takes the lengths of its documents and no tokens, so that ranks agree without talking to each other.

    Args:
        order: the documents, in order; its tail says what follows the last whole round of an epoch.
        lengths: gives (N,) lengths of documents.
        max_tokens: the budget of one batch.
        world_size: batches of a round.
    """

    def __init__(
        self,
        order: EpochOrder,
        lengths: Callable[[np.ndarray], np.ndarray],
        *,
        max_tokens: int,
        world_size: int,
    ) -> None:
        self._order = order
        self._lengths = lengths
        self._max_tokens = max_tokens
        self._world_size = world_size
        self._blocks: OrderedDict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = OrderedDict()

    def rounds(self, cursor: Cursor) -> Iterator[tuple[Cursor, list[np.ndarray]]]:
        """Where each round begins, and its batches' document numbers, from `cursor` on for ever.

        Raises:
            CorpusTooShortError: an epoch has not one round, and its rest is to be dropped.
        """
        dropped = 0
        while True:
            batches, after, wrapped = self._round(cursor)
            if wrapped and self._order.tail == "drop":
                dropped += 1
                if dropped > 1:
                    raise CorpusTooShortError(
                        f"an epoch has fewer than {self._world_size} batches of {self._max_tokens} tokens, "
                        "tail='drop' needs one for each rank"
                    )
            else:
                dropped = 0
                yield cursor, batches
            cursor = after

    def _round(self, cursor: Cursor) -> tuple[list[np.ndarray], Cursor, bool]:
        """The batches of a round, where the next begins, and whether this one is incomplete in its epoch."""
        batches: list[np.ndarray] = []
        epoch, wrapped = cursor.epoch, False
        for _ in range(self._world_size):
            if self._order.tail != "wrap" and cursor.place == self._order.kept_count:
                wrapped, cursor = True, Cursor(epoch, 0)
            batch, cursor = self._cut(cursor)
            batches.append(batch)
        ended = self._order.tail != "wrap" and (wrapped or cursor.place == self._order.kept_count)
        return batches, Cursor(epoch + 1, 0) if ended else cursor, wrapped

    def _cut(self, cursor: Cursor) -> tuple[np.ndarray, Cursor]:
        """The documents of the batch at `cursor`, and what comes behind it."""
        epoch, place = cursor
        left, parts = self._max_tokens, list[np.ndarray]()
        while True:
            if place == self._order.kept_count:
                if self._order.tail != "wrap":
                    break
                epoch, place = epoch + 1, 0
            documents, sums = self._block(epoch, place // _BLOCK)
            first = place % _BLOCK
            before = int(sums[first - 1]) if first else 0
            last = int(np.searchsorted(sums, before + left, side="right"))
            if last == first and not parts:
                last += 1
                left = 0
            if last > first:
                parts.append(documents[first:last])
                left -= int(sums[last - 1]) - before
                place += last - first
            if last < len(documents) or left <= 0:
                break
        return np.concatenate(parts), Cursor(epoch, place)

    def _block(self, epoch: int, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Documents of one stretch of an epoch's order, and the running sum of their lengths."""
        block = self._blocks.get((epoch, number))
        if block is None:
            places = np.arange(number * _BLOCK, min(self._order.kept_count, (number + 1) * _BLOCK))
            documents = self._order.items(np.full(len(places), self._order.epoch + epoch), places)
            # An empty document counts as one token, so that every batch ends.
            block = documents, np.cumsum(np.maximum(1, self._lengths(documents)))
            self._blocks[epoch, number] = block
            if len(self._blocks) > _KEPT_BLOCKS:
                self._blocks.popitem(last=False)
        return block
