from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus_assets.errors import IndexMismatchError, ShardError
from corpus_assets.loading import document_index, extents
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets.shards import layout
from corpus_assets_tests.loading.corpora import random_shards, write_corpus_of
from corpus_assets_tests.loading.shaped import Doc, flat, random_docs, rows, write_shaped

TWO_SHARDS = [
    [Doc([1, 2, 3], [1, 1, 0, 1], [0.5, 1, 2, 3]), Doc([4], [0, 1], [4, 5])],
    [Doc([5, 6], [1, 0, 0], [6, 7, 8]), Doc([], [1], [9])],
]  # 1 2 3 0 4 0 | 5 6 0 0


@pytest.fixture
def small(tmp_path):
    write_shaped(tmp_path, TWO_SHARDS)
    with MmapTokenStore(tmp_path) as store:
        yield store


def test_a_field_is_read_like_the_tokens(small):
    weight = small.field("weight")
    assert (len(weight), weight.dtype, weight.name) == (10, np.float32, "weight")
    assert weight.get_slice(3, 7).tolist() == [3, 4, 5, 6]
    assert weight.gather([5, 0], 3).tolist() == [[5, 6, 7], [0.5, 1, 2]]
    assert small.field("loss_mask").get_slice(0, 10).tolist() == [1, 1, 0, 1, 0, 1, 1, 0, 0, 1]


def test_document_ids_positions_and_sequence_lengths_by_hand(small):
    # documents: [0, 4) [4, 6) [6, 9) [9, 10)
    assert small.gather_fields(["document_ids", "position_ids", "cu_seqlens", "loss_mask"], [2, 4], 6) == Eq(
        document_ids=[[0, 0, 1, 1, 2, 2], [1, 1, 2, 2, 2, 3]],
        position_ids=[[0, 1, 0, 1, 0, 1], [0, 1, 0, 1, 2, 0]],
        cu_seqlens=[0, 2, 4, 6, 8, 11, 12],
        loss_mask=[[0, 1, 0, 1, 1, 0], [0, 1, 1, 0, 0, 1]],
    )
    assert small.documents.cu_seqlens([1], 2).tolist() == [0, 2]
    assert small.documents.cu_seqlens([1], 2).dtype == np.int32
    assert len(small.documents) == 4


class Eq:
    """Equal to a dict of arrays with these values."""

    def __init__(self, **expected):
        self.expected = expected

    def __eq__(self, found):
        return {name: values.tolist() for name, values in found.items()} == self.expected

    __hash__ = None

    def __repr__(self):
        return repr(self.expected)


def test_no_windows_give_empty_fields(small):
    found = small.gather_fields(["weight", "document_ids", "position_ids", "cu_seqlens"], [], 3)
    assert [values.shape for values in found.values()] == [(0, 3), (0, 3), (0, 3), (1,)]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: s.field("mask"), KeyError, "no field 'mask', found loss_mask, weight"),
        (lambda s: s.field("weight").get_slice(0, 11), IndexError, r"slice is \[0, 11\)"),
        (lambda s: s.gather_fields(["weight"], [8], 3), IndexError, "starts run from 8"),
        (lambda s: s.gather_fields(["document_ids"], [8], 3), IndexError, "starts run from 8"),
        (lambda s: s.gather_fields(["cu_seqlens"], [0], 0), ValueError, "length is 0"),
    ],
)
def test_what_is_not_there_is_refused(small, call, error, message):
    with pytest.raises(error, match=message):
        call(small)


def test_a_closed_store_has_no_fields(small):
    small.field("weight")
    small.close()
    with pytest.raises(ValueError, match="the store is closed"):
        small.field("weight")


def test_shards_that_do_not_agree_about_a_field_are_refused(small):
    first, second = small.index.shards
    for fields, message in [({}, "absent, float32"), ({"weight": "float64"}, "float32, float64")]:
        mixed = replace(small.index, shards=(first, replace(second, fields=fields)))
        with MmapTokenStore(mixed) as store, pytest.raises(IndexMismatchError, match=message):
            store.field("weight")


def test_an_extent_outside_the_file_is_refused(small):
    first, *others = small.index.shards
    wrong = replace(first, extents={**first.extents, "fields/weight": first.file_bytes - 8})
    with MmapTokenStore(replace(small.index, shards=(wrong, *others))) as store:
        assert store.get_slice(0, 3).tolist() == [1, 2, 3]
        with pytest.raises(IndexMismatchError, match="its 6 fields/weight begin at byte"):
            store.field("weight")


def test_document_ends_that_are_none_are_an_error(tmp_path):
    index = write_shaped(tmp_path, [TWO_SHARDS[0] + TWO_SHARDS[1]])  # ends 4 6 9 10
    with (tmp_path / index.shards[0].path).open("r+b") as file:
        file.seek(index.shards[0].extents["document_ends"])
        file.write(np.array([9, 4, 6, 20], "<i8"))
    with MmapTokenStore(tmp_path) as store:
        with pytest.raises(ShardError, match="are not in order"):
            store.documents.document_ids([3], 6)
        with pytest.raises(ShardError, match=r"document 1 is \[9, 4\)"):
            store.documents.bounds(np.array([0, 1]))
        with pytest.raises(ShardError, match=r"document 3 is \[6, 20\)"):
            store.documents.bounds(np.array([3]))


