"""What a source yields and what it counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Document:
    """One document and the row of the input shard that it came from (0 for the first row)."""

    row: int
    text: str
    record: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class DocumentBatch:
    """Consecutive documents of one input shard, in row order; rows[i] belongs to texts[i].

    `records` holds the parsed rows where the source was opened with `keep_records=True`. Where it was opened
    with `text_field=None` there are records only, and `texts` is empty.
    """

    rows: list[int]
    texts: list[str]
    records: list[dict[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class Reject:
    """A row that is not a document: its number, one of the fixed reasons, and what was found."""

    row: int
    reason: str
    detail: str
    raw: bytes


@dataclass(slots=True)
class SourceCounts:
    """A source's side of the ledger: rows = documents + blank + rejected."""

    rows: int = 0
    documents: int = 0
    blank: int = 0
    rejected: Counter[str] = field(default_factory=Counter)


OnReject = Callable[[Reject], None]


class Source(Protocol):
    """A stream of documents from one input shard, read once, with memory that does not grow.

    After the last batch `counts` balances, `bytes_read` is the size of the input and `sha256` the digest
    of its raw (still compressed) bytes.
    """

    counts: SourceCounts

    @property
    def bytes_read(self) -> int:
        """Raw bytes of the input consumed so far."""

    @property
    def sha256(self) -> str:
        """Hex digest of the raw bytes; valid after the last batch."""

    def batches(self) -> Iterator[DocumentBatch]:
        """Documents in batches of about `batch_bytes` of text."""

    def __iter__(self) -> Iterator[Document]:
        """Documents one by one."""
