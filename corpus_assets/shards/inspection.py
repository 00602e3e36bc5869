"""Look at one token shard and say everything that is wrong with it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from corpus_assets.errors import ShardError, one_line
from corpus_assets.shards import layout
from corpus_assets.shards.contents import ShardContents, read_contents
from corpus_assets.shards.records import TEXT, ShardInfo
from corpus_assets.shards.seal import HASH_BLOCK, stretch_digest
from corpus_assets.shards.values import RunValues, StoredValues
from corpus_assets.shards.verified import VerifiedColumns, difference

# After these the bytes are not where the record says, and there is nothing to hash.
_HOPELESS = {
    "file",
    "frame_digest",
    "format",
    "token_count",
    "chunk_size",
    "dtype",
    "document_count",
    "extents",
}
_BLOCKS_AHEAD = 64


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
        self._root = root
        self._info = info
        self._path = root / info.path

    def quick(self) -> Iterator[Finding]:
        """Size, all bytes but the tokens, attributes, shapes and places."""
        info = self._info
        try:
            if (found := difference(self._root, info)) is not None:
                yield self._finding(*found)
                return
            contents = read_contents(self._path, every_chunk=False)
            yield from self._attributes(contents)
            yield from self._shapes(contents)
        except OSError as error:
            what = error.strerror or str(error)
            yield self._finding("file", f"{what}, expected {info.file_bytes} readable bytes")
        except ShardError as error:
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
            columns = VerifiedColumns(self._root, info, verify=False)
            yield from self._tokens(columns)
        except (ShardError, OSError, ValueError) as error:
            yield self._finding("format", f"cannot be read to its end: {error}")

    def _finding(self, check: str, message: str, token_range: tuple[int, int] | None = None) -> Finding:
        return Finding(
            shard=self._info.key, check=check, message=f"{self._path}: {message}", token_range=token_range
        )

    def _attributes(self, contents: ShardContents) -> Iterator[Finding]:
        info, attributes = self._info, contents.attributes
        if not attributes.get("complete"):
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
            if (found := attributes.get(name)) != value:
                yield self._finding(
                    "attributes", f"{name} is {_shown(found)}, shards.json says {_shown(value)}"
                )

    def _shapes(self, contents: ShardContents) -> Iterator[Finding]:
        info, datasets = self._info, contents.datasets
        lengths = {layout.DOCUMENT_ENDS: info.document_count, layout.DOCUMENT_ROWS: info.document_count}
        lengths |= {f"{layout.FIELDS}/{name}": info.token_count for name in info.fields}
        absent = sorted({*lengths, *info.extents, layout.TOKEN_CRC32} - datasets.keys())
        if absent:
            yield self._finding("format", f"has no {', '.join(map(_shown, absent))}")
            return
        tokens = datasets[layout.TOKENS]
        found_count = tokens.attributes.get("token_count")
        if found_count != info.token_count or tokens.length < info.token_count:
            yield self._finding(
                "token_count",
                f"holds {_shown(found_count)} tokens of {tokens.length}, shards.json says {info.token_count}",
            )
        chunk_count = -(-info.token_count // info.chunk_size)
        if (tokens.chunk, tokens.chunk_count) != (info.chunk_size, chunk_count):
            yield self._finding(
                "chunk_size",
                f"has {tokens.chunk_count} chunks of {tokens.chunk} tokens, "
                f"shards.json says {chunk_count} of {info.chunk_size}",
            )
        if tokens.dtype != info.dtype:
            yield self._finding("dtype", f"tokens are {_shown(tokens.dtype)}, shards.json says {info.dtype}")
        for name, expected in lengths.items():
            if (length := datasets[name].length) != expected:
                check = "fields" if name.startswith(layout.FIELDS) else "document_count"
                yield self._finding(check, f"{name} has {length} values, expected {expected}")
        if (ledger := info.ledger).documents != info.document_count or not ledger.balances:
            yield self._finding("ledger", f"{ledger} does not balance with {info.document_count} documents")
        for name, offset in info.extents.items():
            if (found := datasets[name].run_offset) != offset:
                yield self._finding("extents", f"{name} lies at {found}, shards.json says {offset}")

    def _tokens(self, columns: VerifiedColumns) -> Iterator[Finding]:
        info, boundary = self._info, self._info.tokenizer.boundary_id
        ends = _Ends(columns.get(layout.DOCUMENT_ENDS, "int64", info.document_count))
        tokens = columns.get(layout.TOKENS, info.dtype, info.token_count)
        step = self._block_tokens()
        other = 0 if boundary else 1
        digest = hashlib.sha256()
        misplaced, largest = 0, boundary
        for block, places in zip(tokens.blocks(step), ends.in_blocks(step, info.token_count), strict=True):
            digest.update(block.data)
            # Compared and then overwritten: each boundary that is left stands inside a document.
            at_ends = block[places]
            block[places] = other
            if wrong := int(np.count_nonzero(at_ends != boundary)):
                misplaced += wrong
                largest = max(largest, int(at_ends.max()))
            highest = int(np.maximum.reduce(block))
            largest = max(largest, highest)
            # Most tokenizers have their lowest or highest id as boundary; then the extremes tell.
            if np.minimum.reduce(block) <= boundary <= highest:
                misplaced += int(np.count_nonzero(block == boundary))
        if digest.hexdigest() != info.sha256:
            yield from self._damaged_chunks(columns, digest.hexdigest())
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

    def _block_tokens(self) -> int:
        """How many tokens are looked at in a block; whole chunks where they are decoded."""
        width = np.dtype(self._info.dtype).itemsize
        if layout.TOKENS in self._info.extents:
            return HASH_BLOCK // width
        return max(1, HASH_BLOCK // (self._info.chunk_size * width)) * self._info.chunk_size

    def _damaged_chunks(self, columns: VerifiedColumns, found: str) -> Iterator[Finding]:
        import zlib

        info = self._info
        tokens = columns.get(layout.TOKENS, info.dtype, info.token_count)
        starts = range(0, info.token_count, info.chunk_size)
        checksums = columns.get(layout.TOKEN_CRC32, "uint32", len(starts))[:]
        damaged = []
        for start, chunk, expected in zip(starts, tokens.blocks(info.chunk_size), checksums, strict=True):
            if zlib.crc32(chunk.data) != expected:
                damaged.append((start, start + len(chunk)))
        message = f"sha256 of the tokens is {found}, shards.json says {info.sha256}"
        for token_range in damaged or [(0, info.token_count)]:
            place = f"; damaged between tokens {token_range[0]} and {token_range[1]}"
            yield self._finding("digest", message + place, token_range)


class _Ends:
    """Walks `document_ends` once, in step with the tokens; remembers whether it always increases."""

    def __init__(self, dataset: RunValues | StoredValues) -> None:
        self._blocks = dataset.blocks(layout.INDEX_CHUNK * 16)
        self._block = np.empty(0, dtype=np.int64)
        self.last = 0
        self.increasing = True

    def in_blocks(self, step: int, count: int) -> Iterator[np.ndarray]:
        """Of each `step` of `count` tokens in turn: where in them the last tokens of documents are.

        The places exist whatever the ends are.
        """
        for start in range(0, count, step * _BLOCKS_AHEAD):
            stop = min(start + step * _BLOCKS_AHEAD, count)
            last_tokens = np.sort((self.up_to(stop) - (start + 1)).clip(0, stop - start - 1))
            cuts = last_tokens.searchsorted(range(step, stop - start, step)).tolist()
            places = last_tokens % step
            yield from (places[first:last] for first, last in pairwise([0, *cuts, len(places)]))

    def up_to(self, token: int) -> np.ndarray:
        """Those ends not yet returned that are at most `token`."""
        found = self._take(token)
        while not len(self._block) and self._load():
            found = np.concatenate([found, self._take(token)])
        return found

    def _take(self, token: int) -> np.ndarray:
        count = int(self._block.searchsorted(token, side="right"))
        found, self._block = self._block[:count], self._block[count:]
        return found

    def _load(self) -> bool:
        block = next(self._blocks, None)
        if block is None:
            return False
        self.increasing = self.increasing and bool((np.diff(block, prepend=self.last) > 0).all())
        self.last = int(block[-1])
        self._block = np.sort(block)
        return True


def _shown(value: object) -> str:
    return one_line(repr(value))
