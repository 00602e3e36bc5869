import json
import pickle
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus_assets.errors import CorpusError, StateMismatchError
from corpus_assets.loading.document_loader import DocumentDataloader
from corpus_assets.loading.record_loader import RecordDataloader
from corpus_assets.loading.skipping import SkipList
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets_tests.loading.corpora import random_shards, write_corpus_of

ORDERS = pytest.mark.parametrize("order", ["random", "sequential", "cyclic", "replacement"])
SHARDS = random_shards([157, 0, 3, 441])
LENGTHS = [len(document) + 1 for documents in SHARDS for document in documents]
COUNT = len(LENGTHS)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("corpus")
    write_corpus_of(root, SHARDS)
    with MmapTokenStore(root) as opened:
        yield opened


def _loader(store, batch_size=None, **options):
    return DocumentDataloader(store, batch_size, **{"seed": 7, **options})


def _numbers(loader, steps):
    return [batch.documents.tolist() for batch in islice(loader, steps)]


def test_batches_by_count(store):
    loader = _loader(store, 4, order="sequential", tail="drop")
    batch = next(loader)
    assert batch.documents.tolist() == [0, 1, 2, 3]
    assert batch.values.dtype == np.int64
    assert [ids.tolist() for ids in batch] == [[*document, 0] for document in SHARDS[0][:4]]
    assert loader.steps_per_epoch == COUNT // 4
    assert loader.item_count == COUNT


def test_batches_by_budget_are_cut_greedily(store):
    expected, batch, total = [], [], 0
    for number, length in enumerate(LENGTHS):
        if batch and total + length > 50:
            expected.append(batch)
            batch, total = [], 0
        batch.append(number)
        total += length
    expected.append(batch)
    loader = _loader(store, max_tokens=50, order="sequential", tail="pad")
    assert _numbers(loader, len(expected)) == expected
    assert loader.current_epoch == 1
    assert _numbers(loader, len(expected)) == expected


def test_a_document_beyond_the_budget_is_a_batch_of_its_own(store):
    batches = list(islice(_loader(store, max_tokens=10, order="sequential", tail="pad"), 60))
    assert {len(batch) for batch in batches if len(batch.values) > 10} == {1}
    assert any(len(batch.values) > 10 for batch in batches)


def test_an_epoch_has_every_document_once_whatever_the_batching(store):
    for order in ("sequential", "cyclic"):
        for options in ({"batch_size": 1}, {"max_tokens": 60}):
            for tail in ("wrap", "drop", "pad"):
                loader = _loader(store, order=order, tail=tail, **options)
                for _ in range(2):
                    seen = [number for batch in loader.rest_of_epoch() for number in batch.documents.tolist()]
                    if tail == "wrap" and "max_tokens" in options:
                        assert set(seen) >= set(range(COUNT)) or loader.current_epoch == 2
                    else:
                        assert sorted(seen) == list(range(COUNT))


def test_replacement_draws_each_document_for_itself(store):
    drawn = np.concatenate(
        [batch.documents for batch in islice(_loader(store, 50, order="replacement"), 200)]
    )
    counts = np.bincount(drawn, minlength=COUNT)
    assert counts.min() > 0.5 * 10_000 / COUNT
    assert counts.max() < 1.6 * 10_000 / COUNT
    assert len(set(drawn[:COUNT].tolist())) < COUNT


BATCHINGS = pytest.mark.parametrize("batching", [{"batch_size": 6}, {"max_tokens": 70}])


@ORDERS
@BATCHINGS
@pytest.mark.parametrize("prefetch", [0, 3])
@pytest.mark.parametrize("tail", ["wrap", "drop", "pad"])
def test_a_resumed_run_is_the_run_that_never_stopped(store, order, batching, prefetch, tail):
    for consumed in (0, 1, 5, 9, 23):
        _resumed(store, prefetch, consumed, order=order, tail=tail, **batching)


