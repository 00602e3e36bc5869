"""Rows about reading uncompressed shards: the store beside memory, np.memmap and h5py."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import numpy as np

from corpus_assets.benchmarks.checked import check_windows
from corpus_assets.benchmarks.readers import HyperslabReader, MemmapReader, MemoryCopy
from corpus_assets.benchmarks.records import BenchmarkRow, compared
from corpus_assets.benchmarks.sample import sample_windows, split_shard, write_sample
from corpus_assets.benchmarks.timing import Work, measure_in_turns
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets.shards.records import ShardIndex, ShardInfo, TokenizerInfo

BATCH_SIZE = 256
FEW_SHARDS, MANY_SHARDS, MOST_SHARDS = 4, 4096, 10_000
_BATCHES = 512  # with as many no window is still in the processor's cache when it is read again


def measure_reading(
    tokens: np.ndarray, folder: Path, tokenizer: TokenizerInfo, *, window_size: int, repeats: int
) -> list[BenchmarkRow]:
    """Random windows and single slices with a warm page cache, and opening.

    Args:
        tokens: the sample corpus.
        folder: where its files are written.
        tokenizer: of the corpus.
        window_size: a window spans one token more.
        repeats: rounds of each.

    Raises:
        WrongResultError: a reader returns other tokens than the plain slice.
    """
    flat, shard = folder / "flat.bin", folder / "sample.h5"
    tokens.tofile(flat)
    record = write_sample(shard, tokens, tokenizer, chunk_size=64 * 1024, compression="none")
    indexes = {
        count: split_shard(record, folder, shard_count=min(count, len(tokens)))
        for count in (FEW_SHARDS, MANY_SHARDS, MOST_SHARDS)
    }
    rows = _warm_rows(tokens, flat, record, indexes, length=window_size + 1, repeats=repeats)
    rows.append(_opening_row(indexes[MOST_SHARDS], repeats=repeats))
    return rows


def _warm_rows(
    tokens: np.ndarray,
    flat: Path,
    record: ShardInfo,
    indexes: dict[int, ShardIndex],
    *,
    length: int,
    repeats: int,
) -> list[BenchmarkRow]:
    batches = sample_windows(len(tokens), length, batches=_BATCHES, batch_size=BATCH_SIZE)
    shard = indexes[FEW_SHARDS].root / record.path
    with ExitStack() as stack:
        few = stack.enter_context(MmapTokenStore(indexes[FEW_SHARDS]))
        many = stack.enter_context(MmapTokenStore(indexes[MANY_SHARDS]))
        hyperslab = stack.enter_context(HyperslabReader(shard))
        memmap = MemmapReader(flat, tokens.dtype)
        place = record.extents["tokens"]
        pages = np.memmap(shard, tokens.dtype, "r", offset=place, shape=tokens.shape)
        memory = MemoryCopy(np.asarray(pages), BATCH_SIZE * length)
        readers = {
            "gather": lambda starts: few.gather(starts, length),
            "many": lambda starts: many.gather(starts, length),
            "memmap": lambda starts: memmap.windows(starts, length),
            "hyperslab": lambda starts: hyperslab.windows(starts, length),
        }
        for name, reader in readers.items():
            check_windows(name, reader(batches[0]), tokens, batches[0])
            check_windows(name, reader(batches[-1]), tokens, batches[-1])
        ways: dict[str, Work] = {
            name: lambda call, reader=reader: reader(batches[call % _BATCHES])  # type: ignore[misc]
            for name, reader in readers.items()
        }
        ways["memory"] = lambda call: memory.copy(int(batches[call % _BATCHES, 0]))
        windows = measure_in_turns(ways, repeats=repeats)
        starts = batches.ravel().tolist()
        start = starts[0]
        check_windows("get_slice", few.get_slice(start, start + length)[None], tokens, batches[0, :1])
        slices = measure_in_turns(
            {
                "slice": lambda call: few.get_slice(s := starts[call % len(starts)], s + length),
                "hyperslab": lambda call: hyperslab.slice(s := starts[call % len(starts)], s + length),
            },
            repeats=repeats,
        )
    batch = f"gather, {BATCH_SIZE} windows of {length}"
    rows = [
        compared(
            name,
            windows[way],
            reference,
            windows[other],
            group="reading",
            unit="windows/s",
            target=target,
            scale=BATCH_SIZE,
        )
        for name, way, reference, other, target in (
            (batch, "gather", "np.memmap slices, stacked", "memmap", 8.0),
            (batch, "gather", "h5py hyperslabs", "hyperslab", 40.0),
            (batch, "gather", "contiguous copy of mapped pages", "memory", 0.3),
            (f"gather, {MANY_SHARDS} shards", "many", f"gather, {FEW_SHARDS} shards", "gather", 0.7),
        )
    ]
    rows.append(
        compared(
            f"get_slice of {length}",
            slices["slice"],
            "h5py hyperslab",
            slices["hyperslab"],
            group="reading",
            unit="slices/s",
            target=5.0,
        )
    )
    return rows


def _opening_row(index: ShardIndex, *, repeats: int) -> BenchmarkRow:
    """Opening checks and maps every shard; the index is loaded already."""
    rates = measure_in_turns({"open": lambda _: MmapTokenStore(index).close()}, repeats=repeats)
    count = len(index.shards)
    return BenchmarkRow(
        group="reading",
        name=f"open {count} shards",
        unit="shards/s",
        rate=rates["open"].median * count,
        reference=f"{MOST_SHARDS} a second",
        reference_rate=float(MOST_SHARDS),
        target=1.0,
        repeats=repeats,
    )
