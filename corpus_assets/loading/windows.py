"""Which tokens a window covers: arithmetic on integers, no I/O, no overflow at any corpus size."""

from __future__ import annotations

import numpy as np


def num_windows(token_count: int, *, window_size: int, stride: int) -> int:
    """How many windows fit: each spans window_size + 1 tokens, targets being inputs shifted by one.

    Window i starts at token i * stride.

    Raises:
        ValueError: for a window_size or stride below 1, or a negative token_count.
    """
    _check(token_count, window_size=window_size, stride=stride)
    starts = num_starts(token_count, window_size=window_size)
    return -(-starts // stride)


def num_starts(token_count: int, *, window_size: int) -> int:
    """At how many positions a whole window can start: 0 to token_count - window_size - 1."""
    return max(0, token_count - window_size)


def tail_tokens(token_count: int, *, window_size: int, stride: int) -> int:
    """Tokens behind the last window's stride, so that windows * stride + tail = token_count.

    They start no window of their own; as long as stride <= window_size the first of them is the last window's
    last target, the rest are seen by no window. With gaps between windows (stride > window_size) the last
    stride may reach past the end of the corpus; the tail is 0 then.
    """
    count = num_windows(token_count, window_size=window_size, stride=stride)
    return max(0, token_count - count * stride)


def cell_widths(cells: np.ndarray, token_count: int, *, window_size: int, stride: int) -> np.ndarray:
    """How many starts each cell holds: `stride` of them, fewer in the last cell.

    The cells [i * stride, (i + 1) * stride) part all positions where a window can start, so there are as many
    cells as windows.

    `cells` is int64, each below num_windows.
    """
    starts = num_starts(token_count, window_size=window_size)
    return np.minimum(stride, starts - cells * stride)


def first_sample(step: int, *, batch_size: int, rank: int, world_size: int) -> int:
    """Number of the first sample of `rank` at `step`; its batch is that one and the next batch_size - 1.

    All ranks together take the global batch of batch_size * world_size consecutive samples.
    """
    return (step * world_size + rank) * batch_size


def _check(token_count: int, *, window_size: int, stride: int) -> None:
    if token_count < 0:
        raise ValueError(f"token_count is {token_count}, expected 0 or more")
    if window_size < 1:
        raise ValueError(f"window_size is {window_size}, expected 1 or more")
    if stride < 1:
        raise ValueError(f"stride is {stride}, expected 1 or more")
