from dataclasses import replace

import numpy as np
import pytest

from corpus_assets.benchmarks import codecs
from corpus_assets.benchmarks.checked import WrongResultError
from corpus_assets.benchmarks.codecs import CODECS, measure_codecs, measure_corpus_codecs
from corpus_assets.errors import IndexMismatchError
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets.shards.records import info_of
from corpus_assets.tokenizers import load_tokenizer
from corpus_assets_tests.loading.corpora import random_shards, write_corpus_of


@pytest.fixture
def tokenizer():
    return info_of(load_tokenizer("byte"))


def repeated(count: int) -> np.ndarray:
    """(count,) the same 64 tokens over and over: every codec makes less of them."""
    tokens = np.resize(np.arange(1, 65, dtype=np.uint16), count)
    tokens[-1] = 0
    return tokens


def test_every_codec_is_measured_at_every_chunk_size(tmp_path, tokenizer):
    rows = measure_codecs(
        repeated(65_536), tmp_path, tokenizer, chunk_sizes=(1024, 4096), repeats=1, window_size=64
    )
    assert [(row.codec, row.chunk_size) for row in rows] == [
        (codec, size) for size in (1024, 4096) for codec in CODECS
    ]
    for row in rows:
        assert row.write_rate > 0
        assert row.windows_per_second > 0
        assert row.sequential_rate > 0
        assert (row.write_repeats, row.read_repeats) == (1, 1)


def test_sizes_are_relative_to_none_at_the_same_chunk_size(tmp_path, tokenizer):
    noise = np.random.default_rng(0).integers(1, 257, 65_536, dtype=np.uint16)
    noise[-1] = 0
    size = {}
    for name, tokens in (("repeated", repeated(65_536)), ("noise", noise)):
        folder = tmp_path / name
        folder.mkdir()
        rows = measure_codecs(tokens, folder, tokenizer, chunk_sizes=(4096,), repeats=1, window_size=64)
        size |= {(name, row.codec): row.relative_size for row in rows}
    assert size["repeated", "none"] == size["noise", "none"] == 1
    for codec in CODECS[1:]:
        assert size["repeated", codec] < 0.2  # 64 tokens, once
        assert 0.4 < size["noise", codec] < 1.2  # 8 of 16 bits say nothing


def test_a_codec_that_is_read_back_wrong_is_not_timed(tmp_path, tokenizer, monkeypatch):
    right = MmapTokenStore.get_slice

    def wrong(store, *arguments, **options):
        return right(store, *arguments, **options)[::-1].copy()

    monkeypatch.setattr(MmapTokenStore, "get_slice", wrong)
    with pytest.raises(WrongResultError, match="none, chunks of 1024: the tokens in order are not"):
        measure_codecs(repeated(8192), tmp_path, tokenizer, chunk_sizes=(1024,), repeats=1, window_size=64)


def test_writing_ends_after_its_time_and_every_codec_was_written(tmp_path, tokenizer, monkeypatch):
    monkeypatch.setattr(codecs, "WRITE_SECONDS", 0)
    rows = measure_codecs(repeated(8192), tmp_path, tokenizer, chunk_sizes=(1024,), repeats=3, window_size=64)
    assert [(row.write_repeats, row.read_repeats) for row in rows] == [(1, 3)] * len(CODECS)


def test_a_corpus_is_measured_and_left_as_it_was(tmp_path):
    index = write_corpus_of(tmp_path, random_shards([30_000, 0, 20_000]), chunk_size=512)
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    rows = measure_corpus_codecs(tmp_path, chunk_sizes=(512,), repeats=1, window_size=64, sample_size=60_000)
    assert {row.codec for row in rows} == set(CODECS)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before
    with pytest.raises(IndexMismatchError, match="no tokens to measure with"):
        measure_corpus_codecs(replace(index, shards=()))


def test_a_sample_shorter_than_a_window_is_refused(tmp_path, tokenizer):
    with pytest.raises(ValueError, match="expected at least one window of 65"):
        measure_codecs(repeated(64), tmp_path, tokenizer, repeats=1, window_size=64)
