"""Seal a shard that was written: attributes, places and the digest of all that is not tokens."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

import h5py
import numpy as np

from corpus_assets.errors import ShardError
from corpus_assets.shards import layout
from corpus_assets.shards.records import FORMAT_VERSION, TEXT, Ledger, ShardInfo, ShardOrigin, TokenizerInfo

HASH_BLOCK = 512 * 1024  # stays in the cache from reading to the digest


def seal_shard(
    path: Path,
    *,
    record_path: str,
    origin: ShardOrigin,
    tokenizer: TokenizerInfo,
    ledger: Ledger,
    window_size: int,
    compression: str,
    sha256: str,
    fields: Mapping[str, np.dtype],
    spans: Sequence[str],
    column_sha256: str,
    format: str,
) -> ShardInfo:
    """Complete the file at `path`, whose datasets are written, and return its record.

    `complete` is the last attribute written. The same content gives the same bytes.

    Raises:
        ShardError: HDF5 did not lay the tokens of an uncompressed shard out in one run.
    """
    with layout.reopen_file(path) as file:
        tokens = file[layout.TOKENS]
        token_count, dtype, chunk = len(tokens), tokens.dtype, tokens.chunks[0]
        document_count = len(file[layout.DOCUMENT_ENDS])
        tokens.attrs["token_count"] = np.int64(token_count)
        _write_attributes(
            file,
            {
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
                "token_count": token_count,
                "document_count": document_count,
                "sha256": sha256,
                "fields": json.dumps({name: dtype.name for name, dtype in fields.items()}),
                "spans": json.dumps(list(spans)),
                "column_sha256": column_sha256,
                "ledger": json.dumps(asdict(ledger), sort_keys=True),
                # Absent for texts: their shards are, byte for byte, what they were before there were formats.
                **({} if format == TEXT else {"format": format}),
                "complete": True,
            },
        )
        offsets = {name: layout.run_offset(item) for name, item in layout.datasets(file).items()}
        data_offset, data_bytes = layout.data_stretch(tokens, offsets[layout.TOKENS])
    extents = {name: offset for name, offset in offsets.items() if offset is not None}
    if compression == "none" and token_count and layout.TOKENS not in extents:
        raise ShardError(f"{path}: HDF5 did not lay the tokens out in one run; use larger chunks")
    mapped = layout.TOKENS in extents
    return ShardInfo(
        key=origin.key,
        input_name=origin.input_name,
        input_sha256=origin.input_sha256,
        input_bytes=origin.input_bytes,
        path=record_path,
        build=origin.build,
        file_bytes=path.stat().st_size,
        dtype=dtype.name,
        token_count=token_count,
        document_count=document_count,
        sha256=sha256,
        data_offset=data_offset,
        data_bytes=data_bytes,
        data_sha256=sha256 if mapped else stretch_digest(path, data_offset, data_bytes),
        frame_sha256=frame_digest(path, data_offset, data_bytes),
        window_size=window_size,
        chunk_size=chunk,
        compression=compression,
        extents=extents,
        tokenizer=tokenizer,
        ledger=ledger,
        fields={name: dtype.name for name, dtype in fields.items()},
        spans=tuple(spans),
        column_sha256=column_sha256,
        format=format,
    )


def _write_attributes(file: h5py.File, attributes: dict[str, object]) -> None:
    for name, value in attributes.items():
        file.attrs[name] = value


def frame_digest(path: Path, data_offset: int, data_bytes: int) -> str:
    """sha256 of a shard's bytes, the stretch of token chunks aside: it has a digest of its own."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        _update(digest, file, data_offset)
        file.seek(data_offset + data_bytes)
        _update(digest, file, path.stat().st_size)
    return digest.hexdigest()


def stretch_digest(path: Path, offset: int, length: int) -> str:
    """sha256 of the bytes [offset, offset + length) of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        file.seek(offset)
        _update(digest, file, length)
    return digest.hexdigest()


def _update(digest: hashlib._Hash, file: BinaryIO, limit: int) -> None:
    while limit > 0 and (block := file.read(min(limit, HASH_BLOCK))):
        digest.update(block)
        limit -= len(block)
