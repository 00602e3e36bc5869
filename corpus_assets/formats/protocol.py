"""The contract of a format: a record becomes tokens with values and annotations; a window becomes a sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from corpus_assets.sources.rows import RowError
from corpus_assets.tokenizers.protocol import SpanTable, Tokenizer

FORMAT_FAILED = "format_failed"
DOES_NOT_FIT = "the document cannot be encoded"


class RecordRejected(RowError):
    """A record that does not fit its format: it becomes a reject of its input shard, and its row alone.

    Args:
        reason: one of the few names that rejects are counted by, such as `bad_segments`.
        detail: what was found and what was expected, for whoever mends the row.
    """


@dataclass(frozen=True, slots=True)
class PackedRecord:
    """One document, ready for a shard.

    Attributes:
        ids: (N,) token ids without the boundary, which the shard adds; N may be 0.
        fields: (N + 1,) values by name; the last belongs to the boundary.
        spans: annotations by name, in token positions of this document.
    """

    ids: np.ndarray
    fields: Mapping[str, np.ndarray] = field(default_factory=dict)
    spans: Mapping[str, SpanTable] = field(default_factory=dict)


class RecordFormat(Protocol):
    """Makes a document of a record.

    A format is loaded once per process and packs records one after the other. The same record, tokenizer
    and `fingerprint` must give the same document in every process.
    """

    @property
    def name(self) -> str:
        """What shards and the index record."""

    @property
    def fields(self) -> Mapping[str, str]:
        """NumPy dtype of each per-token field, by name; every record has all of them."""

    @property
    def spans(self) -> Sequence[str]:
        """Names of the annotations; a record may have none of them."""

    @property
    def fingerprint(self) -> str:
        """Changes when `pack` makes something else of a record: shards are rebuilt then."""

    def pack(self, record: dict[str, Any], tokenizer: Tokenizer) -> PackedRecord:
        """The document of `record`, one row of an input shard.

        Raises:
            RecordRejected: the record does not fit.
        """


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a corpus as it is stored.

    Attributes:
        ids: (W,) token ids.
        fields: (W,) values by name.
        spans: annotations by name, clipped to the window, in positions of the window.
    """

    ids: np.ndarray
    fields: Mapping[str, np.ndarray] = field(default_factory=dict)
    spans: Mapping[str, SpanTable] = field(default_factory=dict)


class WindowFormat(Protocol):
    """The reading half, for formats that want samples of their own; reading needs none."""

    def unpack(self, window: Window) -> Any:
        """The sample that a trainer gets for `window`."""
