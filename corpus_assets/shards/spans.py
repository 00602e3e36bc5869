"""Annotations of token ranges in a shard: `/spans/<name>/starts`, `stops`, `value_ends`, `values`.

Ranges are sorted by start. `values` holds the JSON of all annotations end to end, `value_ends` the
exclusive end of each.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from corpus_assets.shards.columns import SpooledColumn
from corpus_assets.shards.layout import SPAN_PARTS, SPANS
from corpus_assets.tokenizers.protocol import SpanTable


class SpanColumns:
    """Collects the annotations of one name."""

    def __init__(self, name: str, column: Callable[[str, np.dtype], SpooledColumn]) -> None:
        self.parts = {part: column(f"{SPANS}/{name}/{part}", dtype) for part, dtype in SPAN_PARTS.items()}

    def append(self, table: SpanTable, *, offset: int) -> None:
        """Add the ranges of one batch, which begins at token `offset` of the shard."""
        order = np.argsort(table.starts, kind="stable")
        values = [table.values[place] for place in order.tolist()]
        lengths = np.array([len(value) for value in values], dtype=np.int64)
        self.parts["starts"].append(table.starts[order] + offset)
        self.parts["stops"].append(table.stops[order] + offset)
        self.parts["value_ends"].append(np.cumsum(lengths) + len(self.parts["values"]))
        self.parts["values"].append(np.frombuffer(b"".join(values), dtype=np.uint8))
