import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus_assets.loading.datasets import DocumentDataset, RecordDataset
from corpus_assets.loading.ragged import Sample
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets_tests.loading.shaped import Doc, flat, random_docs, write_shaped

SHARDS = [
    [Doc([1, 2, 3], [1, 1, 0, 1], [0, 1, 2, 3]), Doc([4], [0, 1], [4, 5])],
    [Doc([5, 6], [1, 0, 0], [6, 7, 8]), Doc([], [1], [9])],
]  # 1 2 3 0 4 0 | 5 6 0 0


@pytest.fixture
def store(tmp_path):
    write_shaped(tmp_path, SHARDS)
    with MmapTokenStore(tmp_path) as opened:
        yield opened


def test_documents_one_by_one(store):
    documents = DocumentDataset(store)
    assert len(documents) == 4
    assert [documents[i].tolist() for i in range(4)] == [[1, 2, 3, 0], [4, 0], [5, 6, 0], [0]]
    assert documents[-1].tolist() == [0]
    assert documents[np.int64(1)].dtype == np.uint16
    assert [ids.tolist() for ids in DocumentDataset(store, boundary="drop")[:]] == [
        [1, 2, 3],
        [4],
        [5, 6],
        [],
    ]


def test_documents_of_a_slice_a_list_and_a_mask(store):
    documents = DocumentDataset(store, dtype=np.int64)
    batch = documents[[2, 0, 2]]
    assert batch.values.tolist() == [5, 6, 0, 1, 2, 3, 0, 5, 6, 0]
    assert batch.values.dtype == np.int64
    assert batch.cu_seqlens.tolist() == [0, 3, 7, 10]
    assert batch.cu_seqlens.dtype == np.int32
    assert batch.documents.tolist() == [2, 0, 2]
    assert [ids.tolist() for ids in batch.arrays()] == [[5, 6, 0], [1, 2, 3, 0], [5, 6, 0]]
    assert batch[-1].tolist() == [5, 6, 0]
    assert len(batch) == 3
    assert documents[1:3].documents.tolist() == [1, 2]
    assert documents[::-2].documents.tolist() == [3, 1]
    assert documents[np.array([True, False, False, True])].documents.tolist() == [0, 3]
    assert len(documents[[]]) == 0
    assert documents[[]].cu_seqlens.tolist() == [0]
    assert [ids.tolist() for ids in documents.__getitems__([1, 0])] == [[4, 0], [1, 2, 3, 0]]


def test_documents_with_fields(store):
    documents = DocumentDataset(store, fields=["weight", "document_ids", "position_ids"])
    sample = documents[1]
    assert isinstance(sample, Sample)
    assert sample.ids.tolist() == [4, 0]
    assert {name: values.tolist() for name, values in sample.fields.items()} == {
        "weight": [4, 5],
        "document_ids": [1, 1],
        "position_ids": [0, 1],
    }
    batch = documents[[2, 1]]
    assert batch.fields["weight"].tolist() == [6, 7, 8, 4, 5]
    assert batch.fields["document_ids"].tolist() == [2, 2, 2, 1, 1]
    assert batch.fields["position_ids"].tolist() == [0, 1, 2, 0, 1]
    assert documents.__getitems__([2])[0].fields["weight"].tolist() == [6, 7, 8]


def test_records_are_rows_of_the_stream(store):
    records = RecordDataset(store, 3)
    assert (len(records), records.tail_tokens) == (3, 1)
    assert records[1].tolist() == [0, 4, 0]
    assert records[-1].tolist() == [5, 6, 0]
    assert records[[2, 0, 2]].tolist() == [[5, 6, 0], [1, 2, 3], [5, 6, 0]]
    assert records[1:].tolist() == [[0, 4, 0], [5, 6, 0]]
    assert records[[]].shape == (0, 3)
    with_fields = RecordDataset(store, 3, fields=["weight", "document_ids"])
    assert with_fields[1].fields["weight"].tolist() == [3, 4, 5]
    assert with_fields[[1, 0]].fields["document_ids"].tolist() == [[0, 1, 1], [0, 0, 0]]
    assert with_fields.__getitems__([2])[0].ids.tolist() == [5, 6, 0]
    assert [row.tolist() for row in records.__getitems__([2])] == [[5, 6, 0]]


