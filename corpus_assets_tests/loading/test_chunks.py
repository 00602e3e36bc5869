import os
import zlib
from dataclasses import replace

import h5py
import numpy as np
import pytest
import zstandard

from corpus_assets.errors import IndexMismatchError, ShardError
from corpus_assets.loading.chunks import ChunkedShard
from corpus_assets.loading.decoded import DecodedChunks
from corpus_assets.loading.extents import token_files
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets.shards.records import ShardIndex
from corpus_assets_tests.loading.corpora import random_shards, tokens_of, write_corpus_of

U16 = np.dtype("<u2")
BLOCK_BYTES = 8 * 1024 * 1024
CODECS = ["gzip", "lzf", "zstd", "zstd-dict", "blosc2"]


def _chunked(index):
    return ChunkedShard(
        token_files(index, np.dtype(index.shards[0].dtype))[0], np.dtype(index.shards[0].dtype)
    )


def _tokens(chunk):
    tokens = np.empty(chunk.stored.shape[-1], chunk.dtype)
    chunk.fill(tokens, 0)
    return tokens


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("max_token_id", [60_000, 100_000])
def test_each_codec_decodes_to_what_was_written(tmp_path, codec, max_token_id):
    shards = random_shards([1000], max_token_id=max_token_id)
    shard = _chunked(
        write_corpus_of(tmp_path, shards, compression=codec, chunk_size=64, max_token_id=max_token_id)
    )
    chunks = shard.read(range(16))
    tokens = [_tokens(chunk) for chunk in chunks]
    assert [len(part) for part in tokens] == [64] * 15 + [40]
    assert np.array_equal(np.concatenate(tokens), tokens_of(shards))
    assert not chunks[0].stored.flags.writeable
    part = np.empty(3, chunks[7].dtype)
    chunks[7].fill(part, 10)
    assert np.array_equal(part, tokens[7][10:13])


class CountingShard(ChunkedShard):
    """Counts decoded chunks; everything else is the real thing."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.decoded = []

    def decode(self, stored):
        self.decoded += stored.numbers
        return super().decode(stored)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("cache_chunks", "second_pass"), [(0, (10, 10)), (4, (6, 10)), (10, (0, 0))])
def test_a_chunk_is_decoded_once_per_request_and_kept_within_bounds(
    tmp_path, threads, cache_chunks, second_pass
):
    shards = random_shards([160])
    index = write_corpus_of(tmp_path, shards, compression="gzip", chunk_size=16)
    shard = CountingShard(token_files(index, U16)[0], U16)
    decoded = DecodedChunks({0: shard}, threads=threads, cache_bytes=cache_chunks * 32)
    places = [(0, number) for number in range(10)]
    assert np.array_equal(
        np.concatenate([_tokens(chunk) for chunk in decoded.each(places)]), tokens_of(shards)
    )
    assert sorted(shard.decoded) == list(range(10))
    assert decoded.cached_bytes == cache_chunks * 32
    shard.decoded.clear()
    assert np.array_equal(
        np.concatenate([_tokens(chunk) for chunk in decoded.each(places)]), tokens_of(shards)
    )
    least, most = second_pass
    assert least <= len(shard.decoded) <= most


@pytest.mark.parametrize("locking", [None, False, True])
def test_a_shard_that_the_caller_has_open_can_be_read(tmp_path, locking):
    shards = random_shards([100])
    index = write_corpus_of(tmp_path, shards, compression="gzip")
    with (
        h5py.File(tmp_path / index.shards[0].path, "r", locking=locking),
        MmapTokenStore(index) as store,
    ):
        assert np.array_equal(store.get_slice(0, 100), tokens_of(shards))
        assert store.document_at(99).row >= 10


def test_the_least_recently_used_chunk_is_dropped(tmp_path):
    index = write_corpus_of(tmp_path, random_shards([64]), compression="zstd", chunk_size=16)
    shard = CountingShard(token_files(index, U16)[0], U16)
    decoded = DecodedChunks({0: shard}, threads=1, cache_bytes=64)  # two chunks
    for chunk in (0, 1, 0, 2, 0, 1):
        list(decoded.each([(0, chunk)]))
    assert shard.decoded == [0, 1, 2, 1]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_request_is_decoded_in_blocks_of_bounded_size(tmp_path, threads):
    chunk_size = BLOCK_BYTES // 2 // 8  # eight chunks to a block
    index = write_corpus_of(tmp_path, [[[5] * (20 * chunk_size)]], compression="zstd", chunk_size=chunk_size)
    shard = CountingShard(token_files(index, U16)[0], U16)
    decoded = DecodedChunks({0: shard}, threads=threads, cache_bytes=0)
    chunks = decoded.each([(0, number) for number in range(20)])
    next(chunks)
    assert sorted(shard.decoded) == list(range(8))
    assert len(list(chunks)) == 19


def _chunk_place(path, number, chunk_size):
    with h5py.File(path, "r") as file:
        found = file["tokens"].id.get_chunk_info_by_coord((number * chunk_size,))
        return found.byte_offset, found.size


@pytest.mark.parametrize("codec", CODECS)
def test_a_damaged_chunk_names_its_file_and_number(tmp_path, codec):
    index = write_corpus_of(tmp_path, [[[5] * 2000]], compression=codec, chunk_size=512)
    path = tmp_path / index.shards[0].path
    offset, size = _chunk_place(path, 2, 512)
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(b"\xff" * size)
    with MmapTokenStore(index) as store:
        assert store.get_slice(0, 1024).tolist() == [5] * 1024
        with pytest.raises(ShardError, match=r"s00000\.h5: chunk 2 cannot be decoded"):
            store.get_slice(1000, 1100)


@pytest.mark.parametrize("codec", ["gzip", "zstd", "zstd-dict"])
def test_a_chunk_that_unpacks_to_more_than_a_chunk_is_refused(tmp_path, codec):
    index = write_corpus_of(tmp_path, [[[5] * 2000]], compression=codec, chunk_size=512)
    path = tmp_path / index.shards[0].path
    bomb = bytes(50_000_000)
    packed = zlib.compress(bomb) if codec == "gzip" else zstandard.compress(bomb)
    with h5py.File(path, "r+") as file:
        file["tokens"].id.write_direct_chunk((512,), packed)
    grown = replace(index.shards[0], file_bytes=path.stat().st_size)
    with (
        MmapTokenStore(ShardIndex.of([grown], tmp_path)) as store,
        pytest.raises(ShardError, match=r"chunk 1 cannot be decoded: .*expected (1024|a multiple)"),
    ):
        store.get_slice(0, 600)


def test_a_file_that_is_no_shard_is_refused(tmp_path):
    index = write_corpus_of(tmp_path, random_shards([100]), compression="gzip")
    path = tmp_path / index.shards[0].path
    path.write_bytes(os.urandom(index.shards[0].file_bytes))
    with MmapTokenStore(index) as store, pytest.raises(ShardError, match=r"expected a token shard \(HDF5\)"):
        store.get_slice(0, 1)


@pytest.mark.parametrize(
    "changes",
    [{"chunk_size": 32}, {"token_count": 101}, {"dtype": "uint32"}],
)
def test_a_file_that_is_not_what_the_index_says_is_refused(tmp_path, changes):
    index = write_corpus_of(tmp_path, random_shards([100]), compression="gzip", chunk_size=16)
    other = ShardIndex.of([replace(index.shards[0], **changes)], tmp_path)
    with (
        MmapTokenStore(other) as store,
        pytest.raises(
            IndexMismatchError, match=r"tokens are 100 of uint16 in chunks of 16, shards.json says"
        ),
    ):
        store.get_slice(0, 1)
