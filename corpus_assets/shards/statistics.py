"""Statistics of a corpus: document lengths, the share of boundaries, what was rejected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from corpus_assets.errors import ShardError
from corpus_assets.shards import layout
from corpus_assets.shards.records import Ledger, ShardIndex, ShardInfo
from corpus_assets.shards.verified import VerifiedColumns

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
_BINS = 32
_PER_OCTAVE, _OCTAVES = 32, 48  # fine bins of 1/32 octave from 1 token to 2^48


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusStatistics:
    """Totals over all shards of one index, always recomputed from all of them.

    Attributes:
        length_quantiles: tokens of a document, its boundary included, at `QUANTILES`; exact to the bin of
            the histogram.
        histogram_edges: (B + 1,) bin edges in tokens, on a logarithmic scale.
        histogram_counts: (B,) documents in each bin.
        boundary_share: boundary tokens / tokens.
        reject_share: rejected rows / rows that are not blank.
    """

    fingerprint: str
    shard_count: int
    token_count: int
    document_count: int
    ledger: Ledger
    length_quantiles: tuple[float, ...]
    histogram_edges: tuple[float, ...]
    histogram_counts: tuple[int, ...]
    mean_length: float
    boundary_share: float
    reject_share: float


@dataclass(frozen=True, slots=True)
class DocumentLengths:
    """How many documents there are of which length; lengths are tokens, the boundary included.

    Attributes:
        fine: (N,) documents in bins of 1/32 octave, from 1 token on.
    """

    fine: np.ndarray

    def quantiles(self) -> tuple[float, ...]:
        """The lengths at `QUANTILES`, exact to the bin; zeros without documents."""
        total = int(self.fine.sum())
        if not total:
            return tuple(0.0 for _ in QUANTILES)
        wanted = np.maximum(1, np.array(QUANTILES) * total)
        places = np.searchsorted(np.cumsum(self.fine), wanted)
        return tuple(round(2 ** (place / _PER_OCTAVE), 1) for place in places.tolist())

    def drawn(self) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Edges and counts of at most 32 bins over the lengths that occur."""
        used = np.flatnonzero(self.fine)
        if not len(used):
            return (), ()
        first, last = int(used[0]), int(used[-1]) + 1
        cuts = np.unique(np.linspace(first, last, _BINS + 1).astype(np.int64))
        counts = [int(self.fine[low:high].sum()) for low, high in pairwise(cuts.tolist())]
        return tuple(float(edge) for edge in 2 ** (cuts / _PER_OCTAVE)), tuple(counts)

    def octaves(self) -> list[tuple[int, int, int]]:
        """(shortest, longest, documents) for each power of two between the lengths that occur; exact."""
        counts = self.fine[: _OCTAVES * _PER_OCTAVE].reshape(_OCTAVES, _PER_OCTAVE).sum(axis=1).tolist()
        used = [octave for octave, count in enumerate(counts) if count]
        between = range(used[0], used[-1] + 1) if used else ()
        return [(2**octave, 2 ** (octave + 1) - 1, counts[octave]) for octave in between]


def document_lengths(root: Path, shards: Iterable[ShardInfo], *, verify: bool = True) -> DocumentLengths:
    """The lengths of all documents of `shards`; memory does not grow with their number.

    Args:
        root: the corpus folder.
        shards: records of its shards.
        verify: compare each file with its record first; not where it was built a moment ago.

    Raises:
        ShardError: a shard is not what its record says.
    """
    fine = np.zeros(_OCTAVES * _PER_OCTAVE + 1, dtype=np.int64)
    for shard in shards:
        columns = VerifiedColumns(root, shard, verify=verify)
        ends, last = columns.get(layout.DOCUMENT_ENDS, "int64", shard.document_count), 0
        for block in ends.blocks(layout.INDEX_CHUNK * 16):
            lengths = np.diff(block, prepend=last)
            if lengths.min() < 1 or block[-1] > shard.token_count:
                raise ShardError(f"{columns.path}: its document ends do not increase to its last token")
            last = int(block[-1])
            fine += np.bincount((np.log2(lengths) * _PER_OCTAVE).astype(np.int64), minlength=len(fine))
    return DocumentLengths(fine)


def corpus_statistics(index: ShardIndex) -> CorpusStatistics:
    """Statistics over all shards of `index`; memory does not grow with the number of documents.

    Raises:
        ShardError: a shard is not what its record says.
    """
    lengths = document_lengths(index.root, index.shards)
    documents, tokens, ledger = index.document_count, index.token_count, index.ledger
    edges, counts = lengths.drawn()
    rows = ledger.rows - ledger.blank
    return CorpusStatistics(
        fingerprint=index.fingerprint,
        shard_count=len(index.shards),
        token_count=tokens,
        document_count=documents,
        ledger=ledger,
        length_quantiles=lengths.quantiles(),
        histogram_edges=edges,
        histogram_counts=counts,
        mean_length=tokens / documents if documents else 0.0,
        boundary_share=documents / tokens if tokens else 0.0,
        reject_share=ledger.rejected_count / rows if rows else 0.0,
    )
