import json
import os
import pickle
import signal
import warnings
from itertools import islice

import numpy as np
import pytest

from corpus_assets.errors import CorpusError, StateMismatchError
from corpus_assets.loading.loader import SlidingWindowDataloader
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets_tests.loading.corpora import random_shards, tokens_of, write_corpus_of

ORDERS = pytest.mark.parametrize("order", ["random", "sequential", "cyclic", "replacement"])
SHARDS = random_shards([57, 0, 3, 141])  # 201 tokens: 50 windows of 4


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("corpus")
    write_corpus_of(root, SHARDS)
    with MmapTokenStore(root) as opened:
        yield opened


def _loader(store, **options):
    return SlidingWindowDataloader(store, **{"window_size": 4, "batch_size": 3, "seed": 7, **options})


def _take(loader, count):
    return [(inputs.tolist(), targets.tolist()) for inputs, targets in islice(loader, count)]


def test_a_batch_by_hand(tmp_path):
    write_corpus_of(tmp_path, [[[1, 2, 3], [4]], [[5, 6], []]])  # 1 2 3 0 4 0 5 6 0 0
    with MmapTokenStore(tmp_path) as store:
        loader = SlidingWindowDataloader(store, 3, 2, seed=0, order="sequential")
        inputs, targets = next(loader)
        assert inputs.tolist() == [[1, 2, 3], [0, 4, 0]]
        assert targets.tolist() == [[2, 3, 0], [4, 0, 5]]
        assert inputs.dtype == targets.dtype == np.int64
        assert next(loader)[0].tolist() == [[5, 6, 0], [1, 2, 3]]
        assert loader.window_count == 3


@ORDERS
def test_targets_are_inputs_shifted_by_one(store, order):
    flat = tokens_of(SHARDS).tolist()
    seen = {tuple(flat[i : i + 5]) for i in range(len(flat) - 4)}
    for inputs, targets in islice(_loader(store, order=order), 40):
        for row, target in zip(inputs.tolist(), targets.tolist(), strict=True):
            assert row[1:] == target[:-1]
            assert (*row, target[-1]) in seen


@ORDERS
def test_the_same_numbers_give_the_same_batches(store, order):
    assert _take(_loader(store, order=order), 40) == _take(_loader(store, order=order), 40)


@pytest.mark.parametrize("order", ["random", "cyclic"])
def test_seeds_and_epochs_give_others(store, order):
    runs = [
        _take(_loader(store, order=order, seed=seed, epoch=epoch), 10)
        for seed, epoch in ((7, 0), (8, 0), (7, 1), (8, 1))
    ]
    assert all(runs[i] != runs[j] for i in range(4) for j in range(i))


@ORDERS
@pytest.mark.parametrize(("world_size", "num_workers"), [(1, 1), (2, 3), (5, 2)])
def test_ranks_and_workers_part_an_epoch(store, order, world_size, num_workers):
    """50 windows in global batches of 10: five steps; over all loaders each window comes once."""
    windows = []
    for rank in range(world_size):
        for worker in range(num_workers):
            loader = _loader(
                store,
                order=order,
                batch_size=10 // world_size,
                rank=rank,
                world_size=world_size,
                worker=worker,
                num_workers=num_workers,
            )
            own_steps = len(range(worker, 5, num_workers))
            for inputs, targets in islice(loader, own_steps):
                windows += [tuple(row) for row in np.hstack([inputs, targets[:, -1:]]).tolist()]
    assert len(windows) == 50
    expected = _loader(store, order=order, batch_size=50)
    inputs, targets = next(expected)
    assert sorted(windows) == sorted(tuple(r) for r in np.hstack([inputs, targets[:, -1:]]).tolist())
    if order in ("sequential", "cyclic"):
        flat = tokens_of(SHARDS).tolist()
        assert sorted(windows) == sorted(tuple(flat[i : i + 5]) for i in range(0, 197, 4))


@pytest.mark.parametrize("seek", [0, 1, 5, 12])
@pytest.mark.parametrize("prefetch", [0, 2])
def test_workers_in_turn_are_the_single_stream(store, seek, prefetch):
    single = _loader(store)
    single.seek(seek)
    workers = [_loader(store, worker=worker, num_workers=4, prefetch=prefetch) for worker in range(4)]
    for worker in workers:
        worker.seek(seek)
    in_turn = [_take(workers[i % 4], 1)[0] for i in range(11)]
    assert in_turn == _take(single, 11)
    for worker in workers:
        worker.close()


# 50 windows, global batch 6: epochs end inside step 8 (48 to 53) and step 16 (96 to 101).
@ORDERS
@pytest.mark.parametrize("prefetch", [0, 3])
@pytest.mark.parametrize("consumed", [0, 1, 7, 8, 9, 16, 17])
@pytest.mark.parametrize("tail", ["wrap", "drop", "pad"])
def test_a_resumed_run_is_the_run_that_never_stopped(store, order, prefetch, consumed, tail):
    options = {"order": order, "tail": tail, "batch_size": 6}
    uninterrupted = _take(_loader(store, **options), consumed + 20)
    with _loader(store, prefetch=prefetch, **options) as first:
        _take(first, consumed)
        state = json.loads(json.dumps(first.state_dict()))
    assert state["step"] == consumed
    with _loader(store, prefetch=prefetch, **options) as second:
        second.load_state_dict(state)
        assert _take(second, 4) == uninterrupted[consumed : consumed + 4]
        state = second.state_dict()
    with _loader(store, prefetch=prefetch, **options) as third:
        _take(third, 2)
        third.load_state_dict(state)
        assert _take(third, 16) == uninterrupted[consumed + 4 :]


