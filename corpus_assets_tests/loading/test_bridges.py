import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus_assets.loading.bridges import Bridges, bridge_reach
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets_tests.loading.corpora import random_shards, tokens_of, write_corpus_of


@pytest.mark.parametrize(
    ("border_count", "itemsize", "reach"),
    [(0, 2, 2048), (1, 2, 2048), (4095, 2, 2048), (9_999, 2, 1677), (9_999, 4, 838), (2**30, 2, 0)],
)
def test_all_bridges_together_are_bounded(border_count, itemsize, reach):
    assert bridge_reach(border_count, itemsize) == reach
    assert 2 * reach * itemsize * border_count <= 64 * 1024 * 1024


def test_a_bridge_holds_what_lies_around_its_border():
    corpus = np.arange(20) + 100
    memory = np.zeros(2 * 2 * 3, np.int64)
    bridges = Bridges(memory, first=50, borders=np.array([2, 9]), token_count=20)
    assert bridges.reach == 3
    reads = []

    def read(start, stop):
        reads.append((start, stop))
        return corpus[start:stop]

    places = bridges.places(np.array([7, 8]), np.array([1, 1]), read)
    assert [memory[place - 50 : place - 50 + 4].tolist() for place in places] == [
        [107, 108, 109, 110],
        [108, 109, 110, 111],
    ]
    assert reads == [(6, 12)]  # the other border was not crossed
    places = bridges.places(np.array([1, 6, 1]), np.array([0, 1, 0]), read)
    assert [int(memory[place - 50]) for place in places] == [101, 106, 101]
    assert reads == [(6, 12), (0, 5)]  # nothing before the corpus, nothing twice


@given(
    sizes=st.lists(st.integers(1, 9), min_size=2, max_size=12),
    reach=st.integers(1, 8),
    data=st.data(),
)
def test_a_window_across_borders_lies_in_one_piece(sizes, reach, data):
    bounds = np.cumsum([0, *sizes])
    corpus = np.arange(bounds[-1])
    length = data.draw(st.integers(1, min(reach + 1, len(corpus))))
    memory = np.full(2 * reach * (len(sizes) - 1), -1)
    bridges = Bridges(memory, first=0, borders=bounds[1:-1], token_count=len(corpus))
    starts = np.arange(len(corpus) - length + 1)
    shards = np.searchsorted(bounds, starts, side="right") - 1
    crossing = starts + length > bounds[shards + 1]
    starts, shards = starts[crossing], shards[crossing]
    places = bridges.places(starts, shards, lambda start, stop: corpus[start:stop])
    for start, place in zip(starts, places, strict=True):
        assert np.array_equal(memory[place : place + length], corpus[start : start + length])


@pytest.mark.parametrize("length", [2, 1025, 2049, 2050, 2500])
def test_windows_of_any_length_cross_borders(tmp_path, length):
    shards = random_shards([1500, 3, 2100, 700, 1])
    write_corpus_of(tmp_path, shards, chunk_size=512)
    flat = tokens_of(shards)
    starts = np.arange(0, len(flat) - length + 1)
    with MmapTokenStore(tmp_path, layout="flat") as store:
        for _ in range(2):
            windows = store.gather(starts, length)
            assert np.array_equal(windows, np.lib.stride_tricks.sliding_window_view(flat, length))
