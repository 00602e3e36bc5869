from itertools import islice

import numpy as np
import pytest

from corpus_assets.errors import StateMismatchError
from corpus_assets.loading.annotations import Span
from corpus_assets.loading.loader import SlidingWindowDataloader
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets_tests.loading.corpora import random_shards, write_corpus_of
from corpus_assets_tests.loading.shaped import Doc, flat, random_docs, rows, write_shaped

SHARDS = [
    [Doc([1, 2, 3], [1, 2, 0, 3], [0, 1, 2, 3], [(1, 4, "x")]), Doc([4], [4, 5], [4, 5])],
    [Doc([5, 6], [6, 7, 8], [6, 7, 8]), Doc([], [9], [9])],
]  # 1 2 3 0 4 0 | 5 6 0 0


@pytest.fixture
def store(tmp_path):
    write_shaped(tmp_path / "corpus", SHARDS)
    with MmapTokenStore(tmp_path / "corpus") as opened:
        yield opened


def _loader(store, **options):
    return SlidingWindowDataloader(store, 3, 2, seed=0, **{"order": "sequential", **options})


def test_fields_are_of_the_inputs_and_the_loss_mask_is_of_the_targets(store):
    batch = next(
        _loader(store, fields=["loss_mask", "document_ids", "position_ids", "cu_seqlens"], spans=["topic"])
    )
    inputs, targets, fields = batch
    assert inputs.tolist() == batch.input_ids.tolist() == [[1, 2, 3], [0, 4, 0]]
    assert targets.tolist() == [[2, 3, 0], [4, 0, 5]]
    assert fields["loss_mask"].tolist() == [[2, 0, 3], [4, 5, 6]]  # of 2 3 boundary, 4 boundary 5
    assert fields["document_ids"].tolist() == [[0, 0, 0], [0, 1, 1]]
    assert fields["position_ids"].tolist() == [[0, 1, 2], [0, 0, 1]]
    assert fields["cu_seqlens"].tolist() == [0, 3, 4, 6]
    assert fields["topic"] == [[Span(1, 3, "x")], [Span(0, 1, "x")]]


def test_target_fields_are_of_the_targets(store):
    fields = next(_loader(store, fields=["weight"]))[2]
    assert fields["weight"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert fields["weight"].dtype == np.float32
    fields = next(_loader(store, target_fields=["weight"]))[2]
    assert fields["weight"].tolist() == [[1, 2, 3], [4, 5, 6]]


def test_streams_of_equal_length_come_index_aligned(store, tmp_path):
    write_corpus_of(tmp_path / "other", [[[11, 12], [14, 15, 16, 17, 18, 19]]])  # another cut into documents
    with MmapTokenStore(tmp_path / "other") as other:
        streams = {"phones": other}
        loader = _loader(store, streams=streams, fields=["phones"])
        inputs, _, fields = next(loader)
        assert inputs.tolist() == [[1, 2, 3], [0, 4, 0]]
        assert fields["phones"].tolist() == [[11, 12, 0], [14, 15, 16]]
        fields = next(_loader(store, streams=streams, target_fields=["phones"]))[2]
        assert fields["phones"].tolist() == [[12, 0, 14], [15, 16, 17]]
        state = loader.state_dict()
        assert state["corpora"]["phones"]["fingerprint"] == other.fingerprint
        with pytest.raises(StateMismatchError, match=r"corpora is \['phones', 'tokens'\] in the state"):
            _loader(store).load_state_dict(state)
    write_corpus_of(tmp_path / "third", random_shards([10], seed=9))
    with MmapTokenStore(tmp_path / "third") as third:
        changed = _loader(store, streams={"phones": third}, fields=["phones"])
        with pytest.raises(
            StateMismatchError, match=f"corpus {third.fingerprint} as phones: s00000 has other content"
        ):
            changed.load_state_dict(state)


def test_a_stream_of_another_length_is_refused(store, tmp_path):
    write_corpus_of(tmp_path / "short", random_shards([9]))
    with (
        MmapTokenStore(tmp_path / "short") as short,
        pytest.raises(ValueError, match="stream phones has 9 tokens, the corpus has 10"),
    ):
        _loader(store, streams={"phones": short}, fields=["phones"])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"fields": ["mask"]}, KeyError, "no field 'mask', found loss_mask, weight"),
        ({"spans": ["topics"]}, KeyError, "no spans 'topics'"),
        ({"fields": ["weight"], "target_fields": ["weight"]}, ValueError, "weight is asked for twice"),
        ({"target_fields": ["document_ids"]}, ValueError, "document_ids is about the inputs"),
    ],
)
def test_columns_that_do_not_fit_are_refused(store, options, error, message):
    with pytest.raises(error, match=message):
        _loader(store, **options)


def test_streams_that_do_not_fit_are_refused(store):
    with pytest.raises(ValueError, match="stream b is in neither fields nor target_fields"):
        _loader(store, streams={"b": store})
    with pytest.raises(ValueError, match="stream weight has the name of a field"):
        _loader(store, streams={"weight": store}, fields=["weight"])


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("order", ["random", "cyclic"])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_fields_belong_to_the_tokens_they_come_with(tmp_path, order, codec, prefetch):
    shards = random_docs([57, 0, 3, 141])
    expected = flat(shards)
    write_shaped(tmp_path, shards, compression=codec)
    position = {tuple(row): start for start, row in enumerate(rows(expected.tokens, range(194), 8).tolist())}
    with (
        MmapTokenStore(tmp_path) as store,
        SlidingWindowDataloader(
            store,
            8,
            5,
            seed=3,
            order=order,
            prefetch=prefetch,
            fields=["loss_mask", "weight", "document_ids"],
        ) as loader,
    ):
        for inputs, _, fields in islice(loader, 20):
            starts = [position[tuple(row)] for row in inputs.tolist()]
            assert np.array_equal(fields["weight"], rows(expected.weight, starts, 8))
            assert np.array_equal(fields["document_ids"], rows(expected.document, starts, 8))
            assert np.array_equal(
                fields["loss_mask"], rows(expected.mask, [start + 1 for start in starts], 8)
            )
