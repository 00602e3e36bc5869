"""Rows about compressed shards: decoding in threads beside h5py on the same file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from corpus_assets.benchmarks.checked import check_windows
from corpus_assets.benchmarks.readers import HyperslabReader
from corpus_assets.benchmarks.records import BenchmarkRow, compared
from corpus_assets.benchmarks.sample import sample_windows, write_sample
from corpus_assets.benchmarks.timing import Work, measure_in_turns
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets.shards.records import ShardIndex, TokenizerInfo

BATCH_SIZE = 256
CODECS = ("gzip", "zstd")
CHUNK_SIZE = 16 * 1024
_BATCHES = 16
# As much as HDF5 2 keeps for a dataset.
_CACHE_BYTES = 8 * 1024 * 1024


def measure_compressed(
    tokens: np.ndarray, folder: Path, tokenizer: TokenizerInfo, *, window_size: int, repeats: int
) -> list[BenchmarkRow]:
    """Random, overlapping and sequential windows of gzip and zstd shards, on two threads where there are two.

    Windows in order go once through the sample, so that every chunk is decoded in its turn.

    Raises:
        WrongResultError: a reader returns other tokens than the plain slice.
    """
    rows = []
    for codec in CODECS:
        path = folder / f"{codec}.h5"
        record = write_sample(path, tokens, tokenizer, chunk_size=CHUNK_SIZE, compression=codec)
        index = ShardIndex.of([record], folder)
        rows += _rows_of(tokens, path, index, codec, length=window_size + 1, repeats=repeats)
    return rows


def _rows_of(
    tokens: np.ndarray, path: Path, index: ShardIndex, codec: str, *, length: int, repeats: int
) -> list[BenchmarkRow]:
    random = sample_windows(len(tokens), length, batches=_BATCHES, batch_size=BATCH_SIZE)
    last = len(tokens) - length
    orders = {
        "random": (random, 1.5),
        "overlapping": (_one_pass(last, stride=max(1, length // 8)), 5.0),
        "sequential": (_one_pass(last, stride=length), 5.0),
    }
    rows = []
    for order, (batches, target) in orders.items():
        with (
            MmapTokenStore(index, threads=min(2, os.cpu_count() or 1), cache_bytes=_CACHE_BYTES) as store,
            HyperslabReader(path) as hyperslab,
        ):
            check_windows(codec, store.gather(batches[0], length), tokens, batches[0])
            check_windows("h5py", hyperslab.windows(batches[0], length), tokens, batches[0])
            rates = measure_in_turns(
                {
                    "store": _each(batches, store.gather, length),
                    "h5py": _each(batches, hyperslab.windows, length),
                },
                repeats=repeats,
            )
        rows.append(
            compared(
                f"gather, {codec}, {order} windows, chunks of {CHUNK_SIZE}",
                rates["store"],
                "h5py hyperslabs",
                rates["h5py"],
                group="compressed",
                unit="windows/s",
                target=target,
                scale=BATCH_SIZE,
            )
        )
    return rows


def _each(batches: np.ndarray, read: Callable[[np.ndarray, int], np.ndarray], length: int) -> Work:
    return lambda call: read(batches[call % len(batches)], length)


def _one_pass(last: int, *, stride: int) -> np.ndarray:
    """(batches, batch_size) starts in order, `stride` apart, up to `last`; no chunk is cached from a pass before.

    Less than a batch of them begins again at 0.
    """
    batches = max(1, (last // stride + 1) // BATCH_SIZE)
    return (np.arange(batches * BATCH_SIZE) * stride % (last + 1)).reshape(batches, BATCH_SIZE)