@pytest.mark.parametrize("world_size", [1, 2, 3, 6])
@pytest.mark.parametrize("num_workers", [1, 4])
def test_a_run_goes_on_with_other_ranks_and_workers(store, world_size, num_workers):
    whole = _loader(store, batch_size=6)
    expected = _take(whole, 15)
    first = [_loader(store, batch_size=2, rank=rank, world_size=3) for rank in range(3)]
    for loader in first:
        _take(loader, 5)
    assert len({json.dumps(loader.state_dict()) for loader in first}) == 1
    state = first[0].state_dict()
    ranks = []
    for rank in range(world_size):
        workers = []
        for worker in range(num_workers):
            loader = _loader(
                store,
                batch_size=6 // world_size,
                rank=rank,
                world_size=world_size,
                worker=worker,
                num_workers=num_workers,
            )
            loader.load_state_dict(state)
            workers.append(loader)
        ranks.append([_take(workers[i % num_workers], 1)[0] for i in range(10)])
    for step in range(10):
        inputs = [row for rank in range(world_size) for row in ranks[rank][step][0]]
        targets = [row for rank in range(world_size) for row in ranks[rank][step][1]]
        assert (inputs, targets) == expected[5 + step]


def test_a_worker_goes_on_from_its_own_state(store):
    worker = _loader(store, worker=1, num_workers=3)
    expected = _take(_loader(store, worker=1, num_workers=3), 9)
    assert _take(worker, 4) == expected[:4]
    again = _loader(store, worker=1, num_workers=3)
    again.load_state_dict(worker.state_dict())
    assert _take(again, 2) == expected[4:6]
    last = _loader(store, worker=1, num_workers=3)
    last.load_state_dict(again.state_dict())
    assert _take(last, 3) == expected[6:]


def test_a_state_of_another_corpus_is_refused_with_both_fingerprints(store, tmp_path):
    write_corpus_of(tmp_path, random_shards([201], seed=5))
    with MmapTokenStore(tmp_path) as other:
        state = _loader(other).state_dict()
    loader = _loader(store)
    _take(loader, 2)
    with pytest.raises(StateMismatchError, match=f"{other.fingerprint}.*{store.fingerprint}"):
        loader.load_state_dict(state)
    assert loader.step == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 8}, "seed is 8 in the state, 7 in this loader"),
        ({"order": "cyclic"}, "order is 'cyclic' in the state, 'random' in this loader"),
        ({"stride": 2}, "stride is 2 in the state, 4 in this loader"),
        ({"epoch": 1}, "epoch is 1 in the state, 0 in this loader"),
        ({"tail": "drop"}, "tail is 'drop' in the state, 'wrap' in this loader"),
        ({"batch_size": 2}, "global_batch is 2 in the state, 3 in this loader"),
        ({"world_size": 2}, "global_batch is 6 in the state, 3 in this loader"),
        ({"window_size": 5}, "window_size is 5 in the state, 4 in this loader; stride is 5"),
    ],
)
def test_a_state_of_another_order_is_refused_with_both_values(store, changes, message):
    state = _loader(store, **changes).state_dict()
    with pytest.raises(StateMismatchError, match=message):
        _loader(store).load_state_dict(state)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: None, "found NoneType"),
        (lambda _: {}, r"found \[\], expected"),
        (lambda s: s | {"extra": 1}, "extra"),
        (lambda s: s | {"step": -1}, "step is -1"),
        (lambda s: s | {"step": 1.0}, r"step is 1\.0"),
        (lambda s: s | {"step": True}, "step is True"),
        (lambda s: s | {"version": 1}, "version is 1, expected 3"),
    ],
)
def test_what_is_no_state_is_refused(store, change, message):
    loader = _loader(store)
    with pytest.raises(StateMismatchError, match=message):
        loader.load_state_dict(change(loader.state_dict()))


def test_numpy_numbers_give_a_state_that_json_holds(store):
    loader = _loader(store, seed=np.int64(7), stride=np.int32(4), window_size=np.int64(4), epoch=np.int8(0))
    assert json.loads(json.dumps(loader.state_dict())) == _loader(store).state_dict()


@pytest.mark.parametrize("prefetch", [0, 1, 4])
def test_seek_goes_anywhere(store, prefetch):
    with _loader(store, prefetch=prefetch) as loader:
        ahead = _take(loader, 12)
        loader.seek(5)
        assert _take(loader, 7) == ahead[5:]
        loader.seek(2**50)
        later = _take(loader, 1)
        assert loader.step == 2**50 + 1
        with pytest.raises(ValueError, match="step is -1"):
            loader.seek(-1)
    assert later == _take(_seeked(_loader(store), 2**50), 1)


