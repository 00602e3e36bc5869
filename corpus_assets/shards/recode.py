"""The same corpus in another codec or chunk size, proven to be the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

from corpus_assets.errors import ConfigError, IndexMismatchError, ShardError
from corpus_assets.shards import layout
from corpus_assets.shards.build import BUILD_LENGTH
from corpus_assets.shards.columns import combined_digest
from corpus_assets.shards.copying import copy_datasets
from corpus_assets.shards.index import INDEX, SHARDS, current_shard, load_index, publish_record, write_index
from corpus_assets.shards.inspection import ShardInspector
from corpus_assets.shards.lease import lease
from corpus_assets.shards.publish import published
from corpus_assets.shards.records import ShardIndex, ShardInfo, ShardOrigin
from corpus_assets.shards.seal import seal_shard, stretch_digest

_BLOCK_ITEMS = 1024 * 1024


def recode_corpus(
    source_index: str | Path,
    target_root: str | Path,
    *,
    compression: str,
    chunk_size: int | None = None,
    on_shard: Callable[[ShardInfo], None] | None = None,
) -> ShardIndex:
    """Copy a corpus into a root of its own, stored another way; its fingerprint stays the same.

    Every shard is read back from its new file and compared with the recorded digests before it is
    published. A call that was interrupted goes on where it was. Memory does not grow with the corpus.

    Args:
        source_index: shards.json of the corpus, or its folder.
        target_root: the folder of the copy; new, or that of an earlier call.
        compression: `none`, `gzip`, `lzf`, `zstd`, `zstd-dict` or `blosc2`.
        chunk_size: tokens per chunk; default: that of each shard.
        on_shard: called with each shard that is there.

    Raises:
        ConfigError: the folder is that of the source, lies inside it or around it, or holds another corpus.
        ShardError: a source shard is damaged, or a copy is not what its source is.
    """
    index = load_index(source_index)
    root = Path(target_root).absolute()
    _refuse_other_corpus(index, root)
    for info in index.shards:
        copy = _recode_shard(index.root, info, root, compression, chunk_size or info.chunk_size)
        if on_shard is not None:
            on_shard(copy)
    recoded = write_index(root, [shard.key for shard in index.shards])
    if recoded.fingerprint != index.fingerprint:
        raise IndexMismatchError(
            f"{root}: fingerprint is {recoded.fingerprint}, expected {index.fingerprint}"
        )
    return recoded


def _refuse_other_corpus(index: ShardIndex, root: Path) -> None:
    source = index.root.resolve()
    target = root.resolve()
    if source == target or source in target.parents or target in source.parents:
        raise ConfigError(f"{root}: overlaps the corpus at {index.root}, expected a folder of its own")
    if (root / INDEX).exists() and (found := load_index(root).fingerprint) != index.fingerprint:
        raise ConfigError(f"{root}: holds the corpus {found}, expected none or {index.fingerprint}")


def _recode_shard(
    source_root: Path, info: ShardInfo, root: Path, compression: str, chunk_size: int
) -> ShardInfo:
    identity = hashlib.sha256(f"{info.build}\n{info.sha256}\n{compression}\n{chunk_size}".encode())
    build = identity.hexdigest()[:BUILD_LENGTH]
    found = current_shard(root, info.key)
    if found is not None and found.build == build and found.sha256 == info.sha256:
        return found
    if findings := list(ShardInspector(source_root, info).quick()):
        raise ShardError(findings[0].message)
    source = source_root / info.path
    # HDF5 decodes it in this process: every byte has to be one that was sealed.
    if (stored := stretch_digest(source, info.data_offset, info.data_bytes)) != info.data_sha256:
        raise ShardError(
            f"{source}: sha256 of the stored tokens is {stored}, shards.json says {info.data_sha256}"
        )
    path = root / SHARDS / f"{info.key}-{build}.h5"
    with lease(root, info.key) as scratch:
        with published(path, scratch=scratch) as draft:
            copy_datasets(source, draft, compression=compression, chunk_size=chunk_size)
            _prove(source, draft, info)
            copy = seal_shard(
                draft,
                record_path=path.relative_to(root).as_posix(),
                origin=ShardOrigin(
                    key=info.key,
                    input_name=info.input_name,
                    input_sha256=info.input_sha256,
                    input_bytes=info.input_bytes,
                    build=build,
                ),
                tokenizer=info.tokenizer,
                ledger=info.ledger,
                window_size=info.window_size,
                compression=compression,
                sha256=info.sha256,
                fields={name: np.dtype(dtype) for name, dtype in info.fields.items()},
                spans=info.spans,
                column_sha256=info.column_sha256,
                format=info.format,
            )
        publish_record(root, copy, scratch=scratch)
    return copy


def _prove(source: Path, draft: Path, info: ShardInfo) -> None:
    """Raise ShardError unless the datasets of `draft`, read back, are those of `source` and of its record."""
    before, behind = _digests(source), _digests(draft)
    for name in before.keys() | behind.keys():
        if before.get(name) != behind.get(name):
            raise ShardError(f"{source}: the copy of {name} differs from it")
    tokens = behind[layout.TOKENS].hex()
    if tokens != info.sha256:
        raise ShardError(f"{source}: sha256 of the tokens is {tokens}, shards.json says {info.sha256}")
    columns = combined_digest(info.fields, info.spans, behind)
    if columns != info.column_sha256:
        raise ShardError(f"{source}: digest of fields and spans is {columns}, expected {info.column_sha256}")


def _digests(path: Path) -> dict[str, bytes]:
    """sha256 of the values of each dataset but the checksums of chunks, which differ with their size."""
    with layout.open_file(path) as file:
        return {
            name: _digest(item) for name, item in layout.datasets(file).items() if name != layout.TOKEN_CRC32
        }


def _digest(dataset: h5py.Dataset) -> bytes:
    digest = hashlib.sha256()
    for start in range(0, len(dataset), _BLOCK_ITEMS):
        digest.update(np.ascontiguousarray(layout.read(dataset, start, start + _BLOCK_ITEMS)).data)
    return digest.digest()
