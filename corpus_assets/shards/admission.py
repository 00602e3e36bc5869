"""What a writer accepts: ids that can be stored as they are."""

from __future__ import annotations

import numpy as np

from corpus_assets.shards.records import TokenizerInfo


def check_ids(ids: np.ndarray, tokenizer: TokenizerInfo, *, boundaries: int, where: str) -> None:
    """Raise ValueError unless `ids` is a row of ids of `tokenizer` with that many boundaries."""
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise ValueError(f"{where}: ids are {ids.dtype} of shape {ids.shape}, expected one row of integers")
    if not ids.size:
        return
    low, high = 0 if ids.dtype.kind == "u" else int(ids.min()), int(ids.max())
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