def _resumed(store, prefetch, consumed, **options):
    expected = _numbers(_loader(store, **options), consumed + 14)
    with _loader(store, prefetch=prefetch, **options) as first:
        assert _numbers(first, consumed) == expected[:consumed]
        state = json.loads(json.dumps(first.state_dict()))
    assert state["step"] == consumed
    with _loader(store, prefetch=prefetch, **options) as second:
        second.load_state_dict(state)
        assert _numbers(second, 4) == expected[consumed : consumed + 4]
        state = second.state_dict()
    with _loader(store, prefetch=prefetch, **options) as third:
        _numbers(third, 2)
        third.load_state_dict(state)
        assert _numbers(third, 10) == expected[consumed + 4 :]
        third.seek(consumed)
        assert _numbers(third, 3) == expected[consumed : consumed + 3]


@ORDERS
@BATCHINGS
@pytest.mark.parametrize("num_workers", [1, 3])
def test_workers_in_turn_are_the_single_stream(store, order, batching, num_workers):
    single = _numbers(_loader(store, order=order, **batching), 20)
    workers = [
        _loader(store, order=order, worker=worker, num_workers=num_workers, **batching)
        for worker in range(num_workers)
    ]
    assert [_numbers(workers[i % num_workers], 1)[0] for i in range(9)] == single[:9]
    if num_workers == 3:
        states = [worker.state_dict() for worker in workers]
        assert states[0] == states[1] == states[2]
    for worker in workers:
        worker.load_state_dict(json.loads(json.dumps(workers[0].state_dict())))
    assert [_numbers(workers[i % num_workers], 1)[0] for i in range(9)] == single[9:18]


@ORDERS
@pytest.mark.parametrize("tail", ["wrap", "drop", "pad"])
def test_ranks_part_the_documents_by_count(store, order, tail):
    whole = _numbers(_loader(store, 6, order=order, tail=tail), 12)
    ranks = [_loader(store, 2, order=order, tail=tail, rank=rank, world_size=3) for rank in range(3)]
    parts = [_numbers(loader, 12) for loader in ranks]
    assert [[number for part in step for number in part] for step in zip(*parts, strict=True)] == whole
    assert len({json.dumps(loader.state_dict()) for loader in ranks}) == 1


@pytest.mark.parametrize("tail", ["wrap", "drop", "pad"])
def test_ranks_part_the_batches_of_a_budget_and_make_as_many_steps(store, tail):
    single = _numbers(_loader(store, max_tokens=70, tail="wrap"), 60)
    ranks = [_loader(store, max_tokens=70, tail=tail, rank=rank, world_size=3) for rank in range(3)]
    epochs = [[batch.documents.tolist() for batch in loader.rest_of_epoch()] for loader in ranks]
    assert len({len(epoch) for epoch in epochs}) == 1
    dealt = [batch for step in zip(*epochs, strict=True) for batch in step]
    seen = [number for batch in dealt for number in batch]
    assert dealt[:3] == single[:3]
    if tail == "pad":
        assert set(seen) == set(range(COUNT))
    if tail == "drop":
        assert len(seen) == len(set(seen))
    # Another world size goes on from the same place.
    state = ranks[0].state_dict()
    assert all(loader.state_dict() == state for loader in ranks)
    alone = _loader(store, max_tokens=70, tail=tail)
    alone.load_state_dict(state)
    following = [_numbers(loader, 2) for loader in ranks]
    assert _numbers(alone, 6) == [batch for step in zip(*following, strict=True) for batch in step]


@ORDERS
def test_by_budget_another_number_of_ranks_goes_on_with_the_same_batches(store, order):
    """A step has as many batches as there are ranks, so steps change; no batch is cut elsewhere, lost or repeated."""
    uninterrupted = _numbers(_loader(store, max_tokens=70, order=order), 60)
    state, dealt = _loader(store, max_tokens=70, order=order).state_dict(), []
    for world_size, workers, steps in ((1, 4, 8), (3, 1, 5), (3, 2, 6), (2, 1, 7)):
        ranks = [
            _loader(store, max_tokens=70, order=order, rank=rank, world_size=world_size)
            for rank in range(world_size)
        ]
        for rank in ranks:
            rank.load_state_dict(json.loads(json.dumps(state)))
        turns = [[rank.as_worker(worker, workers) for worker in range(workers)] for rank in ranks]
        for step in range(steps):
            dealt += [_numbers(own[step % workers], 1)[0] for own in turns]
        states = [own[-1].state_dict() for own in turns]
        assert states == states[:1] * world_size
        state = states[0]
    assert dealt == uninterrupted[: 8 + 3 * 11 + 2 * 7]
    assert state["step"] == 8 + 11 + 7
    with pytest.raises(StateMismatchError, match="max_tokens is 70 in the state, 35 in this"):
        _loader(store, max_tokens=35, order=order).load_state_dict(state)


