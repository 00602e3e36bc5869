from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus_assets.errors import CorpusError
from corpus_assets.loading.framing import DocumentWindows, WindowGrid
from corpus_assets.loading.loader import SlidingWindowDataloader
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets_tests.loading.corpora import random_shards, tokens_of, write_corpus_of

SHARDS = [[[1, 2, 3, 4], [5]], [[], [6, 7]]]  # 1 2 3 4 0 5 0 | 0 6 7 0


@pytest.fixture
def store(tmp_path):
    write_corpus_of(tmp_path, SHARDS)
    with MmapTokenStore(tmp_path) as opened:
        yield opened


def _loader(store, **options):
    return SlidingWindowDataloader(store, 3, 4, seed=0, **{"order": "sequential", **options})


def test_split_windows_never_cross_a_document(store):
    fields = ["document_ids", "position_ids", "cu_seqlens"]
    loader = _loader(store, cross_documents="split", fields=fields)
    assert loader.window_count == 4  # two of the first document, none of the empty one
    inputs, targets, beside = next(loader)
    assert inputs.tolist() == [[1, 2, 3], [4, 0, 0], [5, 0, 0], [6, 7, 0]]
    assert targets.tolist() == [[2, 3, 4], [0, -100, -100], [0, -100, -100], [7, 0, -100]]
    assert beside["document_ids"].tolist() == [[0, 0, 0], [0, -1, -1], [1, -1, -1], [3, 3, -1]]
    assert beside["position_ids"].tolist() == [[0, 1, 2], [0, 0, 0], [0, 0, 0], [0, 1, 0]]
    assert beside["cu_seqlens"].tolist() == [0, 3, 4, 6, 7, 9, 11, 12]
    assert loader.tail_tokens == 0


def test_ignore_index_masks_boundaries_and_padding(store):
    _, targets = next(_loader(store, cross_documents="split", ignore_index=-1))
    assert targets.tolist() == [[2, 3, 4], [-1, -1, -1], [-1, -1, -1], [7, -1, -1]]


def test_a_partial_window_is_reported_and_yielded_when_asked_for(store):
    loader = _loader(store, partial="drop")
    assert (loader.window_count, loader.tail_tokens) == (
        3,
        2,
    )  # windows at 0, 3, 6; tokens 9 and 10 are behind
    loader = _loader(store, partial="pad")
    assert (loader.window_count, loader.tail_tokens) == (4, 0)
    inputs, targets = next(loader)
    assert inputs.tolist() == [[1, 2, 3], [4, 0, 5], [0, 0, 6], [7, 0, 0]]
    assert targets.tolist() == [[2, 3, 4], [0, 5, 0], [0, 6, 7], [0, -100, -100]]


def test_a_corpus_shorter_than_a_window_has_a_partial_one(store):
    loader = SlidingWindowDataloader(store, 50, 1, seed=0, partial="pad")
    inputs, targets = next(loader)
    assert inputs[0, :10].tolist() == [1, 2, 3, 4, 0, 5, 0, 0, 6, 7]
    assert targets[0, :10].tolist() == [2, 3, 4, 0, 5, 0, 0, 6, 7, 0]
    assert set(targets[0, 10:].tolist()) == {-100}
    assert set(inputs[0, 10:].tolist()) == {0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cross_documents": "no"}, "cross_documents is 'no', expected join or split"),
        ({"partial": "keep"}, "partial is 'keep', expected drop or pad"),
        ({"cross_documents": "split", "stride": 2}, "takes neither a stride nor partial"),
        (
            {"cross_documents": "split", "dtype": np.uint16},
            "ignore_index is -100, dtype uint16 holds 0 to 65535",
        ),
        ({"partial": "pad", "dtype": np.uint16}, "ignore_index is -100"),
    ],
)
def test_options_that_do_not_fit_are_refused(store, options, message):
    with pytest.raises(ValueError, match=message):
        _loader(store, **options)


def test_documents_without_a_target_have_no_windows(tmp_path):
    write_corpus_of(tmp_path, [[[], []]])
    with (
        MmapTokenStore(tmp_path) as store,
        pytest.raises(CorpusError, match="no document of the corpus has a token"),
    ):
        _loader(store, cross_documents="split")


