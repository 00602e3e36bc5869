"""Rows about reading a corpus whose pages are on disk only: each round drops them first."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from corpus_assets.benchmarks.checked import check_windows
from corpus_assets.benchmarks.records import BenchmarkRow, compared
from corpus_assets.benchmarks.sample import drop_cached_pages, sample_windows, split_shard, write_sample
from corpus_assets.benchmarks.timing import Rates
from corpus_assets.loading.advice import Access
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets.shards.records import ShardIndex, TokenizerInfo

BATCH_SIZE = 256
_RANDOM_BATCHES = 8
_COPIES = 8  # of the sample, so that the wait for the first bytes is a small part
_BLOCK_TOKENS = 1024 * 1024


def measure_cold(
    tokens: np.ndarray, folder: Path, tokenizer: TokenizerInfo, *, window_size: int, repeats: int
) -> list[BenchmarkRow]:
    """Sequential slices beside plain reads of the same file, and the first random windows with both advices.

    Raises:
        WrongResultError: the store returns other tokens than the plain slice.
    """
    path, length = folder / "cold.h5", window_size + 1
    tokens = np.tile(tokens, _COPIES)
    record = write_sample(path, tokens, tokenizer, chunk_size=64 * 1024, compression="none")
    index = split_shard(record, folder, shard_count=4)
    batches = sample_windows(len(tokens), length, batches=_RANDOM_BATCHES, batch_size=BATCH_SIZE)
    with MmapTokenStore(index) as store:
        check_windows("get_slice", store.get_slice(0, len(tokens))[None], tokens, np.zeros(1, np.int64))
        check_windows("gather", store.gather(batches[0], length), tokens, batches[0])
    ways: dict[str, Callable[[], float]] = {
        "store": lambda: _read_in_order(index),
        "file": lambda: _read_plainly(path),
        "normal": lambda: _read_at_random(index, batches, length, access="normal"),
        "random": lambda: _read_at_random(index, batches, length, access="random"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, work in ways.items():
            drop_cached_pages([path])
            seconds[name].append(work())
    path.unlink()
    rates = {name: Rates(tuple(1 / value for value in values)) for name, values in seconds.items()}
    return [
        compared(
            "get_slice in order, cold cache",
            rates["store"],
            "plain reads of the file, cold cache",
            rates["file"],
            group="cold",
            unit="MB/s",
            target=0.8,
            scale=tokens.nbytes / 1e6,
        ),
        compared(
            f"gather, first {batches.size} random windows, cold cache, read-ahead off",
            rates["random"],
            "the same with read-ahead",
            rates["normal"],
            group="cold",
            unit="windows/s",
            target=None,
            scale=batches.size,
        ),
    ]


def _read_in_order(index: ShardIndex) -> float:
    with MmapTokenStore(index) as store:
        store.advise("sequential")
        began = time.perf_counter()
        for start in range(0, len(store), _BLOCK_TOKENS):
            store.get_slice(start, min(start + _BLOCK_TOKENS, len(store)))
        return time.perf_counter() - began


def _read_plainly(path: Path) -> float:
    """What `dd bs=1M` does."""
    buffer = bytearray(1024 * 1024)
    with path.open("rb", buffering=0) as file:
        began = time.perf_counter()
        while file.readinto(buffer):
            pass
        return time.perf_counter() - began


def _read_at_random(index: ShardIndex, batches: np.ndarray, length: int, *, access: Access) -> float:
    with MmapTokenStore(index) as store:
        store.advise(access)
        began = time.perf_counter()
        for starts in batches:
            store.gather(starts, length)
        return time.perf_counter() - began
