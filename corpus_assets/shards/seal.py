"""Seal a grown shard: one file, each uncompressed dataset in one run, digests taken on the way."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import h5py
import numpy as np

from corpus_assets.errors import ShardError
from corpus_assets.shards import layout
from corpus_assets.shards.records import FORMAT_VERSION, Ledger, ShardInfo, TokenizerInfo

if TYPE_CHECKING:
    from corpus_assets.shards.writer import ShardOrigin

BLOCK_BYTES = 8 * 1024 * 1024


def seal_shard(
    grown: h5py.File,
    path: Path,
    *,
    origin: ShardOrigin,
    tokenizer: TokenizerInfo,
    ledger: Ledger,
    window_size: int,
    compression: str,
    record_path: str,
) -> ShardInfo:
    """Copy the datasets of `grown` into the new file `path` and return its record.

    `complete` is the last attribute written. The same content gives the same bytes.
    """
    tokens = grown[layout.TOKENS]
    chunk = tokens.chunks[0]
    crc_count = -(-len(tokens) // chunk)
    shapes = {
        name: (grown[name].dtype, grown[name].chunks[0])
        for name in (layout.TOKENS, layout.DOCUMENT_ENDS, layout.DOCUMENT_ROWS)
    } | {layout.TOKEN_CRC32: (np.dtype(np.uint32), layout.INDEX_CHUNK)}
    chunk_count = sum(-(-len(grown[name]) // grown[name].chunks[0]) for name in list(shapes)[:3]) + 1
    sha256 = hashlib.sha256()
    crc32 = np.empty(crc_count, dtype=np.uint32)
    with layout.create_sealed(path, shapes, chunk_count + crc_count // layout.INDEX_CHUNK) as file:
        for name in (layout.TOKENS, layout.DOCUMENT_ENDS, layout.DOCUMENT_ROWS):
            source = grown[name]
            target = layout.create_dataset(
                file,
                name,
                source.dtype,
                length=len(source),
                chunk=source.chunks[0],
                compression=compression if name == layout.TOKENS else "none",
            )
            for start, block in blocks_of(source):
                layout.write_padded(target, start, block)
                if name == layout.TOKENS:
                    sha256.update(block.data)
                    first = start // chunk
                    checksums = chunk_checksums(block, chunk)
                    crc32[first : first + len(checksums)] = checksums
        checks = layout.create_dataset(
            file, layout.TOKEN_CRC32, crc32.dtype, length=crc_count, chunk=layout.INDEX_CHUNK
        )
        if crc_count:
            layout.write_padded(checks, 0, crc32)
        _write_attributes(
            file,
            origin=origin,
            tokenizer=tokenizer,
            ledger=ledger,
            window_size=window_size,
            sha256=sha256.hexdigest(),
        )
        extents = {name: offset for name in shapes if (offset := layout.run_offset(file[name])) is not None}
    if compression == "none" and len(tokens) and layout.TOKENS not in extents:
        raise ShardError(f"{path}: HDF5 did not lay the tokens out in one run")
    return ShardInfo(
        key=origin.key,
        input_name=origin.input_name,
        input_sha256=origin.input_sha256,
        input_bytes=origin.input_bytes,
        path=record_path,
        build=origin.build,
        file_bytes=path.stat().st_size,
        dtype=tokens.dtype.name,
        token_count=len(tokens),
        document_count=len(grown[layout.DOCUMENT_ENDS]),
        sha256=sha256.hexdigest(),
        frame_sha256=frame_digest(path, extents.get(layout.TOKENS, 0), _run_bytes(tokens, extents)),
        window_size=window_size,
        chunk_size=chunk,
        compression=compression,
        extents=extents,
        tokenizer=tokenizer,
        ledger=ledger,
    )


def _run_bytes(tokens: h5py.Dataset, extents: dict[str, int]) -> int:
    return len(tokens) * tokens.dtype.itemsize if layout.TOKENS in extents else 0


def _write_attributes(
    file: h5py.File,
    *,
    origin: ShardOrigin,
    tokenizer: TokenizerInfo,
    ledger: Ledger,
    window_size: int,
    sha256: str,
) -> None:
    tokens = file[layout.TOKENS]
    tokens.attrs["token_count"] = np.int64(len(tokens))
    attributes = {
        "format_version": FORMAT_VERSION,
        "key": origin.key,
        "build": origin.build,
        "input_name": origin.input_name,
        "input_sha256": origin.input_sha256,
        "input_fingerprint": origin.input_sha256,
        "input_bytes": origin.input_bytes,
        "tokenizer_name": tokenizer.name,
        "tokenizer_fingerprint": tokenizer.fingerprint,
        "max_token_id": tokenizer.max_token_id,
        "boundary_id": tokenizer.boundary_id,
        "canary_ids": np.array(tokenizer.canary_ids, dtype=np.int64),
        "window_size": window_size,
        "token_count": len(tokens),
        "document_count": len(file[layout.DOCUMENT_ENDS]),
        "sha256": sha256,
        "ledger": json.dumps(asdict(ledger), sort_keys=True),
    }
    for name, value in attributes.items():
        file.attrs[name] = value
    file.attrs["complete"] = True


def blocks_of(dataset: h5py.Dataset) -> Iterator[tuple[int, np.ndarray]]:
    """The dataset in portions of whole chunks, about `BLOCK_BYTES` each, with their start positions."""
    chunk = dataset.chunks[0]
    step = max(1, BLOCK_BYTES // (chunk * dataset.dtype.itemsize)) * chunk
    for start in range(0, len(dataset), step):
        yield start, dataset[start : start + step]


def chunk_checksums(block: np.ndarray, chunk: int) -> list[int]:
    """CRC-32 of the bytes of each chunk of `block`, the last one as short as it is."""
    data = block.data.cast("B")
    step = chunk * block.dtype.itemsize
    return [zlib.crc32(data[start : start + step]) for start in range(0, len(data), step)]


def frame_digest(path: Path, run_offset: int, run_bytes: int) -> str:
    """sha256 of a shard's bytes, the run of tokens aside: they have a digest of their own."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        _update(digest, file, run_offset)
        file.seek(run_offset + run_bytes)
        _update(digest, file, path.stat().st_size)
    return digest.hexdigest()


def _update(digest: hashlib._Hash, file: BinaryIO, limit: int) -> None:
    while limit > 0 and (block := file.read(min(limit, BLOCK_BYTES))):
        digest.update(block)
        limit -= len(block)