shard_sizes = st.lists(st.sampled_from([0, 1, 2, 7, 16, 33, 150]), min_size=1, max_size=5).filter(sum)


@settings(max_examples=25, deadline=None)
@given(
    data=st.data(),
    sizes=shard_sizes,
    seed=st.integers(0, 99),
    codec=st.sampled_from(["none", "gzip", "lzf", "zstd", "zstd-dict", "blosc2"]),
)
def test_fields_of_any_corpus_are_what_was_written(tmp_path_factory, data, sizes, seed, codec):
    shards = random_docs(sizes, seed=seed)
    expected = flat(shards)
    total = len(expected.tokens)
    length = data.draw(st.integers(1, total), label="length")
    starts = data.draw(st.lists(st.integers(0, total - length), max_size=8), label="starts")
    index = write_shaped(tmp_path_factory.mktemp("corpus"), shards, compression=codec)
    if data.draw(st.booleans(), label="scattered"):
        index = replace(index, shards=tuple(replace(shard, extents={}) for shard in index.shards))
    layout = data.draw(st.sampled_from(["auto", "pieces"]), label="layout")
    with MmapTokenStore(index, layout=layout, cache_bytes=100, threads=1) as store:
        found = store.gather_fields(
            ["loss_mask", "weight", "document_ids", "position_ids", "cu_seqlens"], starts, length
        )
        every = np.arange(len(expected.bounds))
        bounds = store.documents.bounds(every)
        holders = store.documents.containing(np.arange(total))
        first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(every))] * 2), label="documents"))
        stops = store.documents.stops_between(first, last)
    assert np.array_equal(found["loss_mask"], rows(expected.mask, starts, length))
    assert np.array_equal(found["weight"], rows(expected.weight, starts, length))
    assert found["weight"].dtype == np.float32
    assert np.array_equal(found["document_ids"], rows(expected.document, starts, length))
    assert list(zip(*(side.tolist() for side in bounds), strict=True)) == expected.bounds
    assert np.array_equal(holders, expected.document)
    assert stops.tolist() == [stop for _, stop in expected.bounds[first:last]]
    positions, lengths = _sequences(rows(expected.document, starts, length))
    assert found["position_ids"].tolist() == positions
    assert np.diff(found["cu_seqlens"]).tolist() == lengths


def _sequences(documents):
    """Positions inside runs of equal document ids, and the lengths of the runs."""
    positions, lengths = [], []
    for row in documents.tolist():
        counts = []
        for place, document in enumerate(row):
            if place and row[place - 1] == document:
                counts.append(counts[-1] + 1)
            else:
                lengths.append(0)
                counts.append(0)
            lengths[-1] += 1
        positions.append(counts)
    return positions, lengths


def test_a_document_index_over_many_chunks_of_a_compressed_corpus(tmp_path):
    shards = random_shards([60_000], seed=3)
    shards[0] += [[]] * 20_000  # 20,000 ends in a row
    index = write_corpus_of(tmp_path, shards, chunk_size=4096, compression="zstd")
    scattered = replace(index, shards=tuple(replace(shard, extents={}) for shard in index.shards))
    with MmapTokenStore(index) as store, MmapTokenStore(scattered) as other:
        documents = np.arange(len(store.documents))
        assert np.array_equal(store.documents.stops(documents), other.documents.stops(documents))
        assert store.documents.stops(documents)[-1] == 80_000
        assert store.documents.containing(np.array([79_999])) == len(documents) - 1


@pytest.mark.parametrize("most_kept", [1, 2, 7, 50, 10_000])
def test_documents_are_found_however_many_ends_are_kept(tmp_path, monkeypatch, most_kept):
    monkeypatch.setattr(document_index, "_MOST_KEPT", most_kept)
    shards = random_shards([500, 0, 3, 800])
    lengths = [len(document) + 1 for documents in shards for document in documents]
    expected = np.repeat(np.arange(len(lengths)), lengths)
    write_corpus_of(tmp_path, shards)
    with MmapTokenStore(tmp_path) as store:
        documents = store.documents
        assert np.array_equal(documents.containing(np.arange(len(store))), expected)
        assert np.array_equal(documents.stops(np.arange(len(lengths))), np.cumsum(lengths))
        assert np.array_equal(documents.document_ids(np.array([0, 490, 700]), 60)[1], expected[490:550])


def test_the_constants_are_those_of_the_writer():
    assert extents.INDEX_CHUNK == layout.INDEX_CHUNK
    assert (extents.TOKENS, extents.FIELDS, extents.DOCUMENT_ENDS) == (
        layout.TOKENS,
        layout.FIELDS,
        layout.DOCUMENT_ENDS,
    )
