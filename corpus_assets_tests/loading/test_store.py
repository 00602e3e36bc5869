import gc
import os
import pickle
import signal
import threading
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus_assets.errors import NotReleasedError
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets.shards.index import INDEX
from corpus_assets.shards.records import ShardIndex
from corpus_assets.shards.release import Evidence, write_release
from corpus_assets_tests.loading.corpora import random_shards, tokens_of, write_corpus_of

TWO_SHARDS = [[[1, 2, 3], [4]], [[5, 6], []]]  # 1 2 3 0 4 0 | 5 6 0 0


@pytest.fixture
def small(tmp_path):
    write_corpus_of(tmp_path, TWO_SHARDS)
    with MmapTokenStore(tmp_path / INDEX) as store:
        yield store


def test_a_corpus_reads_as_one_flat_stream(small):
    assert len(small) == 10
    assert small.dtype == np.uint16
    assert small.boundary_id == 0
    assert small.get_slice(0, 10).tolist() == [1, 2, 3, 0, 4, 0, 5, 6, 0, 0]
    assert small.get_slice(4, 8).tolist() == [4, 0, 5, 6]
    assert small.get_slice(3, 3).tolist() == []
    assert small.gather([5, 0, 5], 3).tolist() == [[0, 5, 6], [1, 2, 3], [0, 5, 6]]


def test_the_folder_names_the_index_too(small, tmp_path):
    with MmapTokenStore(tmp_path) as store:
        assert store.fingerprint == small.fingerprint == store.index.fingerprint


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: s.get_slice(0, 11), IndexError, r"slice is \[0, 11\), expected .* <= 10"),
        (lambda s: s.get_slice(-1, 3), IndexError, r"slice is \[-1, 3\)"),
        (lambda s: s.get_slice(4, 3), IndexError, r"slice is \[4, 3\)"),
        (lambda s: s.gather([0, 8], 3), IndexError, "starts run from 0 to 8, expected 0 to 7"),
        (lambda s: s.gather([-1], 3), IndexError, "starts run from -1 to -1, expected 0 to 7"),
        (lambda s: s.gather([0], 11), IndexError, "expected 0 to -1 for windows of 11 in 10 tokens"),
        (lambda s: s.gather(np.array([2**64 - 1], np.uint64), 3), IndexError, "18446744073709551615"),
        (lambda s: s.gather([0], 0), ValueError, "length is 0"),
        (lambda s: s.gather([0.5], 3), ValueError, "starts are float64"),
        (lambda s: s.gather([[0]], 3), ValueError, r"shape \(1, 1\)"),
        (lambda s: s.gather([0], 3, dtype=np.int8), ValueError, "dtype is int8, .* ids up to 60000"),
        (lambda s: s.gather([0], 3, dtype=np.float64), ValueError, "dtype is float64"),
        (lambda s: s.gather([0], 3, out=np.empty((2, 3), int)), ValueError, r"out has shape \(2, 3\)"),
        (
            lambda s: s.gather([0], 3, out=np.empty((1, 3), np.int64), dtype=np.int32),
            ValueError,
            "out is int64, dtype says int32",
        ),
        (lambda s: s.document_at(10), IndexError, "position is 10, expected 0 to 9"),
        (lambda s: s.document_at(-1), IndexError, "position is -1"),
        (lambda s: s.advise("fast"), ValueError, "access is 'fast'"),
    ],
)
def test_requests_outside_the_corpus_are_refused(small, call, error, message):
    with pytest.raises(error, match=message):
        call(small)


def test_no_starts_give_an_empty_batch(small):
    assert small.gather([], 3).shape == (0, 3)
    assert small.gather([], 3, dtype=np.int64).dtype == np.int64


@pytest.mark.parametrize("layout", ["flat", "pieces"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint16, np.uint32])
def test_gather_casts_and_fills_the_callers_buffer(tmp_path, layout, dtype):
    shards = random_shards([500, 3, 800])
    write_corpus_of(tmp_path, shards)
    flat = tokens_of(shards)
    starts = np.arange(1303 - 50, 0, -1)
    expected = np.stack([flat[i : i + 50] for i in starts])
    with MmapTokenStore(tmp_path, layout=layout) as store:
        cast = store.gather(starts, 50, dtype=dtype)
        assert cast.dtype == dtype
        assert np.array_equal(cast, expected)
        out = np.zeros((len(starts), 51), dtype)[:, 1:]  # not contiguous
        assert store.gather(starts, 50, out=out) is out
        assert np.array_equal(out, expected)


