"""run_benchmarks: every row of the table, on the tokens of a real corpus."""

from __future__ import annotations

import os
from collections.abc import Callable

from corpus_assets.benchmarks.building import measure_building
from corpus_assets.benchmarks.cold import measure_cold
from corpus_assets.benchmarks.compressed import measure_compressed
from corpus_assets.benchmarks.loading import measure_loading
from corpus_assets.benchmarks.reading import measure_reading
from corpus_assets.benchmarks.records import BenchmarkRow
from corpus_assets.benchmarks.sample import sample_folder, sample_tokens
from corpus_assets.benchmarks.timing import DEFAULT_REPEATS
from corpus_assets.errors import IndexMismatchError
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets.shards.records import ShardIndex

WINDOW_SIZE = 1024
SAMPLE_TOKENS = 32 * 1024 * 1024


def run_benchmarks(
    index_path: str | os.PathLike[str] | ShardIndex,
    *,
    repeats: int = DEFAULT_REPEATS,
    window_size: int = WINDOW_SIZE,
    sample_size: int = SAMPLE_TOKENS,
    building: bool = False,
    on_stage: Callable[[str], None] | None = None,
) -> list[BenchmarkRow]:
    """Reading and loading, warm and cold, plain and compressed, each beside what it is compared with.

    Measures copies of the first `sample_size` tokens of the corpus, repeated where it has fewer, in a scratch folder
    that is gone afterwards; the corpus itself is read once and its pages stay cached.

    Args:
        index_path: shards.json, its folder, or a loaded index.
        repeats: rounds of each row; the median is reported.
        window_size: inputs per window.
        sample_size: tokens to measure with; at least one window.
        building: also build shards of the standard library's sources, and train a tokenizer for it, which takes
            minutes.
        on_stage: called with a few words when a stage begins.

    Raises:
        IndexMismatchError: not a readable corpus, or one without tokens.
        WrongResultError: something returns other tokens than the plain slice; it is not timed then.
    """
    if repeats < 1:
        raise ValueError(f"repeats is {repeats}, expected 1 or more")
    if sample_size <= window_size:
        raise ValueError(f"sample_size is {sample_size}, expected more than the window_size, {window_size}")
    tell = on_stage or (lambda _: None)
    tell("reading the tokens to measure with")
    with MmapTokenStore(index_path) as store:
        tokenizer = store.index.tokenizer
        if tokenizer is None or not len(store):
            raise IndexMismatchError(f"{store.index.root}: the corpus has no tokens to measure with")
        tokens = sample_tokens(store, sample_size)
        root = store.index.root
    with sample_folder(root) as folder:
        tell("measuring random windows")
        rows = measure_reading(tokens, folder, tokenizer, window_size=window_size, repeats=repeats)
        tell("measuring loaders")
        rows += measure_loading(tokens, folder, tokenizer, window_size=window_size, repeats=repeats)
        tell("measuring with a cold page cache")
        rows += measure_cold(tokens, folder, tokenizer, window_size=window_size, repeats=repeats)
        tell("measuring compressed shards")
        rows += measure_compressed(tokens, folder, tokenizer, window_size=window_size, repeats=repeats)
        if building:
            tell("training a tokenizer and measuring builds, which takes minutes")
            rows += measure_building(folder / "building", repeats=repeats)
    return rows