@pytest.mark.parametrize("make", [DocumentDataset, lambda store: RecordDataset(store, 2)])
@pytest.mark.parametrize(
    ("item", "message"),
    [
        (5, "item is 5, expected -"),
        (-6, "item is -6"),
        ([0, 5], "items are 0 to 5"),
        ([-6], "items are -6 to -6"),
        ([0.5], "index is float64"),
        ([[0]], r"shape \(1, 1\)"),
    ],
)
def test_items_outside_are_refused(store, make, item, message):
    with pytest.raises(IndexError, match=message):
        make(store)[item]


def test_options_that_do_not_fit_are_refused(store):
    with pytest.raises(ValueError, match="boundary is 'no', expected keep or drop"):
        DocumentDataset(store, boundary="no")
    with pytest.raises(KeyError, match="no field 'mask'"):
        DocumentDataset(store, fields=["mask"])
    with pytest.raises(KeyError, match="no field 'mask'"):
        RecordDataset(store, 2, fields=["mask"])
    with pytest.raises(ValueError, match="length is 0"):
        RecordDataset(store, 0)
    with pytest.raises(ValueError, match="dtype is int8"):
        RecordDataset(store, 1, dtype=np.int8)
    with pytest.raises(IndexError, match="document is 1 of a batch of 1"):
        DocumentDataset(store)[[0]][1]


@settings(max_examples=25, deadline=None)
@given(
    data=st.data(),
    sizes=st.lists(st.sampled_from([0, 1, 2, 7, 60, 150]), min_size=1, max_size=4).filter(sum),
    seed=st.integers(0, 99),
    codec=st.sampled_from(["none", "gzip", "zstd"]),
)
def test_every_shape_returns_what_was_written(tmp_path_factory, data, sizes, seed, codec):
    shards = random_docs(sizes, seed=seed)
    expected = flat(shards)
    docs = [doc for shard in shards for doc in shard]
    chosen = data.draw(st.lists(st.integers(0, len(docs) - 1), max_size=10), label="documents")
    length = data.draw(st.integers(1, len(expected.tokens)), label="length")
    index = write_shaped(tmp_path_factory.mktemp("corpus"), shards, compression=codec)
    with MmapTokenStore(index, cache_bytes=100) as store:
        documents = DocumentDataset(store, boundary="drop")
        batch = DocumentDataset(store, fields=["loss_mask", "weight"])[chosen]
        records = RecordDataset(store, length, fields=["weight"])
        rows = records[:]
        assert [documents[i].tolist() for i in chosen] == [docs[i].ids for i in chosen]
        topics = [
            [tuple(span) for span in store.spans("topic", *expected.bounds[i])] for i in sorted(set(chosen))
        ]
    assert [ids.tolist() for ids in batch] == [[*docs[i].ids, 0] for i in chosen]
    assert batch.fields["loss_mask"].tolist() == [value for i in chosen for value in docs[i].mask]
    assert batch.fields["weight"].tolist() == [value for i in chosen for value in docs[i].weights]
    whole = len(expected.tokens) // length * length
    assert rows.ids.tolist() == expected.tokens[:whole].reshape(-1, length).tolist()
    assert rows.fields["weight"].tolist() == expected.weight[:whole].reshape(-1, length).tolist()
    assert records.tail_tokens == len(expected.tokens) - whole
    for found, number in zip(topics, sorted(set(chosen)), strict=True):
        assert sorted(map(repr, found)) == sorted(map(repr, docs[number].topics))
