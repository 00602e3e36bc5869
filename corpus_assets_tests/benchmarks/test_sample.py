import numpy as np
import pytest

from corpus_assets.benchmarks.readers import HyperslabReader, MemmapReader, MemoryCopy
from corpus_assets.benchmarks.sample import (
    drop_cached_pages,
    sample_folder,
    sample_tokens,
    sample_windows,
    split_shard,
    write_sample,
)
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets.shards.records import ShardIndex
from corpus_assets_tests.loading.corpora import random_shards, tokenizer_info, tokens_of, write_corpus_of


@pytest.fixture
def tokens(tmp_path):
    write_corpus_of(tmp_path / "corpus", random_shards([700, 300]))
    with MmapTokenStore(tmp_path / "corpus") as store:
        return sample_tokens(store, 2500)


def test_a_sample_repeats_the_corpus_and_ends_with_a_boundary(tokens):
    flat = tokens_of(random_shards([700, 300]))
    assert np.array_equal(tokens[:-1], np.tile(flat, 3)[:2499])
    assert tokens[-1] == 0


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_a_written_sample_reads_back(tmp_path, tokens, compression):
    path = tmp_path / "sample.h5"
    record = write_sample(path, tokens, tokenizer_info(), chunk_size=64, compression=compression)
    with MmapTokenStore(ShardIndex.of([record], tmp_path)) as store:
        assert np.array_equal(store.get_slice(0, 2500), tokens)
    with HyperslabReader(path) as reader:
        assert np.array_equal(reader.slice(3, 900), tokens[3:900])
        assert np.array_equal(reader.windows(np.array([5, 0]), 7), np.stack([tokens[5:12], tokens[0:7]]))


@pytest.mark.parametrize("count", [1, 7, 2500])
def test_a_shard_can_be_read_as_many(tmp_path, tokens, count):
    record = write_sample(tmp_path / "sample.h5", tokens, tokenizer_info(), chunk_size=64, compression="none")
    index = split_shard(record, tmp_path, shard_count=count)
    assert len(index.shards) == count
    assert max(s.token_count for s in index.shards) - min(s.token_count for s in index.shards) <= 1
    with MmapTokenStore(index, layout="flat") as store:
        assert np.array_equal(store.get_slice(0, 2500), tokens)


def test_the_folder_is_gone_afterwards(tmp_path):
    with sample_folder(tmp_path) as folder:
        (folder / "file").write_text("x")
        assert tmp_path in folder.parents
    assert not folder.exists()


def test_windows_fit_and_are_the_same_every_time():
    starts = sample_windows(100, 30, batches=50, batch_size=20)
    assert starts.shape == (50, 20)
    assert (starts.min(), starts.max()) == (0, 70)
    assert np.array_equal(starts, sample_windows(100, 30, batches=50, batch_size=20))


def test_other_readers_read_the_same(tmp_path, tokens):
    path = tmp_path / "flat.bin"
    tokens.tofile(path)
    memmap = MemmapReader(path, tokens.dtype)
    assert np.array_equal(memmap.windows(np.array([9, 1]), 4), np.stack([tokens[9:13], tokens[1:5]]))
    memory = MemoryCopy(tokens, 100)
    assert np.array_equal(memory.copy(50), tokens[50:150])
    assert np.array_equal(memory.copy(2490), tokens[2400:])
    drop_cached_pages([path])
    assert np.array_equal(MemmapReader(path, tokens.dtype).tokens, tokens)
