"""Sample corpora for measuring: the tokens of a real corpus, laid out as a measurement needs them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from corpus_assets.loading.store import MmapTokenStore
from corpus_assets.shards.publish import scratch_folder
from corpus_assets.shards.records import ShardIndex, ShardInfo, TokenizerInfo
from corpus_assets.tokenizers.protocol import EncodedDocuments


@contextmanager
def sample_folder(root: Path) -> Iterator[Path]:
    """A folder in the corpus's scratch, so on the same disk, where that is writable; gone afterwards."""
    place = scratch_folder(root) if os.access(root, os.W_OK) else None
    with TemporaryDirectory(prefix="bench-", dir=place) as folder:
        yield Path(folder)


def sample_tokens(store: MmapTokenStore, count: int) -> np.ndarray:
    """(count,) first tokens of the corpus, repeated where it has fewer; the last one is a boundary."""
    tokens = np.resize(store.get_slice(0, min(count, len(store))), count)
    tokens[-1] = store.boundary_id
    return tokens


def write_sample(
    path: Path, tokens: np.ndarray, tokenizer: TokenizerInfo, *, chunk_size: int, compression: str
) -> ShardInfo:
    """A shard of its own that holds `tokens`, which end with a boundary."""
    from corpus_assets.shards.writer import HDF5ShardWriter

    ends = np.flatnonzero(tokens == tokenizer.boundary_id) + 1
    with HDF5ShardWriter(
        path,
        tokenizer=tokenizer,
        chunk_size=chunk_size,
        compression=compression,
        expected_tokens=len(tokens),
        scratch=path.parent,
    ) as writer:
        writer.add_documents(EncodedDocuments(ids=tokens, ends=ends), range(len(ends)))
        return writer.close()


def split_shard(shard: ShardInfo, root: Path, *, shard_count: int) -> ShardIndex:
    """An index that reads one uncompressed shard as `shard_count` shards of nearly equal size.

    Each is opened and mapped as a shard file of its own would be.
    """
    bounds = [shard.token_count * i // shard_count for i in range(shard_count + 1)]
    first, itemsize = shard.extents["tokens"], np.dtype(shard.dtype).itemsize
    parts = [
        replace(
            shard,
            key=f"{number:06d}",
            token_count=stop - start,
            extents={"tokens": first + start * itemsize},
        )
        for number, (start, stop) in enumerate(pairwise(bounds))
    ]
    return ShardIndex.of(parts, root)


def drop_cached_pages(paths: Sequence[Path]) -> None:
    """Write the files back and drop their pages from the page cache; nobody may have them mapped."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def sample_windows(token_count: int, length: int, *, batches: int, batch_size: int) -> np.ndarray:
    """(batches, batch_size) int64 random window starts, the same ones every time."""
    generator = np.random.default_rng(0)
    return generator.integers(0, token_count - length + 1, (batches, batch_size))
