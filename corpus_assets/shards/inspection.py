"""Look at one token shard and say everything that is wrong with it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from corpus_assets.errors import ShardError
from corpus_assets.shards import layout
from corpus_assets.shards.records import TEXT, ShardInfo
from corpus_assets.shards.seal import frame_digest, stretch_digest

# After these the bytes are not where the record says, and there is nothing to hash.
_HOPELESS = ("file", "frame_digest", "format", "token_count", "dtype", "document_count", "extents")
_HASH_BLOCK = 256 * 1024  # stays in the cache between the digest and the other looks at it


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        shard: key of the shard; None for the index as a whole.
        check: short name of what was compared.
        message: where, found, expected.
        token_range: first and past-the-last token of the shard that is affected, where known.
    """

    shard: str | None
    check: str
    message: str
    token_range: tuple[int, int] | None = None


class ShardInspector:
    """Compares one shard file with its record; yields findings instead of raising."""

    def __init__(self, root: Path, info: ShardInfo) -> None:
        self._info = info
        self._path = root / info.path

    def quick(self) -> Iterator[Finding]:
        """Size, all bytes but the tokens, attributes, shapes and places.

        HDF5 may hang or crash on damaged metadata, so it only sees files whose digest is right.
        """
        info = self._info
        try:
            size = self._path.stat().st_size
            if size != info.file_bytes:
                yield self._finding("file", f"is {size} bytes, expected {info.file_bytes}")
            elif frame_digest(self._path, info.data_offset, info.data_bytes) != info.frame_sha256:
                yield self._finding("frame_digest", "bytes outside the tokens changed (index, attributes)")
            else:
                with layout.open_file(self._path) as file:
                    yield from self._attributes(file)
                    yield from self._shapes(file)
        except OSError as error:
            what = error.strerror or str(error)
            yield self._finding("file", f"{what}, expected {info.file_bytes} readable bytes")
        except (KeyError, ValueError, RuntimeError, TypeError) as error:
            yield self._finding("format", f"not a readable token shard: {error}")

    def full(self) -> Iterator[Finding]:
        """`quick`, then every byte: digests, ids in range, boundaries where documents end."""
        quick = list(self.quick())
        yield from quick
        if any(finding.check in _HOPELESS for finding in quick):
            return
        info = self._info
        try:
            if layout.TOKENS not in info.extents:
                found = stretch_digest(self._path, info.data_offset, info.data_bytes)
                if found != info.data_sha256:
                    yield self._finding(
                        "digest", f"sha256 of the chunks is {found}, expected {info.data_sha256}"
                    )
                    return
            with layout.open_file(self._path) as file:
                yield from self._tokens(file)
        except (OSError, KeyError, ValueError, RuntimeError, TypeError) as error:
            yield self._finding("format", f"cannot be read to its end: {error}")

    def _finding(self, check: str, message: str, token_range: tuple[int, int] | None = None) -> Finding:
        return Finding(
            shard=self._info.key, check=check, message=f"{self._path}: {message}", token_range=token_range
        )

    def _attributes(self, file: h5py.File) -> Iterator[Finding]:
        info = self._info
        if not file.attrs.get("complete"):
            yield self._finding("complete", "has no `complete` mark, expected a sealed shard")
        expected = {
            "format_version": info.format_version,
            "key": info.key,
            "build": info.build,
            "input_name": info.input_name,
            "input_sha256": info.input_sha256,
            "input_bytes": info.input_bytes,
            "tokenizer_name": info.tokenizer.name,
            "tokenizer_fingerprint": info.tokenizer.fingerprint,
            "max_token_id": info.tokenizer.max_token_id,
            "boundary_id": info.tokenizer.boundary_id,
            "token_count": info.token_count,
            "document_count": info.document_count,
            "sha256": info.sha256,
            "fields": json.dumps(info.fields),
            "spans": json.dumps(list(info.spans)),
            "column_sha256": info.column_sha256,
            "format": None if info.format == TEXT else info.format,
            "ledger": json.dumps(asdict(info.ledger), sort_keys=True),
        }
        for name, value in expected.items():
            if (found := file.attrs.get(name)) != value:
                yield self._finding("attributes", f"{name} is {found!r}, shards.json says {value!r}")

    def _shapes(self, file: h5py.File) -> Iterator[Finding]:
        info = self._info
        tokens = file[layout.TOKENS]
        found_count = tokens.attrs.get("token_count")
        if found_count != info.token_count or len(tokens) < info.token_count:
            yield self._finding(
                "token_count",
                f"holds {found_count} tokens of {len(tokens)}, shards.json says {info.token_count}",
            )
        if tokens.dtype != np.dtype(info.dtype):
            yield self._finding("dtype", f"tokens are {tokens.dtype}, shards.json says {info.dtype}")
        for name in (layout.DOCUMENT_ENDS, layout.DOCUMENT_ROWS):
            if len(file[name]) != info.document_count:
                yield self._finding(
                    "document_count", f"{name} has {len(file[name])} entries, expected {info.document_count}"
                )
        for name in info.fields:
            if (length := len(file[f"{layout.FIELDS}/{name}"])) != info.token_count:
                yield self._finding("fields", f"{name} has {length} values for {info.token_count} tokens")
        if (ledger := info.ledger).documents != info.document_count or not ledger.balances:
            yield self._finding("ledger", f"{ledger} does not balance with {info.document_count} documents")
        for name, offset in info.extents.items():
            if (found := layout.run_offset(file[name])) != offset:
                yield self._finding("extents", f"{name} lies at {found}, shards.json says {offset}")

    def _tokens(self, file: h5py.File) -> Iterator[Finding]:
        info, boundary = self._info, self._info.tokenizer.boundary_id
        digest, ends = hashlib.sha256(), _Ends(file[layout.DOCUMENT_ENDS])
        start, misplaced, largest = 0, 0, 0
        for block in self._token_blocks(file):
            digest.update(block.data)
            last_tokens = ends.up_to(start + len(block)) - 1 - start
            at_ends = block[last_tokens[last_tokens >= 0]]
            found = int(np.count_nonzero(block == boundary))
            misplaced += int(np.count_nonzero(at_ends != boundary)) + abs(found - len(last_tokens))
            largest = max(largest, int(block.max(initial=0)))
            start += len(block)
        if digest.hexdigest() != info.sha256:
            yield from self._damaged_chunks(file, digest.hexdigest())
        if largest > info.tokenizer.max_token_id:
            yield self._finding(
                "ids", f"largest id is {largest}, expected at most {info.tokenizer.max_token_id}"
            )
        if misplaced:
            yield self._finding("boundaries", f"{misplaced} boundary tokens and document ends disagree")
        ends.up_to(2**62)
        if not ends.increasing or ends.last != info.token_count:
            yield self._finding(
                "document_ends", f"expected to increase to {info.token_count}; the last is {ends.last}"
            )

    def _token_blocks(self, file: h5py.File) -> Iterator[np.ndarray]:
        info = self._info
        offset = info.extents.get(layout.TOKENS)
        if offset is None:
            dataset = file[layout.TOKENS]
            step = max(1, _HASH_BLOCK // dataset.chunks[0]) * dataset.chunks[0]
            for start in range(0, info.token_count, step):
                yield dataset[start : min(start + step, info.token_count)]
            return
        tokens = np.memmap(self._path, dtype=info.dtype, mode="r", offset=offset, shape=(info.token_count,))
        step = _HASH_BLOCK // tokens.itemsize
        for start in range(0, info.token_count, step):
            yield np.asarray(tokens[start : start + step])

    def _damaged_chunks(self, file: h5py.File, found: str) -> Iterator[Finding]:
        import zlib

        info, tokens = self._info, file[layout.TOKENS]
        checksums = file[layout.TOKEN_CRC32][:]
        damaged = []
        for number, expected in enumerate(checksums):
            start = number * info.chunk_size
            stop = min(start + info.chunk_size, info.token_count)
            if zlib.crc32(tokens[start:stop].data) != expected:
                damaged.append((start, stop))
        message = f"sha256 of the tokens is {found}, shards.json says {info.sha256}"
        for token_range in damaged or [(0, info.token_count)]:
            place = f"; damaged between tokens {token_range[0]} and {token_range[1]}"
            yield self._finding("digest", message + place, token_range)


class _Ends:
    """Walks `document_ends` once, in step with the tokens; remembers whether it always increases."""

    def __init__(self, dataset: h5py.Dataset) -> None:
        self._dataset = dataset
        self._position = 0
        self._block = np.empty(0, dtype=np.int64)
        self.last = 0
        self.increasing = True

    def up_to(self, token: int) -> np.ndarray:
        """Those ends not yet returned that are at most `token`."""
        parts = []
        while True:
            count = int(np.searchsorted(self._block, token, side="right"))
            parts.append(self._block[:count])
            self._block = self._block[count:]
            if len(self._block) or not self._load():
                return np.concatenate(parts)

    def _load(self) -> bool:
        step = layout.INDEX_CHUNK * 16
        block = self._dataset[self._position : self._position + step]
        self._position += len(block)
        if not len(block):
            return False
        self.increasing = self.increasing and bool((np.diff(block, prepend=self.last) > 0).all())
        self.last = int(block[-1])
        self._block = np.sort(block)
        return True


def describe_shard(path: Path) -> dict[str, Any]:
    """What one shard file says of itself: attributes, and shape, dtype, chunk and filter of each dataset.

    Raises:
        ShardError: the file is not a token shard.
    """
    try:
        with layout.open_file(path) as file:
            attributes = {name: _plain(value) for name, value in sorted(file.attrs.items())}
            datasets: dict[str, Any] = {}
            file.visititems(lambda name, item: _describe(name, item, datasets))
    except OSError as error:
        raise ShardError(f"{path}: {error}; expected a token shard (HDF5)") from error
    if layout.TOKENS not in datasets:
        raise ShardError(f"{path}: no dataset `{layout.TOKENS}`, expected a token shard")
    return {"attributes": attributes, "datasets": datasets}


def _describe(name: str, item: Any, into: dict[str, Any]) -> None:
    if isinstance(item, h5py.Dataset):
        into[name] = {
            "length": len(item),
            "dtype": item.dtype.name,
            "chunk": item.chunks[0],
            "stored_bytes": item.id.get_storage_size(),
            "run_offset": layout.run_offset(item),
        }


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
