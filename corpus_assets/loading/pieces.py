"""Which piece of which shard and chunk each range of tokens comes from: arithmetic on arrays, without I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Grid:
    """How a corpus is cut into units that are read whole: chunks, or shards that are mapped.

    Attributes:
        bounds: (S + 1,) int64, first position of each non-empty shard, then the token count.
        unit_sizes: (S,) int64, tokens per unit of each shard.
        first_units: (S + 1,) int64, units before each shard, then all.
    """

    bounds: np.ndarray
    unit_sizes: np.ndarray
    first_units: np.ndarray

    @classmethod
    def of(cls, token_counts: Sequence[int], unit_sizes: Sequence[int]) -> Grid:
        """The grid of non-empty shards, each cut into units of so many tokens, the last one shorter."""
        counts, sizes = np.array(token_counts, np.int64), np.array(unit_sizes, np.int64)
        units = -(-counts // sizes)
        return cls(np.concatenate([[0], counts.cumsum()]), sizes, np.concatenate([[0], units.cumsum()]))

    def units_at(self, positions: np.ndarray) -> np.ndarray:
        """The unit that holds each position, counted through all shards."""
        shards = self.bounds.searchsorted(positions, side="right") - 1
        return self.first_units[shards] + (positions - self.bounds[shards]) // self.unit_sizes[shards]


@dataclass(frozen=True, slots=True)
class Pieces:
    """Parts of ranges, each inside one unit, in order; arrays of equal length.

    Piece i is tokens [firsts[i], stops[i]) of unit units[i] of shard shards[i].
    """

    shards: np.ndarray
    units: np.ndarray
    firsts: np.ndarray
    stops: np.ndarray


def covered(starts: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Firsts and stops of the ranges that the windows [start, start + length) cover, in order, none touching."""
    ordered = np.sort(starts)
    gaps = (ordered[1:] - ordered[:-1] > length).nonzero()[0]
    return np.append(ordered[:1], ordered[gaps + 1]), np.append(ordered[gaps], ordered[-1:]) + length


def split(firsts: np.ndarray, stops: np.ndarray, grid: Grid) -> Pieces:
    """The pieces of the ranges [first, stop), none empty, all inside the corpus; both (R,) int64."""
    before = grid.units_at(firsts)
    counts = grid.units_at(stops - 1) - before + 1
    ranges = np.arange(len(firsts)).repeat(counts)
    units = np.arange(len(ranges)) + (before - counts.cumsum() + counts)[ranges]
    shards = grid.first_units.searchsorted(units, side="right") - 1
    numbers = units - grid.first_units[shards]
    begins = grid.bounds[shards] + numbers * grid.unit_sizes[shards]
    ends = np.minimum(begins + grid.unit_sizes[shards], grid.bounds[shards + 1])
    return Pieces(
        shards,
        numbers,
        np.maximum(firsts[ranges], begins) - begins,
        np.minimum(stops[ranges], ends) - begins,
    )
