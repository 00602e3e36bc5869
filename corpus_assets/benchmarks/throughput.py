"""measure_throughput: how chunk size, compression and the page cache change a corpus's loading rate."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from corpus_assets.benchmarks.checked import check_windows
from corpus_assets.benchmarks.readers import MemoryCopy
from corpus_assets.benchmarks.records import ThroughputRow
from corpus_assets.benchmarks.sample import drop_cached_pages, sample_folder, sample_tokens, write_sample
from corpus_assets.benchmarks.timing import DEFAULT_REPEATS, measure_in_turns
from corpus_assets.errors import IndexMismatchError
from corpus_assets.loading.loader import SlidingWindowDataloader
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets.shards.records import ShardIndex, ShardInfo

SAMPLE_TOKENS = 512 * 1024
MAX_CHUNKS = 2048
BATCH_SIZE = 64
_ROUND_SECONDS = 0.015
_COLD_ROUNDS = 3


def measure_throughput(
    index_path: str | os.PathLike[str] | ShardIndex,
    window_size: int,
    *,
    compression: str | None = None,
    sample_size: int = SAMPLE_TOKENS,
) -> list[ThroughputRow]:
    """Windows per second through the loader: the corpus as it is built, then samples of it written anew.

    The samples have chunks of half the window, the window and twice the window, plain and compressed, each read
    with a warm and a cold page cache. Takes about three seconds whatever the size of the corpus. The corpus itself
    is only measured warm: dropping its pages would slow down whoever trains on it.

    Args:
        index_path: shards.json, its folder, or a loaded index.
        window_size: inputs per window.
        compression: codec of the compressed samples; default: the corpus's own, gzip for a plain one.
        sample_size: tokens to write anew, repeated from the corpus where it has fewer.

    Raises:
        IndexMismatchError: not a readable corpus, or one without tokens.
        WrongResultError: the loader returns other tokens than the plain slice; it is not timed then.
    """
    with MmapTokenStore(index_path) as store:
        index = store.index
        if index.tokenizer is None or not len(store):
            raise IndexMismatchError(f"{index.root}: the corpus has no tokens to measure with")
        half = max(1, window_size // 2)
        tokens = sample_tokens(store, max(min(sample_size, MAX_CHUNKS * half), 4 * window_size))
        built = next(shard for shard in index.shards if shard.token_count)
        rows = []
        if len(store) > window_size:
            rows.append(_warm(store, built, window_size, as_built=True))
    codec = compression or (built.compression if built.compression != "none" else "gzip")
    with sample_folder(index.root) as folder:
        for name in ("none", codec):
            for chunk_size in (half, window_size, 2 * window_size):
                path = folder / f"{name}-{chunk_size}.h5"
                record = write_sample(path, tokens, index.tokenizer, chunk_size=chunk_size, compression=name)
                rows += _warm_and_cold(path, record, tokens, window_size)
    return rows


def _warm_and_cold(
    path: Path, record: ShardInfo, tokens: np.ndarray, window_size: int
) -> list[ThroughputRow]:
    sample = ShardIndex.of([record], path.parent)
    cold = [_cold_seconds(path, sample, window_size) for _ in range(_COLD_ROUNDS)]
    with MmapTokenStore(sample) as store:
        _check(store, tokens, window_size)
        warm = _warm(store, record, window_size, as_built=False)
    return [
        warm,
        ThroughputRow(
            chunk_size=record.chunk_size,
            compression=record.compression,
            cache="cold",
            as_built=False,
            windows_per_second=BATCH_SIZE / float(np.median(cold)),
            limit=warm.limit,
        ),
    ]


def _warm(store: MmapTokenStore, shard: ShardInfo, window_size: int, *, as_built: bool) -> ThroughputRow:
    """The loader beside a plain copy in memory of a finished batch, in turns."""
    batch = np.zeros(2 * BATCH_SIZE * window_size, np.int64)
    memory = MemoryCopy(batch, len(batch))
    with SlidingWindowDataloader(store, window_size, BATCH_SIZE, seed=0) as loader:
        ways: dict[str, Callable[[int], object]] = {
            "loader": lambda _: next(loader),
            "memory": lambda _: memory.copy(0),
        }
        rates = measure_in_turns(ways, repeats=DEFAULT_REPEATS, round_seconds=_ROUND_SECONDS)
    return ThroughputRow(
        chunk_size=shard.chunk_size,
        compression=shard.compression,
        cache="warm",
        as_built=as_built,
        windows_per_second=rates["loader"].median * BATCH_SIZE,
        limit=rates["memory"].median * BATCH_SIZE,
    )


def _cold_seconds(path: Path, sample: ShardIndex, window_size: int) -> float:
    """Seconds for the first batch after the file's pages were dropped, the opening not counted."""
    with MmapTokenStore(sample) as store:
        loader = SlidingWindowDataloader(store, window_size, BATCH_SIZE, seed=0)
        drop_cached_pages([path])
        began = time.perf_counter()
        next(loader)
        return time.perf_counter() - began


def _check(store: MmapTokenStore, tokens: np.ndarray, window_size: int) -> None:
    loader = SlidingWindowDataloader(store, window_size, BATCH_SIZE, seed=0, order="sequential")
    starts = np.arange(BATCH_SIZE) % loader.window_count * window_size
    check_windows("loader", next(loader)[0], tokens, starts)
