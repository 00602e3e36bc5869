"""Statistics of a corpus: document lengths, the share of boundaries, what was rejected."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from corpus_assets.errors import ShardError
from corpus_assets.shards import layout
from corpus_assets.shards.records import Ledger, ShardIndex
from corpus_assets.shards.verified import VerifiedColumns

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
_BINS = 32


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


def corpus_statistics(index: ShardIndex) -> CorpusStatistics:
    """Statistics over all shards of `index`; memory does not grow with the number of documents.

    Raises:
        ShardError: a shard is not what its record says.
    """
    # Fine bins of 1/32 octave from 1 token to 2^48; quantiles and the drawn histogram come from them.
    fine = np.zeros(48 * 32 + 1, dtype=np.int64)
    for shard in index.shards:
        with VerifiedColumns(index.root, shard) as columns:
            ends, last = columns.get(layout.DOCUMENT_ENDS, "int64", shard.document_count), 0
            for start in range(0, shard.document_count, layout.INDEX_CHUNK * 16):
                block = ends[start : start + layout.INDEX_CHUNK * 16]
                lengths = np.diff(block, prepend=last)
                if lengths.min() < 1 or block[-1] > shard.token_count:
                    raise ShardError(f"{columns.path}: its document ends do not increase to its last token")
                last = int(block[-1])
                fine += np.bincount((np.log2(lengths) * 32).astype(np.int64), minlength=len(fine))
    documents, tokens, ledger = index.document_count, index.token_count, index.ledger
    edges, counts = _drawn(fine)
    rows = ledger.rows - ledger.blank
    return CorpusStatistics(
        fingerprint=index.fingerprint,
        shard_count=len(index.shards),
        token_count=tokens,
        document_count=documents,
        ledger=ledger,
        length_quantiles=_quantiles(fine),
        histogram_edges=edges,
        histogram_counts=counts,
        mean_length=tokens / documents if documents else 0.0,
        boundary_share=documents / tokens if tokens else 0.0,
        reject_share=ledger.rejected_count / rows if rows else 0.0,
    )


def _quantiles(fine: np.ndarray) -> tuple[float, ...]:
    total = int(fine.sum())
    if not total:
        return tuple(0.0 for _ in QUANTILES)
    reached = np.cumsum(fine)
    places = [int(np.searchsorted(reached, max(1, quantile * total))) for quantile in QUANTILES]
    return tuple(round(float(2 ** (place / 32)), 1) for place in places)


def _drawn(fine: np.ndarray) -> tuple[tuple[float, ...], tuple[int, ...]]:
    used = np.flatnonzero(fine)
    if not len(used):
        return (), ()
    first, last = int(used[0]), int(used[-1]) + 1
    cuts = np.unique(np.linspace(first, last, _BINS + 1).astype(np.int64))
    counts = [int(fine[low:high].sum()) for low, high in pairwise(cuts.tolist())]
    return tuple(float(edge) for edge in 2 ** (cuts / 32)), tuple(counts)
