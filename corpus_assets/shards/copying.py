"""Writes what a shard holds into a new file: in order, each dataset in one run, in any codec and chunk size."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

from corpus_assets.shards import layout
from corpus_assets.shards.columns import TokenColumn
from corpus_assets.shards.dictionary import CODEC, SAMPLE_BYTES, trained_dictionary
from corpus_assets.shards.dictionary_chunks import shuffled

_BLOCK_ITEMS = 1024 * 1024


def copy_datasets(source_path: Path, target: Path, *, compression: str, chunk_size: int) -> None:
    """Write the datasets of a shard into the new file `target`, one after the other, the tokens first.

    Args:
        source_path: a shard, sealed or not.
        target: it must not exist.
        compression: of the tokens and of what is aligned with them.
        chunk_size: tokens per chunk.
    """
    with layout.open_file(source_path) as source:
        present = layout.datasets(source)
        chunks = {
            name: chunk_size if layout.is_aligned(name) else item.chunks[0] for name, item in present.items()
        }
        with layout.create_file(
            target,
            [chunks[name] * item.dtype.itemsize for name, item in present.items()],
            chunk_count=sum(-(-len(item) // chunks[name]) for name, item in present.items()),
            compression=compression,
        ) as file:
            copies = {
                name: _dataset(file, name, item, compression=compression, chunk=chunks[name])
                for name, item in present.items()
            }
            tokens = TokenColumn(copies[layout.TOKENS])
            for start in range(0, len(present[layout.TOKENS]), _BLOCK_ITEMS):
                tokens.append(layout.read(present[layout.TOKENS], start, start + _BLOCK_ITEMS))
            tokens.finish()
            for name, item in present.items():
                if name == layout.TOKEN_CRC32:
                    layout.extend(copies[name], np.array(tokens.checksums, dtype=item.dtype))
                elif name != layout.TOKENS:
                    step = max(1, _BLOCK_ITEMS // chunks[name]) * chunks[name]
                    for start in range(0, len(item), step):
                        layout.extend(copies[name], layout.read(item, start, start + step))


def _dataset(
    file: h5py.File, name: str, source: h5py.Dataset, *, compression: str, chunk: int
) -> h5py.Dataset:
    if not layout.is_aligned(name):
        return layout.create_dataset(file, name, source.dtype, chunk=chunk)
    dictionary = _dictionary(source, chunk) if compression == CODEC else b""
    return layout.create_dataset(
        file, name, source.dtype, chunk=chunk, compression=compression, dictionary=dictionary
    )


def _dictionary(source: h5py.Dataset, chunk: int) -> bytes:
    """A dictionary for the values of `source` in chunks of this size, made of some from all over it."""
    count = len(source) // chunk
    sampled = min(count, max(1, SAMPLE_BYTES // (chunk * source.dtype.itemsize)))
    starts = [number * count // sampled * chunk for number in range(sampled)]
    samples = [shuffled(layout.read(source, start, start + chunk)) for start in starts]
    return trained_dictionary(samples, chunk_count=count)