@pytest.mark.parametrize("layout", ["flat", "pieces"])
def test_what_is_returned_is_writable_and_not_the_file(tmp_path, layout):
    write_corpus_of(tmp_path, TWO_SHARDS)
    with MmapTokenStore(tmp_path, layout=layout) as store:
        for fresh in (store.get_slice(0, 6), store.gather([0, 1], 4)):
            fresh[...] = 9
        assert store.get_slice(0, 6).tolist() == [1, 2, 3, 0, 4, 0]
        kept = store.gather([0], 10)
    gc.collect()
    assert kept.tolist() == [[1, 2, 3, 0, 4, 0, 5, 6, 0, 0]]
    with pytest.raises(ValueError, match="the store is closed"):
        store.get_slice(0, 1)
    store.close()


shard_sizes = st.lists(st.sampled_from([0, 0, 1, 2, 7, 16, 33, 150]), min_size=1, max_size=6).filter(sum)


@settings(max_examples=25, deadline=None)
@given(
    data=st.data(), sizes=shard_sizes, codec=st.sampled_from(["gzip", "lzf", "zstd", "zstd-dict", "blosc2"])
)
def test_all_layouts_read_the_same_tokens(tmp_path_factory, data, sizes, codec):
    shards = random_shards(sizes, seed=len(sizes))
    flat = tokens_of(shards)
    length = data.draw(st.integers(1, len(flat)), label="length")
    starts = data.draw(st.lists(st.integers(0, len(flat) - length), max_size=8), label="starts")
    start = data.draw(st.integers(0, len(flat)), label="start")
    stop = data.draw(st.integers(start, len(flat)), label="stop")
    rows = np.array([flat[i : i + length] for i in starts], np.int64).reshape(-1, length)
    root = tmp_path_factory.mktemp("corpus")
    plain = write_corpus_of(root / "plain", shards)
    packed = write_corpus_of(root / "packed", shards, compression=codec)
    mixed = write_corpus_of(root / "mixed", shards, compression=_mix(codec, sizes))
    scattered = _scattered(plain)
    for index, layout in [
        (plain, "flat"),
        (plain, "pieces"),
        (scattered, "auto"),
        (packed, "auto"),
        (mixed, "auto"),
    ]:
        with MmapTokenStore(index, layout=layout, cache_bytes=100) as store:
            assert np.array_equal(store.gather(starts, length), rows)
            assert np.array_equal(store.get_slice(start, stop), flat[start:stop])


def _mix(codec, sizes):
    return [codec if number % 2 else "none" for number in range(len(sizes))]


def _scattered(index):
    """The same corpus, as if its chunks did not lie in one run."""
    return replace(index, shards=tuple(replace(shard, extents={}) for shard in index.shards))


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize(
    "starts",
    [
        range(0, 300, 30),  # side by side
        range(0, 300, 31),  # one token between two
        range(0, 300, 29),  # the last token of one is the first of the next
        range(270, -1, -30),  # backwards
        [0, 60, 30, 90],
        [0, 30, 30, 60],
        [5],
    ],
)
def test_windows_in_order_and_out_of_it(tmp_path, codec, starts):
    shards = random_shards([100, 33, 200])
    flat = tokens_of(shards)
    with MmapTokenStore(write_corpus_of(tmp_path, shards, compression=codec), layout="pieces") as store:
        expected = np.stack([flat[start : start + 30] for start in starts])
        found = store.gather(starts, 30)
        assert np.array_equal(found, expected)
        found[:] = 0  # the caller's own
        assert np.array_equal(store.gather(starts, 30, dtype=np.int64), expected)


def test_windows_over_a_thousand_shards(tmp_path):
    shards = random_shards([1, 2, 3])
    index = _one_file_many_times(tmp_path, shards, 1000)
    flat = np.tile(tokens_of(shards), 334)[: index.token_count]
    with MmapTokenStore(index, layout="flat") as store:
        starts = np.array([0, 1, 2, 700])
        expected = np.stack([flat[i : i + 1200] for i in starts])
        assert np.array_equal(store.gather(starts, 1200), expected)
        assert np.array_equal(store.get_slice(5, 1900), flat[5:1900])


def _one_file_many_times(root, shards, count):
    """An index of `count` shards that repeat a few files."""
    index = write_corpus_of(root, shards)
    repeated = [replace(index.shards[number % len(shards)], key=f"k{number:06d}") for number in range(count)]
    return ShardIndex.of(repeated, root)


