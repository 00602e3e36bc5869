"""The facts about token shards that travel between rooms, processes and files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from corpus_assets.tokenizers.protocol import Tokenizer

FORMAT_VERSION = 1
TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Where every row of an input shard went: rows = documents + blank + sum(rejected)."""

    rows: int = 0
    documents: int = 0
    blank: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    truncated_documents: int = 0
    truncated_tokens: int = 0

    @property
    def rejected_count(self) -> int:
        return sum(self.rejected.values())

    @property
    def balances(self) -> bool:
        return self.rows == self.documents + self.blank + self.rejected_count

    def __add__(self, other: Ledger) -> Ledger:
        reasons = sorted(self.rejected.keys() | other.rejected.keys())
        return Ledger(
            rows=self.rows + other.rows,
            documents=self.documents + other.documents,
            blank=self.blank + other.blank,
            rejected={r: self.rejected.get(r, 0) + other.rejected.get(r, 0) for r in reasons},
            truncated_documents=self.truncated_documents + other.truncated_documents,
            truncated_tokens=self.truncated_tokens + other.truncated_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerInfo:
    """Which tokenizer made the ids."""

    name: str
    fingerprint: str
    boundary_id: int
    max_token_id: int
    canary_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardOrigin:
    """What a shard was made from; part of its file and of its record."""

    key: str
    input_name: str
    input_sha256: str = ""
    input_bytes: int = 0
    build: str = ""


def info_of(tokenizer: Tokenizer) -> TokenizerInfo:
    """The facts about `tokenizer` that a shard records."""
    return TokenizerInfo(
        name=tokenizer.name,
        fingerprint=tokenizer.fingerprint,
        boundary_id=tokenizer.boundary_id,
        max_token_id=tokenizer.max_token_id,
        canary_ids=tokenizer.canary_ids,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardInfo:
    """What the index records about one token shard.

    Attributes:
        key: partition key.
        input_name: name of the input shard relative to the corpus's input.
        input_sha256: digest of the input's raw bytes.
        path: the HDF5 file, relative to the corpus root, with forward slashes.
        build: identity of what went in (input, tokenizer, options, format version).
        sha256: digest of the little-endian bytes of the token_count tokens.
        data_offset, data_bytes: where the chunks of the tokens lie in the file, in one stretch.
        data_sha256: digest of that stretch; equal to sha256 where the tokens are stored as they are.
        frame_sha256: digest of every other byte of the file.
        extents: byte offset of each uncompressed dataset that lies in one run, by name.
        fields: dtype of each per-token field, by name.
        spans: names of the annotations.
        column_sha256: digest of all fields and spans; empty without any.
        format: what made documents of the records.
        global_start: position of the shard's first token in the corpus; set by the index.
    """

    key: str
    input_name: str
    input_sha256: str
    input_bytes: int
    path: str
    build: str
    file_bytes: int
    dtype: str
    token_count: int
    document_count: int
    sha256: str
    data_offset: int
    data_bytes: int
    data_sha256: str
    frame_sha256: str
    window_size: int
    chunk_size: int
    compression: str
    extents: dict[str, int]
    tokenizer: TokenizerInfo
    ledger: Ledger
    fields: dict[str, str] = field(default_factory=dict)
    spans: tuple[str, ...] = ()
    column_sha256: str = ""
    format: str = TEXT
    global_start: int = 0
    format_version: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardIndex:
    """The ordered shards of one corpus: the flat token stream that a trainer reads.

    Attributes:
        shards: in key order, each with its global_start.
        root: the folder that the shards' paths are relative to; not stored in the file.
    """

    shards: tuple[ShardInfo, ...]
    root: Path
    format_version: int = FORMAT_VERSION

    @classmethod
    def of(cls, shards: Iterable[ShardInfo], root: Path) -> ShardIndex:
        """The index of `shards`: sorted by key, global_start cumulative from 0."""
        start, placed = 0, []
        for shard in sorted(shards, key=lambda s: s.key):
            placed.append(replace(shard, global_start=start))
            start += shard.token_count
        return cls(shards=tuple(placed), root=root)

    @property
    def token_count(self) -> int:
        return sum(shard.token_count for shard in self.shards)

    @property
    def document_count(self) -> int:
        return sum(shard.document_count for shard in self.shards)

    @property
    def ledger(self) -> Ledger:
        return sum((shard.ledger for shard in self.shards), Ledger())

    @property
    def tokenizer(self) -> TokenizerInfo | None:
        """The tokenizer of the first shard; None for a corpus without shards."""
        return self.shards[0].tokenizer if self.shards else None

    @property
    def fingerprint(self) -> str:
        """sha256 over format version, tokenizer and the ordered (key, token_count, sha256) rows.

        A shard with fields or spans adds their digest to its row.
        """
        digest = hashlib.sha256(
            f"{self.format_version}\n{self.tokenizer.fingerprint if self.tokenizer else ''}\n".encode()
        )
        for shard in self.shards:
            columns = f"\t{shard.column_sha256}" if shard.column_sha256 else ""
            digest.update(f"{shard.key}\t{shard.token_count}\t{shard.sha256}{columns}\n".encode())
        return digest.hexdigest()

    def to_frame(self) -> pd.DataFrame:
        """One row per shard, in order; nested records are flattened into columns."""
        import pandas as pd

        columns = [
            "key",
            "input_name",
            "path",
            "global_start",
            "token_count",
            "document_count",
            "dtype",
            "chunk_size",
            "compression",
            "file_bytes",
            "input_bytes",
            "build",
            "sha256",
        ]
        rows = [
            {name: getattr(shard, name) for name in columns}
            | {
                "tokenizer": shard.tokenizer.name,
                "rows": shard.ledger.rows,
                "blank": shard.ledger.blank,
                "rejected": shard.ledger.rejected_count,
                "truncated_documents": shard.ledger.truncated_documents,
            }
            for shard in self.shards
        ]
        extra = ["tokenizer", "rows", "blank", "rejected", "truncated_documents"]
        return pd.DataFrame(rows, columns=[*columns, *extra])
