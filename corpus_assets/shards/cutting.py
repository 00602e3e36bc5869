"""Documents cut to a length, with everything that is aligned to their tokens."""

from __future__ import annotations

import numpy as np

from corpus_assets.tokenizers.protocol import EncodedDocuments, SpanTable


def excess_tokens(ends: np.ndarray, max_tokens: int) -> np.ndarray:
    """How many tokens each document has beyond `max_tokens`, its boundary not counted; (D,) int64."""
    return np.maximum(np.diff(ends, prepend=0) - 1 - max_tokens, 0)


def cut_documents(documents: EncodedDocuments, excess: np.ndarray) -> EncodedDocuments:
    """`documents` without the last `excess` tokens before each boundary; spans end where the cut is."""
    change = np.zeros(len(documents.ids) + 1, dtype=np.int8)
    long = excess > 0
    change[documents.ends[long] - 1 - excess[long]] += 1
    change[documents.ends[long] - 1] -= 1
    keep = np.cumsum(change[:-1], dtype=np.int8) == 0
    kept_before = np.concatenate([[0], np.cumsum(keep)])
    return EncodedDocuments(
        ids=documents.ids[keep],
        ends=kept_before[documents.ends],
        fields={name: values[keep] for name, values in documents.fields.items()},
        spans={name: _cut_spans(table, kept_before) for name, table in documents.spans.items()},
    )


def _cut_spans(table: SpanTable, kept_before: np.ndarray) -> SpanTable:
    starts, stops = kept_before[table.starts], kept_before[table.stops]
    left = np.flatnonzero(stops > starts)
    return SpanTable(
        starts=starts[left], stops=stops[left], values=[table.values[place] for place in left.tolist()]
    )