def test_windows_of_many_megabytes_are_read_shard_by_shard(tmp_path):
    flat = np.arange(600_000) % 50_000 + 1
    write_corpus_of(tmp_path, [[flat.tolist()], [flat.tolist()]], chunk_size=65536)
    with MmapTokenStore(tmp_path, layout="flat") as store:
        windows = store.gather([0, 10], 1_150_000)
        assert np.array_equal(windows[1, :-10], windows[0, 10:])
        assert windows[0, 600_000] == 0
        assert np.array_equal(windows[0, 600_001:], flat[: 1_150_000 - 600_001])


def test_uint32_ids_survive(tmp_path):
    write_corpus_of(tmp_path, [[[70_000, 5]], [[99_999]]], max_token_id=100_000)
    with MmapTokenStore(tmp_path) as store:
        assert store.dtype == np.uint32
        assert store.get_slice(0, 5).tolist() == [70_000, 5, 0, 99_999, 0]
        with pytest.raises(ValueError, match="dtype is uint16"):
            store.gather([0], 2, dtype=np.uint16)


def test_a_corpus_without_tokens_is_empty(tmp_path):
    write_corpus_of(tmp_path / "none", [])
    write_corpus_of(tmp_path / "empty", [[], []])
    for name in ("none", "empty"):
        with MmapTokenStore(tmp_path / name) as store:
            assert len(store) == 0
            assert store.get_slice(0, 0).tolist() == []
            with pytest.raises(IndexError):
                store.gather([0], 1)


def test_document_at_names_the_row_of_the_input(small):
    first = small.document_at(3)  # the boundary of the first document
    assert (first.shard, first.input_name, first.row) == ("s00000", "s00000", 10)
    assert (first.document, first.start, first.stop) == (0, 0, 4)
    last = small.document_at(9)  # an empty document: nothing but its boundary
    assert (last.shard, last.row, last.document, last.start, last.stop) == ("s00001", 12, 3, 9, 10)
    assert [small.document_at(i).document for i in range(10)] == [0, 0, 0, 0, 1, 1, 2, 2, 2, 3]


def test_only_a_released_index_opens_with_require_release(tmp_path):
    index = write_corpus_of(tmp_path, TWO_SHARDS)
    with pytest.raises(NotReleasedError, match=index.fingerprint):
        MmapTokenStore(tmp_path, require_release=True)
    evidence = [Evidence(check="digests_match", passed=True, detail="2 shards")]
    write_release(index, evidence, created="2025-01-01T00:00:00Z")
    with MmapTokenStore(tmp_path, require_release=True) as store:
        assert store.fingerprint == index.fingerprint


def _read_in_child(store):
    return store.fingerprint, store.gather([0, 4], 5).tolist(), os.getpid()


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_pickled_store_opens_its_files_again(tmp_path, method, compression):
    write_corpus_of(tmp_path, TWO_SHARDS, compression=compression)
    with (
        MmapTokenStore(tmp_path) as store,
        ProcessPoolExecutor(1, mp_context=get_context(method)) as pool,
    ):
        expected = store.gather([0, 4], 5).tolist()
        fingerprint, rows, process = pool.submit(_read_in_child, store).result()
    assert (fingerprint, rows) == (store.fingerprint, expected)
    assert process != os.getpid()


def test_a_pickled_store_keeps_its_corpus_when_the_index_is_replaced(tmp_path):
    write_corpus_of(tmp_path, TWO_SHARDS)
    with MmapTokenStore(tmp_path) as store:
        pickled = pickle.dumps(store)
    write_corpus_of(tmp_path / "new", [[[7]]])
    (tmp_path / "new" / INDEX).replace(tmp_path / INDEX)
    with pickle.loads(pickled) as again:
        assert again.fingerprint == store.fingerprint
        assert again.get_slice(0, 4).tolist() == [1, 2, 3, 0]


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_forked_child_reads_while_a_thread_of_the_parent_reads(tmp_path, compression):
    shards = random_shards([2000, 2000])
    write_corpus_of(tmp_path, shards, compression=compression)
    with MmapTokenStore(tmp_path, threads=2, cache_bytes=0) as store:
        expected = store.gather(np.arange(0, 3000, 7), 900)
        stop, reading = threading.Event(), threading.Event()

        def read():
            while not stop.is_set():
                store.gather(np.arange(0, 3000, 7), 900)
                reading.set()

        thread = threading.Thread(target=read)
        thread.start()
        reading.wait()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: fork beside a thread
                child = os.fork()
            if child == 0:
                signal.alarm(20)  # a child that hangs fails the test
                same = np.array_equal(store.gather(np.arange(0, 3000, 7), 900), expected)
                os._exit(0 if same else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        finally:
            stop.set()
            thread.join()
