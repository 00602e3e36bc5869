from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus_assets.errors import IndexMismatchError, ShardError
from corpus_assets.loading.annotations import Span
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets_tests.loading.corpora import random_shards, write_corpus_of
from corpus_assets_tests.loading.shaped import Doc, flat, random_docs, write_shaped

TOPICS = [(0, 2, "a"), (1, 4, {"b": [1]})]
SHARDS = [
    [Doc([1, 2, 3], [1] * 4, [1] * 4, TOPICS), Doc([4], [1] * 2, [1] * 2)],
    [Doc([5, 6], [1] * 3, [1] * 3, [(0, 3, None)])],
]  # 1 2 3 0 4 0 | 5 6 0 with annotations [0, 2) [1, 4) [6, 9)


@pytest.fixture
def small(tmp_path):
    write_shaped(tmp_path, SHARDS)
    with MmapTokenStore(tmp_path) as store:
        yield store


def test_a_window_gets_the_annotations_it_covers_clipped_to_it(small):
    assert small.spans("topic", 0, 9) == [Span(0, 2, "a"), Span(1, 4, {"b": [1]}), Span(6, 9, None)]
    assert small.spans("topic", 2, 7) == [Span(0, 2, {"b": [1]}), Span(4, 5, None)]
    assert small.spans("topic", 4, 6) == []
    assert small.spans("topic", 1, 1) == []


def test_a_window_is_what_a_format_unpacks(small):
    window = small.window(1, 7, fields=["weight", "position_ids"], spans=["topic"])
    assert window.ids.tolist() == [2, 3, 0, 4, 0, 5]
    assert window.fields["weight"].tolist() == [1] * 6
    assert window.fields["position_ids"].tolist() == [0, 1, 2, 0, 1, 0]
    table = window.spans["topic"]
    assert list(zip(table.starts.tolist(), table.stops.tolist(), table.values, strict=True)) == [
        (0, 1, b'"a"'),
        (0, 3, b'{"b": [1]}'),
        (5, 6, b"null"),
    ]


def test_annotations_that_are_not_there_are_refused(small, tmp_path):
    with pytest.raises(KeyError, match="no spans 'topics', found topic"):
        small.spans("topics", 0, 1)
    with pytest.raises(IndexError, match=r"slice is \[0, 10\)"):
        small.spans("topic", 0, 10)
    write_corpus_of(tmp_path / "plain", random_shards([10]))
    with MmapTokenStore(tmp_path / "plain") as plain, pytest.raises(KeyError, match="found no spans"):
        plain.spans("topic", 0, 1)


def test_a_shard_without_these_annotations_has_none(small):
    first, second = small.index.shards
    with MmapTokenStore(replace(small.index, shards=(replace(first, spans=()), second))) as store:
        assert store.spans("topic", 0, 9) == [Span(6, 9, None)]


def test_a_damaged_annotation_is_an_error(tmp_path):
    index = write_shaped(tmp_path, SHARDS)
    shard = index.shards[0]
    path = tmp_path / shard.path
    whole = path.read_bytes()
    for dataset, raw, message in [
        ("spans/topic/values", b"?", "is not JSON"),
        ("spans/topic/value_ends", np.array([-1, 5], "<i8").tobytes(), "are not in order"),
        ("spans/topic/value_ends", np.array([3, 5000], "<i8").tobytes(), "are not in order"),
    ]:
        offset = shard.extents[dataset]
        path.write_bytes(whole[:offset] + raw + whole[offset + len(raw) :])
        with MmapTokenStore(tmp_path) as store, pytest.raises(ShardError, match=message):
            store.spans("topic", 0, 9)
    path.write_bytes(whole)
    with MmapTokenStore(tmp_path) as store:
        path.unlink()
        with pytest.raises(IndexMismatchError, match="No such file"):
            store.spans("topic", 0, 3)


@settings(max_examples=25, deadline=None)
@given(
    data=st.data(),
    sizes=st.lists(st.sampled_from([0, 1, 7, 60, 150]), min_size=1, max_size=4).filter(sum),
    seed=st.integers(0, 99),
    codec=st.sampled_from(["none", "gzip", "zstd-dict", "blosc2"]),
)
def test_annotations_of_any_corpus_are_what_was_written(tmp_path_factory, data, sizes, seed, codec):
    shards = random_docs(sizes, seed=seed)
    expected = flat(shards)
    total = len(expected.tokens)
    start = data.draw(st.integers(0, total), label="start")
    stop = data.draw(st.integers(start, total), label="stop")
    index = write_shaped(tmp_path_factory.mktemp("corpus"), shards, compression=codec)
    with MmapTokenStore(index) as store:
        found = store.spans("topic", start, stop)
    clipped = [
        (max(a, start) - start, min(b, stop) - start, value)
        for a, b, value in expected.topics
        if a < stop and b > start and start < stop
    ]
    assert sorted(map(repr, map(tuple, found))) == sorted(map(repr, clipped))
    assert [span.start for span in found] == sorted(span.start for span in found)


def test_annotations_of_many_blocks_that_overlap_and_nest(tmp_path):
    generator = np.random.default_rng(1)
    count = 3000
    starts = np.sort(generator.integers(0, 4000, count))
    stops = np.minimum(4001, starts + generator.integers(1, 9, count))
    stops[0], stops[700] = 4001, 4000  # two that reach over thousands
    topics = [(int(a), int(b), number) for number, (a, b) in enumerate(zip(starts, stops, strict=True))]
    write_shaped(tmp_path, [[Doc([1] * 4000, [0] * 4001, [0] * 4001, topics)]])
    with MmapTokenStore(tmp_path) as store:
        for start in generator.integers(0, 3990, 30).tolist():
            found = store.spans("topic", start, start + 10)
            assert [span.value for span in found] == [
                number for a, b, number in topics if a < start + 10 and b > start
            ]
