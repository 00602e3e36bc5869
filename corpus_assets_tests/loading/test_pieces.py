import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corpus_assets.loading.pieces import Grid, split_windows


def _table(pieces):
    columns = (pieces.shards, pieces.units, pieces.rows, pieces.columns, pieces.offsets, pieces.sizes)
    return [tuple(row) for row in np.stack(columns, axis=1).tolist()]


def test_a_window_is_cut_at_chunks_and_shards():
    # Shard 0: 5 tokens in chunks of 3; shard 1: 4 tokens in chunks of 2.
    grid = Grid(bounds=np.array([0, 5, 9]), unit_sizes=np.array([3, 2]))
    assert _table(split_windows(np.array([2]), 6, grid)) == [
        (0, 0, 0, 0, 2, 1),  # token 2, the last of chunk 0
        (0, 1, 0, 1, 0, 2),  # tokens 3 and 4
        (1, 0, 0, 3, 0, 2),
        (1, 1, 0, 5, 0, 1),
    ]


def test_pieces_of_one_chunk_stand_together():
    grid = Grid(bounds=np.array([0, 100]), unit_sizes=np.array([10]))
    pieces = split_windows(np.array([45, 3, 41, 5]), 4, grid)
    units = [(unit, pieces.rows[group].tolist()) for _, unit, group in pieces.by_unit()]
    assert units == [(0, [1, 3]), (4, [0, 2])]


def test_whole_shards_are_one_unit_beyond_two_to_the_31():
    grid = Grid(bounds=np.array([0, 2**40, 2**41]), unit_sizes=np.array([2**62, 2**62]))
    assert _table(split_windows(np.array([2**40 - 1]), 3, grid)) == [
        (0, 0, 0, 0, 2**40 - 1, 1),
        (1, 0, 0, 1, 0, 2),
    ]


def test_no_windows_have_no_pieces():
    grid = Grid(bounds=np.array([0, 5]), unit_sizes=np.array([3]))
    assert list(split_windows(np.empty(0, np.int64), 2, grid).by_unit()) == []


@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=6),
    chunk=st.integers(1, 12),
    data=st.data(),
)
def test_pieces_put_together_are_the_windows(sizes, chunk, data):
    bounds = np.cumsum([0, *sizes])
    length = data.draw(st.integers(1, int(bounds[-1])))
    starts = np.array(data.draw(st.lists(st.integers(0, int(bounds[-1]) - length), min_size=1, max_size=5)))
    pieces = split_windows(starts, length, Grid(bounds=bounds, unit_sizes=np.full(len(sizes), chunk)))
    rows = np.full((len(starts), length), -1)
    for shard, unit, row, column, offset, size in _table(pieces):
        assert offset + size <= chunk
        first = bounds[shard] + unit * chunk + offset
        assert first + size <= bounds[shard + 1]
        rows[row, column : column + size] = np.arange(first, first + size)
    assert np.array_equal(rows, starts[:, None] + np.arange(length))