@ORDERS
@BATCHINGS
def test_skipped_documents_never_come(store, order, batching):
    skip = SkipList(documents=[0, 3, 11], tokens=[(300, 340)])
    excluded = set(skip.documents_of(store.documents).tolist())
    loader = _loader(store, order=order, skip=skip, tail="pad", **batching)
    seen = [number for batch in loader.rest_of_epoch() for number in batch.documents.tolist()]
    assert not excluded & set(seen)
    if order != "replacement":
        assert set(seen) | excluded == set(range(COUNT))
    state = loader.state_dict()
    with pytest.raises(StateMismatchError, match="skip is"):
        _loader(store, order=order, tail="pad", **batching).load_state_dict(state)


@pytest.mark.parametrize("order", ["sequential", "cyclic"])
@BATCHINGS
def test_a_skip_list_that_grows_leaves_out_just_that(store, order, batching):
    run = _loader(store, order=order, **batching)
    _numbers(run, 3)
    state = run.state_dict()
    would_come = [number for batch in _numbers(run, 20) for number in batch]
    changed = _loader(store, order=order, skip=SkipList(documents=[2, 5, 19, 29]), **batching)
    changed.load_state_dict(state, allow_other_skip=True)
    come = [number for batch in _numbers(changed, 12) for number in batch]
    assert come == [number for number in would_come if number not in (2, 5, 19, 29)][: len(come)]
    assert changed.step == 15


@pytest.mark.parametrize("order", ["cyclic", "random"])
def test_a_shuffled_run_goes_on_while_no_document_of_a_replaced_shard_came(store, tmp_path, order):
    changed = [[token % 60_000 + 1 for token in document] for document in SHARDS[3]]  # of the same lengths
    write_corpus_of(tmp_path, [*SHARDS[:3], changed])
    kept = sum(map(len, SHARDS[:3]))
    with MmapTokenStore(tmp_path) as other:
        most = 0
        for seed in range(30):
            run = _loader(store, 1, order=order, seed=seed)
            consumed = 0
            while next(run).documents[0] < kept:
                consumed += 1
                most = max(most, consumed)
            loader = _loader(other, 1, order=order, seed=seed)
            run.seek(consumed)
            loader.load_state_dict(run.state_dict(), allow_other_corpus=True)
            run.seek(consumed + 1)
            with pytest.raises(StateMismatchError, match="samples are not proven to be the same"):
                loader.load_state_dict(run.state_dict(), allow_other_corpus=True)
    assert most > 1


@pytest.mark.parametrize("order", ["sequential", "cyclic", "random"])
@BATCHINGS
def test_a_state_of_another_corpus(store, tmp_path, order, batching):
    replaced = [*SHARDS[:3], random_shards([441], seed=99)[0]]
    write_corpus_of(tmp_path, replaced)
    with MmapTokenStore(tmp_path) as other:
        run = _loader(store, order=order, **batching)
        fresh = run.state_dict()
        with pytest.raises(StateMismatchError, match="s00003 has other content"):
            _loader(other, order=order, **batching).load_state_dict(fresh)
        _loader(other, order=order, **batching).load_state_dict(fresh, allow_other_corpus=True)
        _numbers(run, 1)
        loader = _loader(other, order=order, **batching)
        if order == "sequential":
            loader.load_state_dict(run.state_dict(), allow_other_corpus=True)
            assert _numbers(loader, 1) == _numbers(run, 1)
        _numbers(run, 20)
        with pytest.raises(StateMismatchError, match="samples are not proven to be the same"):
            loader.load_state_dict(run.state_dict(), allow_other_corpus=True)


