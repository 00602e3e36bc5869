"""pack_documents: tokenised documents laid end to end and cut into groups of one length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np


def pack_documents(token_lists: Iterable[Sequence[int] | np.ndarray], length: int) -> list[list[int]]:
    """The tokens of all documents in order, in groups of exactly `length`; the last group may be shorter.

    No token is lost, added or moved: the groups put together are the documents put together. A document may be
    spread over several groups and a group may hold several documents; what separates them (a boundary token) is
    part of the documents. Empty documents leave no trace, and no documents give no groups.

    Args:
        token_lists: the documents' ids.
        length: tokens per group, at least 1.

    Raises:
        ValueError: a length below 1.
    """
    if length < 1:
        raise ValueError(f"length is {length}, expected 1 or more")
    tokens = list(chain.from_iterable(np.asarray(ids, dtype=np.int64).tolist() for ids in token_lists))
    return [tokens[start : start + length] for start in range(0, len(tokens), length)]
