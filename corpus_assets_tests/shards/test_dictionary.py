"""The codec with a dictionary: it pays or is left out, it is part of what is vouched for, and it may be hostile."""

from dataclasses import replace

import h5py
import numpy as np
import pytest
import zstandard

from corpus_assets import MmapTokenStore, load_index, validate_corpus
from corpus_assets.errors import ShardError
from corpus_assets.shards import layout
from corpus_assets.shards.contents import read_contents
from corpus_assets.shards.dictionary import ATTRIBUTE, MAX_BYTES, trained_dictionary
from corpus_assets.shards.index import publish_index
from corpus_assets.shards.records import ShardIndex
from corpus_assets.shards.seal import frame_digest, stretch_digest
from corpus_assets.shards.writer import HDF5ShardWriter
from corpus_assets_tests.loading.corpora import phrased_shards, random_shards, tokens_of, write_corpus_of

SHARDS = phrased_shards([30_000, 20_000])


@pytest.fixture
def index(tmp_path):
    return write_corpus_of(tmp_path / "corpus", SHARDS, compression="zstd-dict", chunk_size=64)


def dictionary_of(index):
    return bytes.fromhex(read_contents(_path(index), chunks_of="tokens").datasets["tokens"].dictionary)


def _path(index):
    return index.root / index.shards[0].path


def vouched(index):
    """The index as if the first shard's file had always been as it is."""
    first, *others = index.shards
    path, stretch = _path(index), (first.data_offset, first.data_bytes)
    forged = replace(
        first,
        file_bytes=path.stat().st_size,
        frame_sha256=frame_digest(path, *stretch),
        data_sha256=stretch_digest(path, *stretch),
    )
    publish_index(ShardIndex.of([forged, *others], index.root), index.root / "shards.json")
    return load_index(index.root)


def test_what_small_chunks_have_in_common_is_stored_once(index, tmp_path):
    plain = write_corpus_of(tmp_path / "plain", SHARDS, compression="zstd", chunk_size=64)
    assert index.fingerprint == plain.fingerprint
    for shard, other in zip(index.shards, plain.shards, strict=True):
        assert shard.data_bytes < 0.6 * other.data_bytes
        assert shard.file_bytes < other.file_bytes
    assert 256 <= len(dictionary_of(index)) <= 30_000 * 2 // 64
    with MmapTokenStore(index) as store:
        assert np.array_equal(store.get_slice(0, len(store)), tokens_of(SHARDS))
        starts = np.arange(0, 49_000, 777)
        assert np.array_equal(store.gather(starts, 100), tokens_of(SHARDS)[starts[:, None] + np.arange(100)])
    assert validate_corpus(index.root).ok


def test_the_same_content_has_the_same_dictionary_and_bytes(index, tmp_path):
    again = write_corpus_of(tmp_path / "again", SHARDS, compression="zstd-dict", chunk_size=64)
    assert _path(again).read_bytes() == _path(index).read_bytes()
    assert again.shards == index.shards


@pytest.mark.parametrize("shards", [phrased_shards([1000]), random_shards([30_000])], ids=["small", "noise"])
def test_a_dictionary_that_would_not_pay_is_left_out(tmp_path, shards):
    index = write_corpus_of(tmp_path / "a", shards, compression="zstd-dict", chunk_size=64)
    plain = write_corpus_of(tmp_path / "b", shards, compression="zstd", chunk_size=64)
    assert dictionary_of(index) == b""
    assert index.shards[0].data_bytes == plain.shards[0].data_bytes
    with MmapTokenStore(index) as store:
        assert np.array_equal(store.get_slice(0, len(store)), tokens_of(shards))


def test_a_dictionary_has_a_largest_size():
    generator = np.random.default_rng(0)
    phrases = [generator.bytes(500) for _ in range(400)]
    chunks = [b"".join(phrases[i] for i in generator.integers(0, 400, 8)) for _ in range(1200)]
    assert len(trained_dictionary(chunks, chunk_count=1200)) == MAX_BYTES


def test_every_field_has_a_dictionary_of_its_own(tmp_path):
    ids = tokens_of(phrased_shards([20_000]))[:-1]
    weights = np.append(ids, 0).astype(np.float32) / 7
    with HDF5ShardWriter(
        tmp_path / "a.h5", fields={"weight": "f4"}, compression="zstd-dict", chunk_size=64
    ) as writer:
        writer.add_document(ids % 256 + 1, fields={"weight": weights})
        info = writer.close()
    datasets = read_contents(tmp_path / "a.h5").datasets
    assert datasets["tokens"].dictionary_bytes >= 256
    assert datasets["fields/weight"].dictionary_bytes >= 256
    with MmapTokenStore(ShardIndex.of([info], tmp_path)) as store:
        assert np.array_equal(store.gather_fields(["weight"], [0], len(store))["weight"][0], weights)


