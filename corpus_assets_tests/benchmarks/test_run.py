import numpy as np
import pytest

from corpus_assets.benchmarks.checked import WrongResultError
from corpus_assets.benchmarks.run import run_benchmarks
from corpus_assets.benchmarks.throughput import measure_throughput
from corpus_assets.errors import IndexMismatchError
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets_tests.loading.corpora import random_shards, write_corpus_of


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus_of(folder, random_shards([30_000, 0, 20_000]), chunk_size=512)
    return folder


def _files(root):
    return sorted(path.name for path in root.rglob("*") if path.is_file())


def test_every_row_of_the_table_is_measured(root):
    before = _files(root)
    rows = run_benchmarks(root, repeats=1, window_size=64, sample_size=60_000)
    assert _files(root) == before
    assert {row.group for row in rows} == {"reading", "loading", "cold", "compressed"}
    assert all(row.rate > 0 and row.repeats == 1 for row in rows)
    names = " | ".join(f"{row.name} / {row.reference}" for row in rows)
    for expected in (
        "gather, 256 windows of 65 / np.memmap slices, stacked",
        "gather, 256 windows of 65 / h5py hyperslabs",
        "gather, 256 windows of 65 / contiguous copy of mapped pages",
        "gather, 4096 shards / gather, 4 shards",
        "get_slice of 65 / h5py hyperslab",
        "open 10000 shards",
        "loader, 64 x 64 int64 / bare gather and cast",
        "prefetch",
        "get_slice in order, cold cache / plain reads of the file, cold cache",
        "random windows, cold cache",
        "gzip, random windows",
        "gzip, overlapping windows",
        "zstd, sequential windows",
    ):
        assert expected in names


def test_a_reader_that_returns_wrong_tokens_is_not_timed(root, monkeypatch):
    right = MmapTokenStore.gather

    def wrong(store, starts, length, **options):
        return right(store, np.roll(starts, 1), length, **options)

    monkeypatch.setattr(MmapTokenStore, "gather", wrong)
    with pytest.raises(WrongResultError, match="gather: the window at"):
        run_benchmarks(root, repeats=1, window_size=64, sample_size=60_000)


def test_throughput_varies_chunk_size_compression_and_cache(root):
    before = _files(root)
    rows = measure_throughput(root, 512)
    assert _files(root) == before
    assert [(row.chunk_size, row.compression, row.cache) for row in rows if row.as_built] == [
        (512, "none", "warm")
    ]
    varied = {(row.chunk_size, row.compression, row.cache) for row in rows if not row.as_built}
    assert varied == {
        (chunk, codec, cache)
        for chunk in (256, 512, 1024)
        for codec in ("none", "gzip")
        for cache in ("warm", "cold")
    }
    assert all(row.share_of_limit > 0 and row.limit > 0 for row in rows)


def test_a_compressed_corpus_is_compared_in_its_own_codec(tmp_path):
    index = write_corpus_of(tmp_path, random_shards([3000]), compression="zstd", chunk_size=256)
    rows = measure_throughput(index, 64, sample_size=5_000)
    assert {row.compression for row in rows} == {"none", "zstd"}
    rows = measure_throughput(index, 64, sample_size=5_000, compression="lzf")
    assert {row.compression for row in rows if not row.as_built} == {"none", "lzf"}


def test_a_corpus_shorter_than_a_window_is_measured_by_its_samples(tmp_path):
    index = write_corpus_of(tmp_path, random_shards([30]))
    rows = measure_throughput(index, 64, sample_size=5_000)
    assert not any(row.as_built for row in rows)
    assert len(rows) == 12


def test_a_corpus_without_tokens_cannot_be_measured(tmp_path):
    index = write_corpus_of(tmp_path, [[]])
    for measure in (run_benchmarks, lambda given: measure_throughput(given, 64)):
        with pytest.raises(IndexMismatchError, match="no tokens to measure with"):
            measure(index)


@pytest.mark.parametrize("options", [{"repeats": 0}, {"sample_size": 64, "window_size": 64}])
def test_nonsense_is_refused(root, options):
    with pytest.raises(ValueError, match="expected"):
        run_benchmarks(root, **options)
