import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus_assets.loading.lookup import ShardLookup


def test_each_position_is_in_its_shard():
    lookup = ShardLookup(np.array([0, 1, 4, 9]))
    assert lookup.find(np.arange(9)).tolist() == [0, 1, 1, 1, 2, 2, 2, 2, 2]
    assert lookup.find(np.empty(0, np.int64)).tolist() == []


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40))
def test_sizes_may_differ_by_any_factor(sizes):
    sizes.insert(len(sizes) // 2, 10_000)
    bounds = np.cumsum([0, *sizes])
    positions = np.arange(bounds[-1])
    assert np.array_equal(ShardLookup(bounds).find(positions), np.repeat(np.arange(len(sizes)), sizes))


@pytest.mark.parametrize("last", [1, 2**40])
def test_the_table_stays_small_in_a_huge_corpus(last):
    bounds = np.array([0, 2**40, 2**41, 2**41 + last])
    lookup = ShardLookup(bounds)
    assert lookup.find(bounds[1:] - 1).tolist() == [0, 1, 2]
    assert lookup.find(bounds[:-1]).tolist() == [0, 1, 2]
    assert len(lookup._table) <= 8 * 3 + 1
