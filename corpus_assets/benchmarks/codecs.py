"""What each codec costs and saves at each chunk size, on the tokens of a real corpus."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from corpus_assets.benchmarks.checked import WrongResultError, check_windows
from corpus_assets.benchmarks.sample import sample_folder, sample_tokens, sample_windows, write_sample
from corpus_assets.benchmarks.timing import DEFAULT_REPEATS, Rates, Work, measure_in_turns
from corpus_assets.errors import IndexMismatchError
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets.shards.contents import read_contents
from corpus_assets.shards.records import ShardIndex, ShardInfo, TokenizerInfo

CODECS = ("none", "gzip", "lzf", "zstd", "zstd-dict", "blosc2")
CHUNK_SIZES = (4 * 1024, 16 * 1024, 64 * 1024)
SAMPLE_TOKENS = 4 * 1024 * 1024
WINDOW_SIZE = 1024
BATCH_SIZE = 16
WRITE_SECONDS = 15.0
_BATCHES = 64
# A corpus is larger than any cache: few of the sample's chunks may stay decoded.
_CACHE_SHARE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecRow:
    """One codec at one chunk size.

    Attributes:
        codec: `none`, `gzip`, `lzf`, `zstd`, `zstd-dict` or `blosc2`.
        chunk_size: tokens that are compressed together.
        write_rate: MB of tokens per second into a finished shard, hashed and synced; one thread.
        relative_size: stored bytes, a dictionary included, over those of `none` at the same chunk size.
        windows_per_second: random windows, through a store with a small cache.
        sequential_rate: MB of tokens per second, read in order.
        write_repeats: counted rounds of writing.
        read_repeats: counted rounds of reading.
    """

    codec: str
    chunk_size: int
    write_rate: float
    relative_size: float
    windows_per_second: float
    sequential_rate: float
    write_repeats: int
    read_repeats: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    """The tokens in one codec and chunk size, written once and proven to be read back."""

    codec: str
    chunk_size: int
    path: Path
    record: ShardInfo

    @property
    def name(self) -> str:
        return f"{self.codec}, chunks of {self.chunk_size}"

    @property
    def stored_bytes(self) -> int:
        """Of the tokens: their chunks, and the dictionary that these need to be read."""
        tokens = read_contents(self.path).datasets["tokens"]
        return tokens.stored_bytes + tokens.dictionary_bytes


def measure_corpus_codecs(
    index_path: str | os.PathLike[str] | ShardIndex,
    *,
    chunk_sizes: Sequence[int] = CHUNK_SIZES,
    repeats: int = DEFAULT_REPEATS,
    window_size: int = WINDOW_SIZE,
    sample_size: int = SAMPLE_TOKENS,
) -> list[CodecRow]:
    """`measure_codecs` on the first `sample_size` tokens of a corpus, in a scratch folder that is gone afterwards.

    Raises:
        IndexMismatchError: not a readable corpus, or one without tokens.
        WrongResultError: a sample is not read back as it was written; nothing is timed then.
    """
    with MmapTokenStore(index_path) as store:
        tokenizer, root = store.index.tokenizer, store.index.root
        if tokenizer is None or not len(store):
            raise IndexMismatchError(f"{root}: the corpus has no tokens to measure with")
        tokens = sample_tokens(store, sample_size)
    with sample_folder(root) as folder:
        return measure_codecs(
            tokens, folder, tokenizer, chunk_sizes=chunk_sizes, repeats=repeats, window_size=window_size
        )


def measure_codecs(
    tokens: np.ndarray,
    folder: Path,
    tokenizer: TokenizerInfo,
    *,
    chunk_sizes: Sequence[int] = CHUNK_SIZES,
    repeats: int = DEFAULT_REPEATS,
    window_size: int = WINDOW_SIZE,
) -> list[CodecRow]:
    """How fast each codec is written and read at each chunk size, and what it saves.

    Every sample is read back and compared with `tokens` before anything is timed. All are timed in turns. With
    the default sample it takes about half a minute: writing stops after `WRITE_SECONDS`, however slow a codec is.

    Args:
        tokens: (T,) what to write; the last one is a boundary.
        folder: scratch, on the disk to measure.
        tokenizer: of the tokens.
        chunk_sizes: tokens per chunk.
        repeats: rounds of each row; of writing, as many as there is time for, one at least.
        window_size: inputs per random window.

    Raises:
        WrongResultError: a sample is not read back as it was written.
    """
    length = window_size + 1
    if length > len(tokens):
        raise ValueError(f"tokens: found {len(tokens)}, expected at least one window of {length}")
    samples = [
        _written(folder, tokens, tokenizer, codec=codec, chunk_size=chunk_size)
        for chunk_size in chunk_sizes
        for codec in CODECS
    ]
    for sample in samples:
        _check(sample, tokens, length)
    written = _write_rates(samples, tokens, tokenizer, repeats)
    read = _read_rates(samples, tokens, length, repeats)
    plain = {sample.chunk_size: sample.stored_bytes for sample in samples if sample.codec == "none"}
    megabytes = tokens.nbytes / 1e6
    return [
        CodecRow(
            codec=sample.codec,
            chunk_size=sample.chunk_size,
            write_rate=written[sample.name].median * megabytes,
            relative_size=sample.stored_bytes / plain[sample.chunk_size],
            windows_per_second=read[f"{sample.name}, random"].median * BATCH_SIZE,
            sequential_rate=read[f"{sample.name}, sequential"].median
            * _block(tokens)
            * tokens.itemsize
            / 1e6,
            write_repeats=len(written[sample.name].rounds),
            read_repeats=repeats,
        )
        for sample in samples
    ]


def _written(
    folder: Path, tokens: np.ndarray, tokenizer: TokenizerInfo, *, codec: str, chunk_size: int
) -> _Sample:
    path = folder / f"codec-{codec}-{chunk_size}.h5"
    record = write_sample(path, tokens, tokenizer, chunk_size=chunk_size, compression=codec)
    return _Sample(codec=codec, chunk_size=chunk_size, path=path, record=record)


def _check(sample: _Sample, tokens: np.ndarray, length: int) -> None:
    starts = sample_windows(len(tokens), length, batches=1, batch_size=BATCH_SIZE)[0]
    with _opened(sample, tokens) as store:
        if not np.array_equal(store.get_slice(0, len(tokens)), tokens):
            raise WrongResultError(f"{sample.name}: the tokens in order are not the corpus's")
        check_windows(sample.name, store.gather(starts, length), tokens, starts)


def _opened(sample: _Sample, tokens: np.ndarray) -> MmapTokenStore:
    index = ShardIndex.of([sample.record], sample.path.parent)
    threads = min(2, os.cpu_count() or 1)
    return MmapTokenStore(index, threads=threads, cache_bytes=tokens.nbytes // _CACHE_SHARE)


def _write_rates(
    samples: Sequence[_Sample], tokens: np.ndarray, tokenizer: TokenizerInfo, repeats: int
) -> dict[str, Rates]:
    """Writes per second of each sample, in turns, in rounds that begin within WRITE_SECONDS."""
    rounds: dict[str, list[float]] = {sample.name: [] for sample in samples}
    end = time.perf_counter() + WRITE_SECONDS
    for number in range(repeats):
        if number and time.perf_counter() > end:
            break
        for sample in samples:
            path = sample.path.with_suffix(".again.h5")
            began = time.perf_counter()
            write_sample(path, tokens, tokenizer, chunk_size=sample.chunk_size, compression=sample.codec)
            rounds[sample.name].append(1 / (time.perf_counter() - began))
            path.unlink()
    return {name: Rates(tuple(values)) for name, values in rounds.items()}


def _read_rates(
    samples: Sequence[_Sample], tokens: np.ndarray, length: int, repeats: int
) -> dict[str, Rates]:
    """Batches of random windows per second and blocks in order per second, of each sample."""
    ways: dict[str, Work] = {}
    with ExitStack() as stores:
        for sample in samples:
            store = stores.enter_context(_opened(sample, tokens))
            ways[f"{sample.name}, random"] = _random(store, len(tokens), length)
            ways[f"{sample.name}, sequential"] = _sequential(store, _block(tokens))
        return measure_in_turns(ways, repeats=repeats)


def _random(store: MmapTokenStore, token_count: int, length: int) -> Work:
    batches = sample_windows(token_count, length, batches=_BATCHES, batch_size=BATCH_SIZE)
    return lambda call: store.gather(batches[call % _BATCHES], length)


def _sequential(store: MmapTokenStore, block: int) -> Work:
    starts = range(0, len(store) - block + 1, block)

    def read(call: int) -> np.ndarray:
        start = starts[call % len(starts)]
        return store.get_slice(start, start + block)

    return read


def _block(tokens: np.ndarray) -> int:
    """Tokens of one sequential read: several chunks of any size, and several reads to a sample."""
    return max(1, len(tokens) // 16)
