"""Small corpora written by the project's own writer, for tests that read them back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from corpus_assets.shards.index import INDEX, publish_index
from corpus_assets.shards.records import ShardIndex, TokenizerInfo
from corpus_assets.shards.writer import HDF5ShardWriter

BOUNDARY = 0


def tokenizer_info(max_token_id: int = 60_000) -> TokenizerInfo:
    return TokenizerInfo(
        name="test",
        fingerprint=f"test-{max_token_id}",
        boundary_id=BOUNDARY,
        max_token_id=max_token_id,
        canary_ids=(1, 2),
    )


def write_corpus_of(
    root: Path,
    shards: Sequence[Sequence[Sequence[int]]],
    *,
    compression: str | Sequence[str] = "none",
    chunk_size: int = 16,
    max_token_id: int = 60_000,
) -> ShardIndex:
    """A corpus at `root` whose shards hold the given documents, its index published."""
    root.mkdir(parents=True, exist_ok=True)
    codecs = [compression] * len(shards) if isinstance(compression, str) else compression
    records = []
    for number, (documents, codec) in enumerate(zip(shards, codecs, strict=True)):
        with HDF5ShardWriter(
            root / f"s{number:05d}.h5",
            tokenizer=tokenizer_info(max_token_id),
            window_size=4,
            chunk_size=chunk_size,
            compression=codec,
        ) as writer:
            for row, document in enumerate(documents):
                writer.add_document(document, row=10 + 2 * row)
            records.append(writer.close())
    index = ShardIndex.of(records, root)
    publish_index(index, root / INDEX)
    return index


def tokens_of(shards: Sequence[Sequence[Sequence[int]]]) -> np.ndarray:
    """The flat stream that `shards` must read back as."""
    flat = [token for documents in shards for document in documents for token in [*document, BOUNDARY]]
    return np.array(flat, np.int64)


def random_shards(
    sizes: Sequence[int], *, seed: int = 0, max_token_id: int = 60_000
) -> list[list[list[int]]]:
    """Shards of exactly `sizes` tokens, boundaries included, in documents of about 20 tokens."""
    generator = np.random.default_rng(seed)
    shards = []
    for size in sizes:
        documents, left = [], size
        while left:
            length = min(left, int(generator.integers(1, 40)))
            documents.append(generator.integers(1, max_token_id, length - 1).tolist())
            left -= length
        shards.append(documents)
    return shards


def phrased_shards(sizes: Sequence[int], *, max_token_id: int = 60_000) -> list[list[list[int]]]:
    """Shards of `sizes` tokens whose documents are put together of the same ten phrases of 30 random tokens.

    One chunk of 64 tokens says little of the next: what a dictionary is for.
    """
    generator = np.random.default_rng(0)
    phrases = generator.integers(1, max_token_id, (10, 30))
    chosen = [phrases[generator.integers(0, 10, size // 30 + 1)].reshape(-1)[:size] for size in sizes]
    return [
        [tokens[start : start + 99].tolist() for start in range(0, len(tokens), 100)] for tokens in chosen
    ]