def _seeked(loader, step):
    loader.seek(step)
    return loader


def test_prefetched_batches_are_not_counted(store):
    with _loader(store, prefetch=5) as loader:
        _take(loader, 2)
        assert loader.state_dict()["step"] == 2


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_failed_read_reaches_the_consumer_and_can_be_tried_again(tmp_path, prefetch):
    index = write_corpus_of(tmp_path, random_shards([201]), compression="gzip", chunk_size=4)
    path, hidden = tmp_path / index.shards[0].path, tmp_path / "hidden.h5"
    with MmapTokenStore(tmp_path, cache_bytes=0) as store, _loader(store) as healthy:
        expected = _take(healthy, 3)
    with MmapTokenStore(tmp_path, cache_bytes=0) as store, _loader(store, prefetch=prefetch) as loader:
        path.rename(hidden)
        for _ in range(2):
            with pytest.raises(CorpusError, match="No such file"):
                next(loader)
        hidden.rename(path)
        assert _take(loader, 3) == expected


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_pickled_loader_goes_on_where_it_stood(store, prefetch):
    with _loader(store, prefetch=prefetch) as loader:
        _take(loader, 3)
        with pickle.loads(pickle.dumps(loader)) as again:
            assert _take(again, 9) == _take(loader, 9)


def test_a_forked_loader_goes_on_where_it_stood(store):
    with _loader(store, prefetch=2) as loader:
        _take(loader, 3)
        expected = _take(_seeked(_loader(store), 3), 9)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: fork beside a thread
            child = os.fork()
        if child == 0:
            signal.alarm(20)  # a child that hangs fails the test
            os._exit(0 if _take(loader, 9) == expected else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert _take(loader, 9) == expected


def test_boundary_targets_are_masked_and_inputs_are_not(store):
    plain, masked = _loader(store), _loader(store, ignore_index=-100)
    found = 0
    for (inputs, targets), (same, cut) in zip(islice(plain, 10), islice(masked, 10), strict=True):
        assert np.array_equal(inputs, same)
        assert np.array_equal(cut, np.where(targets == 0, -100, targets))
        found += int((cut == -100).sum())
    assert found > 0


@pytest.mark.parametrize("dtype", [np.int32, np.uint16, np.int64])
def test_dtype_is_the_callers_choice(store, dtype):
    inputs, targets = next(_loader(store, dtype=dtype))
    assert inputs.dtype == targets.dtype == dtype
    assert (inputs.tolist(), targets.tolist()) == _take(_loader(store), 1)[0]


@pytest.mark.parametrize(("prefetch", "count"), [(0, 1), (0, 3), (2, 4), (2, 6)])
def test_batches_are_written_into_the_callers_buffers(store, prefetch, count):
    buffers = [(np.empty((3, 4), np.int32), np.empty((3, 4), np.int32)) for _ in range(count)]
    expected = _take(_loader(store), 30)
    with _loader(store, dtype=np.int32, buffers=buffers, prefetch=prefetch) as loader:
        for number, (inputs, targets) in enumerate(islice(loader, 15)):
            assert inputs is buffers[number % count][0]
            assert targets is buffers[number % count][1]
            assert (inputs.tolist(), targets.tolist()) == expected[number]
        held = targets.tolist()
        loader.seek(20)
        assert targets.tolist() == held
        assert _take(loader, 10) == expected[20:]


def test_batches_that_are_kept_do_not_change(store):
    with _loader(store, prefetch=2) as loader:
        kept = list(islice(loader, 20))
    assert [(a.tolist(), b.tolist()) for a, b in kept] == _take(_loader(store), 20)
    assert all(a.flags.c_contiguous and b.flags.c_contiguous for a, b in kept)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window_size": 0}, "window_size is 0"),
        ({"window_size": 201}, "has 201 tokens, a window of 201 and its last target need 202"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"rank": 1}, "rank is 1, expected 0 to 0"),
        ({"rank": -1}, "rank is -1"),
        ({"worker": 2, "num_workers": 2}, "worker is 2, expected 0 to 1"),
        ({"world_size": 0}, "world_size is 0"),
        ({"prefetch": -1}, "prefetch is -1"),
        ({"seed": -1}, "seed is -1"),
        ({"order": "any"}, "order is 'any'"),
        ({"stride": 0}, "stride is 0"),
        ({"dtype": np.int8}, "dtype is int8"),
        ({"dtype": np.uint16, "ignore_index": -100}, "ignore_index is -100, dtype uint16 holds 0 to 65535"),
        ({"buffers": []}, "found 0 buffers, expected at least 1"),
        (
            {"prefetch": 2, "buffers": [(np.empty((3, 4), int),) * 2] * 3},
            "found 3 buffers, expected at least 4",
        ),
        ({"buffers": [(np.empty((3, 5), int),) * 2]}, r"a buffer is int64 of shape \(3, 5\)"),
    ],
)
def test_options_that_do_not_fit_are_refused(store, options, message):
    with pytest.raises(ValueError, match=message):
        _loader(store, **options)