def test_a_pickled_loader_goes_on_where_it_stood(store):
    for batching in ({"batch_size": 5}, {"max_tokens": 60}):
        with _loader(store, prefetch=2, **batching) as loader:
            _numbers(loader, 3)
            with pickle.loads(pickle.dumps(loader)) as again:
                assert _numbers(again, 5) == _numbers(loader, 5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "batch_size is None, max_tokens is None, expected one of the two"),
        ({"batch_size": 1, "max_tokens": 1}, "expected one of the two"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"batch_size": 1, "order": "any"}, "order is 'any'"),
        ({"batch_size": 1, "skip": SkipList(windows=[(0, 1)])}, "the skip list names windows"),
        ({"batch_size": 10_000, "tail": "drop"}, "an epoch has .* documents, tail='drop' needs"),
    ],
)
def test_options_that_do_not_fit_are_refused(store, options, message):
    with pytest.raises(ValueError, match=message):
        _loader(store, **options)


def test_a_budget_without_one_round_to_keep_is_an_error(store):
    with pytest.raises(CorpusError, match="an epoch has fewer than 20 batches"):
        next(_loader(store, max_tokens=70, tail="drop", world_size=20))
    with pytest.raises(ValueError, match="use rest_of_epoch"):
        _ = _loader(store, max_tokens=70).steps_per_epoch


def test_a_corpus_without_documents_is_too_short(tmp_path):
    write_corpus_of(tmp_path, [[]])
    with MmapTokenStore(tmp_path) as store, pytest.raises(CorpusError, match="0 tokens and no documents"):
        _loader(store, 1)


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([1, 5, 40, 300]), min_size=1, max_size=4),
    max_tokens=st.integers(1, 200),
    world_size=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_budgets_of_any_corpus(tmp_path_factory, sizes, max_tokens, world_size, seed):
    root = tmp_path_factory.mktemp("corpus")
    write_corpus_of(root, random_shards(sizes, seed=seed))
    with MmapTokenStore(root) as store:
        ranks = [
            _loader(store, max_tokens=max_tokens, tail="pad", rank=rank, world_size=world_size, seed=seed)
            for rank in range(world_size)
        ]
        epochs = [list(loader.rest_of_epoch()) for loader in ranks]
        count = store.index.document_count
    assert len({len(epoch) for epoch in epochs}) == 1
    batches = [batch for step in zip(*epochs, strict=True) for batch in step]
    seen = [number for batch in batches for number in batch.documents.tolist()]
    assert len(set(seen[:count])) == count
    assert all(len(batch.values) <= max_tokens or len(batch) == 1 for batch in batches)


def test_records_in_order_and_resumed(store):
    loader = RecordDataloader(store, 10, 4, seed=0, order="sequential", fields=["document_ids"])
    batch = next(loader)
    assert batch.ids.shape == batch.fields["document_ids"].shape == (4, 10)
    flat = [token for documents in SHARDS for document in documents for token in [*document, 0]]
    assert batch.ids.tolist() == [flat[i : i + 10] for i in range(0, 40, 10)]
    again = RecordDataloader(store, 10, 4, seed=0, order="sequential", fields=["document_ids"])
    again.load_state_dict(loader.state_dict())
    assert next(again).ids.tolist() == next(loader).ids.tolist()


@pytest.mark.parametrize("length", [1, 10])
def test_records_that_touch_what_is_skipped_never_come(store, length):
    skip = SkipList(documents=[2], tokens=[(100, 111)])
    (start,), (stop,) = store.documents.bounds(np.array([2]))
    loader = RecordDataloader(store, length, 1, seed=0, skip=skip)
    positions = np.concatenate([np.arange(start, stop), np.arange(100, 111)])
    skipped = set((positions // length).tolist())
    assert loader.item_count == len(store) // length - len(skipped)
    seen = {tuple(batch[0].tolist()) for batch in loader.rest_of_epoch()}
    flat = [token for documents in SHARDS for document in documents for token in [*document, 0]]
    rows = {i: tuple(flat[i * length : (i + 1) * length]) for i in range(len(flat) // length)}
    assert seen == {row for number, row in rows.items() if number not in skipped}
