"""A way to read windows is timed only after its result was compared with plain slices."""

from __future__ import annotations

import numpy as np


class WrongResultError(RuntimeError):
    """Something that was to be timed returns other tokens than the plain slice."""


def check_windows(name: str, found: np.ndarray, tokens: np.ndarray, starts: np.ndarray) -> None:
    """Raise WrongResultError unless each row of `found` is tokens[start : start + length].

    Args:
        name: of what is checked.
        found: (B, length).
        tokens: (T,) the corpus.
        starts: (B,) where the rows should start.
    """
    length = found.shape[1]
    if len(found) != len(starts):
        raise WrongResultError(f"{name}: found {len(found)} windows, expected {len(starts)}")
    for row, start in zip(found, starts.tolist(), strict=True):
        if not np.array_equal(row, tokens[start : start + length]):
            raise WrongResultError(f"{name}: the window at {start} is not the corpus's")
