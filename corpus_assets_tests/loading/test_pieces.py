import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corpus_assets.loading.pieces import Grid, covered, split


def _table(pieces):
    columns = (pieces.shards, pieces.units, pieces.firsts, pieces.stops)
    return [tuple(row) for row in np.stack(columns, axis=1).tolist()]


def _split(firsts, stops, grid):
    return _table(split(np.array(firsts), np.array(stops), grid))


def test_a_range_is_cut_at_chunks_and_shards():
    # Shard 0: 5 tokens in chunks of 3; shard 1: 4 tokens in chunks of 2.
    grid = Grid.of([5, 4], [3, 2])
    assert _split([2], [8], grid) == [
        (0, 0, 2, 3),  # token 2, the last of chunk 0
        (0, 1, 0, 2),  # tokens 3 and 4
        (1, 0, 0, 2),
        (1, 1, 0, 1),
    ]


def test_ranges_inside_one_chunk_are_a_piece_each():
    assert _split([3, 6], [5, 8], Grid.of([100], [10])) == [(0, 0, 3, 5), (0, 0, 6, 8)]


def test_whole_shards_are_one_unit_beyond_two_to_the_31():
    grid = Grid.of([2**40, 2**40], [2**40, 2**40])
    assert _split([2**40 - 1], [2**40 + 2], grid) == [(0, 0, 2**40 - 1, 2**40), (1, 0, 0, 2)]


def test_windows_that_overlap_or_touch_are_one_range():
    firsts, stops = covered(np.array([45, 3, 41, 5, 9, 5]), 4)
    assert list(zip(firsts.tolist(), stops.tolist(), strict=True)) == [(3, 13), (41, 49)]


@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=6),
    chunk=st.integers(1, 12),
    data=st.data(),
)
def test_pieces_are_the_tokens_of_the_windows_once_each_and_in_order(sizes, chunk, data):
    total = sum(sizes)
    length = data.draw(st.integers(1, total))
    starts = data.draw(st.lists(st.integers(0, total - length), min_size=1, max_size=5))
    grid = Grid.of(sizes, [chunk] * len(sizes))
    found = []
    for shard, unit, first, stop in _table(split(*covered(np.array(starts), length), grid)):
        assert 0 <= first < stop <= chunk
        begin = sum(sizes[:shard]) + unit * chunk
        assert begin + stop <= sum(sizes[: shard + 1])
        found += range(begin + first, begin + stop)
    assert found == sorted({start + place for start in starts for place in range(length)})
