"""What a loader's state records about the shards it read, and what two corpora have in common."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from corpus_assets.errors import StateMismatchError
from corpus_assets.shards.records import ShardIndex

_NAMED = 20


@dataclass(frozen=True, slots=True)
class ShardMark:
    """One shard in short: `digest` stands for its tokens, fields and annotations."""

    key: str
    token_count: int
    document_count: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusRecord:
    """Which corpus a state belongs to.

    Attributes:
        fingerprint: the index's fingerprint.
        shards: its shards, packed: base64 of zlib of JSON, about 20 bytes for each.
    """

    fingerprint: str
    shards: str

    @classmethod
    def of(cls, index: ShardIndex) -> CorpusRecord:
        """The record of an open corpus."""
        rows = [
            [
                shard.key,
                shard.token_count,
                shard.document_count,
                hashlib.sha256(f"{shard.sha256}\t{shard.column_sha256}".encode()).hexdigest()[:16],
            ]
            for shard in index.shards
        ]
        packed = base64.b64encode(zlib.compress(json.dumps(rows, separators=(",", ":")).encode()))
        return cls(fingerprint=index.fingerprint, shards=packed.decode("ascii"))

    @classmethod
    def from_dict(cls, stored: Any) -> CorpusRecord:
        """The record that a state holds as a dict.

        Raises:
            StateMismatchError: it is none.
        """
        if not isinstance(stored, Mapping) or set(stored) != {"fingerprint", "shards"}:
            raise StateMismatchError(f"loader state: {stored!r} is no record of a corpus")
        if not all(isinstance(value, str) for value in stored.values()):
            raise StateMismatchError("loader state: fingerprint and shards of a corpus are not both strings")
        return cls(**stored)

    @property
    def marks(self) -> tuple[ShardMark, ...]:
        """The shards, in order.

        Raises:
            StateMismatchError: what is packed is damaged.
        """
        return _unpacked(self.shards)


@lru_cache(maxsize=4)
def _unpacked(shards: str) -> tuple[ShardMark, ...]:
    try:
        rows = json.loads(zlib.decompress(base64.b64decode(shards, validate=True)))
        marks = tuple(ShardMark(*row) for row in rows)
        if all(type(mark.token_count) is int and type(mark.document_count) is int for mark in marks):
            return marks
    except (ValueError, TypeError, zlib.error, binascii.Error) as error:
        raise StateMismatchError(f"loader state: its list of shards is damaged: {error}") from error
    raise StateMismatchError("loader state: its list of shards is damaged")


def differing_shards(state: CorpusRecord, own: CorpusRecord) -> str:
    """The shards of which two corpora differ, in words."""
    old, new = ({mark.key: mark for mark in record.marks} for record in (state, own))
    named = [f"{key} has other content" for key in new if key in old and old[key] != new[key]]
    named += [f"{key} is only in the state" for key in old if key not in new]
    named += [f"{key} is only in this corpus" for key in new if key not in old]
    if not named:
        return "the same shards, under another tokenizer"
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return "; ".join(named[:_NAMED]) + more


def shared_ranges(state: CorpusRecord, own: CorpusRecord, *, of: str) -> np.ndarray:
    """(R, 2) int64: the stretches of positions at which both corpora have the same shards.

    Args:
        state: one corpus.
        own: the other.
        of: `token_count` for positions of tokens, `document_count` for numbers of documents.
    """
    places: dict[tuple[ShardMark, int, int], None] = {}
    tokens = documents = 0
    for mark in state.marks:
        places[mark, tokens, documents] = None
        tokens, documents = tokens + mark.token_count, documents + mark.document_count
    ranges: list[list[int]] = []
    tokens = documents = 0
    for mark in own.marks:
        start = tokens if of == "token_count" else documents
        stop = start + getattr(mark, of)
        if (mark, tokens, documents) in places and start < stop:
            if ranges and ranges[-1][1] == start:
                ranges[-1][1] = stop
            else:
                ranges.append([start, stop])
        tokens, documents = tokens + mark.token_count, documents + mark.document_count
    return np.array(ranges, np.int64).reshape(-1, 2)


def all_inside(ranges: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> bool:
    """Whether each stretch [start, stop) lies inside one of the ranges, which are sorted."""
    if not starts.size:
        return True
    if not len(ranges):
        return False
    place = np.searchsorted(ranges[:, 0], starts, side="right") - 1
    return bool((place >= 0).all() and (stops <= ranges[place, 1]).all())