def test_it_is_read_as_the_format_says(index):
    """With HDF5, zstd and NumPy alone, as docs/format.md has it."""
    with h5py.File(_path(index)) as file:
        tokens = file["tokens"]
        with pytest.raises(OSError, match=r"33015|plugin|filter"):
            tokens[:1]
        dictionary = zstandard.ZstdCompressionDict(tokens.attrs["zstd_dictionary"].tobytes())
        frames = zstandard.ZstdDecompressor(dict_data=dictionary)
        _, frame = tokens.id.read_direct_chunk((64,))
        low, high = np.frombuffer(frames.decompress(frame), np.uint8).reshape(2, 64).astype(np.uint16)
    assert np.array_equal(low + 256 * high, tokens_of(SHARDS)[64:128])


def test_a_flipped_bit_is_found(index):
    path, first = _path(index), index.shards[0]
    sound = path.read_bytes()
    dictionary = dictionary_of(index)
    place = sound.index(dictionary)
    for offset, check in (
        (place + 5, "frame_digest"),  # its id
        (place + len(dictionary) // 2, "frame_digest"),
        (place + len(dictionary) - 1, "frame_digest"),
        (first.data_offset + 20, "digest"),
        (first.data_offset + first.data_bytes - 1, "digest"),
    ):
        path.write_bytes(sound[:offset] + bytes([sound[offset] ^ 4]) + sound[offset + 1 :])
        assert [finding.check for finding in validate_corpus(index.root).findings] == [check]


def _another(file):
    generator = np.random.default_rng(1)
    chunks = [generator.integers(0, 8, 128, np.uint8).tobytes() for _ in range(800)]
    trained = zstandard.train_dictionary(1024, chunks, k=64, d=6).as_bytes()
    file["tokens"].attrs[ATTRIBUTE] = np.frombuffer(trained, np.uint8)


def _broken(file):
    values = file["tokens"].attrs[ATTRIBUTE]
    values[8:120] = 255
    file["tokens"].attrs[ATTRIBUTE] = values


def _absent(file):
    del file["tokens"].attrs[ATTRIBUTE]


def _too_long(file):
    file["tokens"].attrs[ATTRIBUTE] = np.zeros(MAX_BYTES + 1, np.uint8)


def _no_bytes(file):
    file["tokens"].attrs[ATTRIBUTE] = np.zeros(400)


def _bomb(file):
    file["tokens"].id.write_direct_chunk((0,), zstandard.compress(bytes(100_000_000)))


def _no_frame(file):
    file["tokens"].id.write_direct_chunk((0,), b"(\xb5/\xfd" + b"\xff" * 60)


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (_another, "mismatch"),
        (_broken, "dictionary is damaged"),
        (_absent, "mismatch"),
        (_too_long, r"is \(49153,\) of uint8, expected at most 49152"),
        (_no_bytes, "expected at most 49152 of uint8"),
        (_bomb, "holds 100000000 bytes, expected 128"),
        (_no_frame, "cannot be decoded"),
    ],
)
def test_a_hostile_dictionary_or_frame_is_refused(index, forge, message):
    with h5py.File(_path(index), "r+") as file:
        forge(file)
    forged = vouched(index)
    with MmapTokenStore(forged) as store:
        with pytest.raises(ShardError, match=message):
            store.get_slice(0, 64)
        assert np.array_equal(store.get_slice(30_000, 50_000), tokens_of(SHARDS)[30_000:])
    assert validate_corpus(index.root).failed_shards == ["s00000"]


def test_a_chunk_that_passed_no_filter_is_read(index):
    """As any HDF5 writer may store one."""
    raw = tokens_of(SHARDS)[:64].astype("<u2").tobytes()
    with h5py.File(_path(index), "r+") as file:
        file["tokens"].id.write_direct_chunk((0,), raw, filter_mask=0b11)
    with layout.open_file(_path(index)) as file:
        assert np.array_equal(layout.read(file["tokens"], 1, 130), tokens_of(SHARDS)[1:130])
    with MmapTokenStore(vouched(index)) as store:
        assert np.array_equal(store.get_slice(0, 130), tokens_of(SHARDS)[:130])
