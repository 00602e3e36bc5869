"""What a writer accepts: ids, fields and spans that can be stored as they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from corpus_assets.shards.records import TokenizerInfo
from corpus_assets.tokenizers.protocol import EncodedDocuments


def check_ids(ids: np.ndarray, tokenizer: TokenizerInfo, *, boundaries: int, where: str) -> None:
    """Raise ValueError unless `ids` is a row of ids of `tokenizer` with that many boundaries."""
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise ValueError(f"{where}: ids are {ids.dtype} of shape {ids.shape}, expected one row of integers")
    if not ids.size:
        return
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high > tokenizer.max_token_id:
        raise ValueError(
            f"{where} has id {low if low < 0 else high}, "
            f"expected 0 to {tokenizer.max_token_id} for tokenizer {tokenizer.name}"
        )
    found = int(np.count_nonzero(ids == tokenizer.boundary_id))
    if found != boundaries:
        raise ValueError(
            f"{where}: found {found} boundary ids ({tokenizer.boundary_id}) "
            f"for {boundaries} documents in the ids, expected one after each"
        )


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
