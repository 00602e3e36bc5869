"""Fields and annotations that can stand beside the tokens of a shard as they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from corpus_assets.tokenizers.protocol import EncodedDocuments


def check_columns(
    documents: EncodedDocuments, fields: Mapping[str, np.dtype], spans: Collection[str], *, where: str
) -> None:
    """Raise ValueError unless the fields are those expected, one value a token, and the spans lie inside."""
    if set(documents.fields) != set(fields) or not set(documents.spans) <= set(spans):
        raise ValueError(
            f"{where}: found fields {sorted(documents.fields)} and spans {sorted(documents.spans)}, "
            f"expected fields {sorted(fields)} and spans among {sorted(spans)}"
        )
    count = len(documents.ids)
    for name, values in documents.fields.items():
        if values.shape != (count,):
            raise ValueError(
                f"{where}: field {name} has shape {values.shape} for {count} tokens, boundaries included"
            )
        if not _fits(values, fields[name]):
            raise ValueError(
                f"{where}: field {name}: values are {values.dtype}, expected what {fields[name]} holds"
            )
    for name, table in documents.spans.items():
        inside = (table.starts >= 0) & (table.starts < table.stops) & (table.stops <= count)
        if not inside.all() or len(table.values) != len(table.starts):
            raise ValueError(
                f"{where}: spans {name}: expected 0 <= start < stop <= {count} and a value for each"
            )


def _fits(values: np.ndarray, dtype: np.dtype) -> bool:
    """Whether every value is the same number in `dtype`, rounding of floats aside."""
    if not values.size or np.can_cast(values.dtype, dtype, "safe"):
        return True
    if dtype.kind in "iu" and values.dtype.kind in "iub":
        bounds = np.iinfo(dtype)
        return bool(values.min() >= bounds.min and values.max() <= bounds.max)
    return dtype.kind == "f" and values.dtype.kind in "fiub"
