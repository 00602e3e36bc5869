"""Rows about the loader end to end: beside the bare work, and beside torch's DataLoader where torch is installed."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np

from corpus_assets.benchmarks.checked import WrongResultError, check_windows
from corpus_assets.benchmarks.records import BenchmarkRow, compared
from corpus_assets.benchmarks.sample import sample_windows, split_shard, write_sample
from corpus_assets.benchmarks.timing import Work, measure_in_turns
from corpus_assets.loading.loader import SlidingWindowDataloader
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets.shards.records import TokenizerInfo

BATCH_SIZE = 64
# So many that the bare work finds its windows as seldom in the cache as the loader does.
_BATCHES = 8192
_OVERLAPPED_BATCHES = 100
_OVERLAPPED_ROUNDS = 5  # for each repeat: a round is so short that one stall decides it


def measure_loading(
    tokens: np.ndarray, folder: Path, tokenizer: TokenizerInfo, *, window_size: int, repeats: int
) -> list[BenchmarkRow]:
    """Batches of 64 windows as int64 (input_ids, target_ids).

    Raises:
        WrongResultError: a loader returns other tokens than the plain slice.
    """
    path, length = folder / "loading.bin", window_size + 1
    tokens.tofile(path)
    shard = folder / "loading.h5"
    record = write_sample(shard, tokens, tokenizer, chunk_size=64 * 1024, compression="none")
    index = split_shard(record, folder, shard_count=4)
    starts = sample_windows(len(tokens), length, batches=_BATCHES, batch_size=BATCH_SIZE)
    with (
        MmapTokenStore(index) as store,
        SlidingWindowDataloader(store, window_size, BATCH_SIZE, seed=0) as loader,
        SlidingWindowDataloader(store, window_size, BATCH_SIZE, seed=0, order="sequential") as ordered,
    ):
        _check_loader(ordered, tokens, window_size)
        ways: dict[str, Work] = {
            "loader": lambda _: next(loader),
            "bare": lambda call: _gather_and_cast(store, starts[call % _BATCHES], length),
        }
        torch_batches = _torch_batches(path, tokens, window_size)
        if torch_batches is not None:
            ways["torch"] = lambda _: next(torch_batches)
        rates = measure_in_turns(ways, repeats=repeats)
        busy = [_busy_share(store, window_size) for _ in range(_OVERLAPPED_ROUNDS * repeats)]
    references = [("bare gather and cast", "bare", 0.5)]
    if torch_batches is not None:
        references.append(("torch DataLoader over np.memmap", "torch", 8.0))
    rows = [
        compared(
            f"loader, {BATCH_SIZE} x {window_size} int64",
            rates["loader"],
            reference,
            rates[way],
            group="loading",
            unit="windows/s",
            target=target,
            scale=BATCH_SIZE,
        )
        for reference, way, target in references
    ]
    rows.append(
        BenchmarkRow(
            group="loading",
            name="prefetch, a trainer that computes as long as a batch takes to load",
            unit="share of the time computing",
            rate=float(np.median(busy)),
            reference="never waiting",
            reference_rate=1.0,
            target=0.95,
            repeats=repeats,
        )
    )
    return rows


def _gather_and_cast(store: MmapTokenStore, starts: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    windows = store.gather(starts, length)
    return windows[:, :-1].astype(np.int64), windows[:, 1:].astype(np.int64)


def _check_loader(ordered: SlidingWindowDataloader, tokens: np.ndarray, window_size: int) -> None:
    inputs, targets = next(ordered)
    starts = np.arange(BATCH_SIZE) % ordered.window_count * window_size
    check_windows("loader inputs", inputs, tokens, starts)
    check_windows("loader targets", targets, tokens, starts + 1)


def _busy_share(store: MmapTokenStore, window_size: int) -> float:
    """Share of the time in which a trainer computes that needs as long for a batch as loading it takes."""
    with SlidingWindowDataloader(store, window_size, BATCH_SIZE, seed=1) as direct:
        next(direct)
        began = time.perf_counter()
        for _ in range(_OVERLAPPED_BATCHES):
            next(direct)
        load = (time.perf_counter() - began) / _OVERLAPPED_BATCHES
    with SlidingWindowDataloader(store, window_size, BATCH_SIZE, seed=1, prefetch=4) as ahead:
        next(ahead)
        waited, began = 0.0, time.perf_counter()
        for _ in range(_OVERLAPPED_BATCHES):
            time.sleep(load)  # the device computes; its host thread waits for it
            asked = time.perf_counter()
            next(ahead)
            waited += time.perf_counter() - asked
        return 1 - waited / (time.perf_counter() - began)


def _torch_batches(path: Path, tokens: np.ndarray, window_size: int) -> Any:
    """Endless batches of torch's DataLoader over np.memmap; None where torch is not installed.

    Torch is looked up by name: it is what is compared with, not a part of this library.
    """
    if importlib.util.find_spec("torch") is None:
        return None
    torch = importlib.import_module("torch")
    data = importlib.import_module("torch.utils.data")
    stored = np.memmap(path, tokens.dtype, "r")

    class Windows(data.Dataset):  # type: ignore[name-defined]
        """One window per item, as the tutorials write it."""

        def __len__(self) -> int:
            return len(stored) // window_size - 1

        def __getitem__(self, item: int) -> Any:
            start, stop = item * window_size, (item + 1) * window_size
            inputs = torch.from_numpy(stored[start:stop].astype(np.int64))
            return inputs, torch.from_numpy(stored[start + 1 : stop + 1].astype(np.int64))

    inputs, _ = Windows()[3]
    if not np.array_equal(inputs.numpy(), tokens[3 * window_size : 4 * window_size]):
        raise WrongResultError("torch: the window is not the corpus's")
    loader = data.DataLoader(Windows(), batch_size=BATCH_SIZE, shuffle=True, drop_last=True)
    return itertools.chain.from_iterable(itertools.repeat(loader))
