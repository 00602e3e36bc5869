import gc
import os
import pickle
import signal
import time
import warnings
from dataclasses import replace

from corpus_assets.loading.store import MmapTokenStore
from corpus_assets.shards.readers import READERS, paths_being_read
from corpus_assets.shards.records import ShardIndex
from corpus_assets_tests.loading.corpora import random_shards, write_corpus_of

SHARDS = random_shards([50, 50])


def _marks(root):
    return len(list((root / READERS).glob("*.json")))


def test_a_store_marks_its_files_while_it_is_open(tmp_path):
    index = write_corpus_of(tmp_path, SHARDS)
    with MmapTokenStore(tmp_path) as store:
        assert paths_being_read(tmp_path) == {shard.path for shard in index.shards}
        store.get_slice(0, 3)
        assert _marks(tmp_path) == 1
    assert _marks(tmp_path) == 0
    store.close()


def test_a_store_that_is_forgotten_takes_its_mark_away(tmp_path):
    write_corpus_of(tmp_path, SHARDS)
    store = MmapTokenStore(tmp_path)
    assert _marks(tmp_path) == 1
    del store
    gc.collect()
    assert _marks(tmp_path) == 0


def test_an_unpickled_store_marks_when_it_reads(tmp_path):
    write_corpus_of(tmp_path, SHARDS)
    with MmapTokenStore(tmp_path) as store:
        pickled = pickle.dumps(store)
        with pickle.loads(pickled) as again:
            assert _marks(tmp_path) == 1
            again.get_slice(0, 1)
            assert _marks(tmp_path) == 2
        assert _marks(tmp_path) == 1


def test_a_forked_child_makes_a_mark_of_its_own_and_leaves_its_parents(tmp_path):
    write_corpus_of(tmp_path, SHARDS)
    with MmapTokenStore(tmp_path) as store:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: fork beside a thread
            child = os.fork()
        if child == 0:
            signal.alarm(20)  # a child that hangs fails the test
            store.get_slice(0, 1)
            found = _marks(tmp_path)
            store.close()
            os._exit(10 * found + _marks(tmp_path))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 21
        assert _marks(tmp_path) == 1
    with MmapTokenStore(tmp_path) as store:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            signal.alarm(20)
            store.close()  # without a read
            del store
            gc.collect()
            os._exit(_marks(tmp_path))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_a_root_that_cannot_be_written_is_read_all_the_same(tmp_path):
    write_corpus_of(tmp_path, SHARDS)
    (tmp_path / READERS).write_text("a file where the folder would be")
    with MmapTokenStore(tmp_path) as store:
        assert len(store.get_slice(0, 100)) == 100


def test_ten_thousand_shards_open_in_a_second_of_work(tmp_path):
    few = write_corpus_of(tmp_path, random_shards([10] * 100))
    many = ShardIndex.of(
        (replace(few.shards[number % 100], key=f"k{number:06d}") for number in range(10_000)), tmp_path
    )
    used = time.process_time()
    with MmapTokenStore(many) as store:
        used = time.process_time() - used
        assert len(store) == 100_000
        assert _marks(tmp_path) == 1
    assert used < 1.5  # of this process alone, whatever else the machine does; 0.5 on the author's