shard_sizes = st.lists(st.sampled_from([0, 1, 2, 7, 33, 700]), min_size=1, max_size=5).filter(
    lambda s: sum(s) > 40
)


@settings(max_examples=25, deadline=None)
@given(
    sizes=shard_sizes,
    window_size=st.integers(1, 50),
    order=st.sampled_from(["sequential", "cyclic", "random"]),
    data=st.data(),
)
def test_split_windows_hold_every_target_of_every_document_once(
    tmp_path_factory, sizes, window_size, order, data
):
    shards = random_shards(sizes, seed=data.draw(st.integers(0, 50)))
    expected = []
    for document in [document for documents in shards for document in documents]:
        tokens = [*document, 0]
        for first in range(0, len(document), window_size):
            expected.append(
                (tokens[first : first + window_size + 1][:-1], tokens[first + 1 : first + window_size + 1])
            )
    root = tmp_path_factory.mktemp("corpus")
    write_corpus_of(root, shards)
    if not expected:
        return
    with MmapTokenStore(root) as store:
        loader = SlidingWindowDataloader(store, window_size, 1, seed=1, order=order, cross_documents="split")
        assert loader.window_count == len(expected)
        found = []
        for inputs, targets in islice(loader, len(expected)):
            kept = targets[0] != -100
            found.append((inputs[0][kept].tolist(), targets[0][kept].tolist()))
    if order == "sequential":
        assert found == expected
    assert sorted(found) == sorted(expected)


@settings(max_examples=25, deadline=None)
@given(sizes=shard_sizes, window_size=st.integers(1, 60), stride=st.integers(1, 60))
def test_a_grid_with_its_partial_window_holds_every_target(tmp_path_factory, sizes, window_size, stride):
    stride = min(stride, window_size)
    shards = random_shards(sizes)
    flat = tokens_of(shards).tolist()
    root = tmp_path_factory.mktemp("corpus")
    write_corpus_of(root, shards)
    with MmapTokenStore(root) as store:
        loader = SlidingWindowDataloader(
            store, window_size, 1, seed=1, order="sequential", stride=stride, partial="pad"
        )
        seen = {}
        for number, (inputs, targets) in enumerate(islice(loader, loader.window_count)):
            for place, (token, target) in enumerate(
                zip(inputs[0].tolist(), targets[0].tolist(), strict=True)
            ):
                if target != -100:
                    seen[number * stride + place] = (token, target)
    assert [seen[place] for place in range(len(flat) - 1)] == list(pairwise(flat))


@settings(max_examples=30, deadline=None)
@given(sizes=shard_sizes, window_size=st.integers(1, 30), data=st.data())
def test_touching_names_exactly_the_windows_that_hold_a_token(tmp_path_factory, sizes, window_size, data):
    root = tmp_path_factory.mktemp("corpus")
    write_corpus_of(root, random_shards(sizes))
    start = data.draw(st.integers(0, sum(sizes) - 1), label="start")
    stop = data.draw(st.integers(start + 1, sum(sizes)), label="stop")
    stride = data.draw(st.integers(1, 40), label="stride")
    with MmapTokenStore(root) as store:
        grid = WindowGrid(len(store), window_size=window_size, stride=stride, partial="pad")
        documents = DocumentWindows(store.documents, window_size=window_size)
        for framing in (grid, documents):
            windows = np.arange(framing.count)
            starts, lengths = framing.locate(windows, None)
            stops = starts + (window_size + 1 if lengths is None else lengths)
            held = windows[(starts < stop) & (stops > start)]
            assert np.arange(*framing.touching(start, stop, moving=False)).tolist() == held.tolist()
        first, last = grid.touching(start, stop, moving=True)
        for drawn in range(stride):
            moved, lengths = grid.locate(np.arange(grid.count), np.full(grid.count, drawn, np.uint64))
            stops = moved + (window_size + 1 if lengths is None else lengths)
            held = np.flatnonzero((moved < stop) & (stops > start))
            assert set(held.tolist()) <= set(range(first, last))
