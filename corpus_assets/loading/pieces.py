"""Which piece of which shard and chunk each part of a window comes from: arithmetic on arrays, without I/O."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np


@dataclass(frozen=True, slots=True)
class Grid:
    """How a corpus is cut into units that are read whole: chunks, or shards that are mapped.

    Attributes:
        bounds: (S + 1,) int64, first position of each non-empty shard, then the token count.
        unit_sizes: (S,) int64, tokens per unit of each shard.
    """

    bounds: np.ndarray
    unit_sizes: np.ndarray


@dataclass(frozen=True, slots=True)
class Pieces:
    """Parts of windows, each inside one unit, ordered by shard and unit; arrays of equal length.

    Piece i is tokens [offsets[i], offsets[i] + sizes[i]) of unit units[i] of shard shards[i]; it belongs into
    row rows[i] from column columns[i] on.
    """

    shards: np.ndarray
    units: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    offsets: np.ndarray
    sizes: np.ndarray

    def by_unit(self) -> Iterator[tuple[int, int, slice]]:
        """(shard, unit, pieces of that unit) in order, each unit once."""
        if not self.shards.size:
            return
        changes = np.flatnonzero((np.diff(self.shards) != 0) | (np.diff(self.units) != 0)) + 1
        edges = [0, *changes.tolist(), len(self.shards)]
        for first, last in pairwise(edges):
            yield int(self.shards[first]), int(self.units[first]), slice(first, last)


def split_windows(starts: np.ndarray, length: int, grid: Grid) -> Pieces:
    """The pieces of the windows [start, start + length).

    Args:
        starts: (B,) int64; each window lies inside the corpus.
        length: tokens per window, at least 1.
        grid: how the corpus is cut.
    """
    found: list[tuple[np.ndarray, ...]] = []
    rows = np.arange(len(starts))
    positions, ends = starts, starts + length
    while rows.size:
        shards = np.searchsorted(grid.bounds, positions, side="right") - 1
        local = positions - grid.bounds[shards]
        unit_sizes = grid.unit_sizes[shards]
        units = local // unit_sizes
        unit_starts = grid.bounds[shards] + units * unit_sizes
        # Subtracting before adding keeps unit sizes up to 2^62 inside int64.
        left = np.minimum(unit_sizes - (positions - unit_starts), grid.bounds[shards + 1] - positions)
        sizes = np.minimum(left, ends - positions)
        columns = positions - (ends - length)
        found.append((shards, units, rows, columns, positions - unit_starts, sizes))
        positions = positions + sizes
        more = positions < ends
        rows, positions, ends = rows[more], positions[more], ends[more]
    columns_of = [np.concatenate(parts) for parts in zip(*found, strict=True)] if found else [rows] * 6
    order = np.lexsort((columns_of[2], columns_of[1], columns_of[0]))
    return Pieces(*(column[order] for column in columns_of))
