"""What a caller of SlidingWindowDataloader chose, checked against the corpus."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import chain, combinations

import numpy as np

from corpus_assets.loading.batches import PADDED_TARGET, Batch
from corpus_assets.loading.framing import DocumentWindows, Framing, WindowGrid
from corpus_assets.loading.store import MmapTokenStore


def framing_of(
    store: MmapTokenStore, window_size: int, stride: int | None, cross_documents: str, partial: str
) -> Framing:
    """The windows of a corpus.

    Raises:
        ValueError: options that do not fit.
    """
    if cross_documents not in ("join", "split"):
        raise ValueError(f"cross_documents is {cross_documents!r}, expected join or split")
    if cross_documents == "join":
        step = window_size if stride is None else stride
        return WindowGrid(len(store), window_size=window_size, stride=step, partial=partial)
    if stride not in (None, window_size) or partial != "drop":
        raise ValueError("cross_documents='split' takes neither a stride nor partial: no token is left out")
    return DocumentWindows(store.documents, window_size=window_size)


def check_dtype(store: MmapTokenStore, dtype: np.dtype, ignore_index: int | None, *, padded: bool) -> None:
    """Raise ValueError unless `dtype` holds every id, and what replaces targets."""
    store.check_dtype(dtype)
    if ignore_index is None and padded:
        ignore_index = PADDED_TARGET
    if ignore_index is not None:
        ignore_index = operator.index(ignore_index)
        limits = np.iinfo(dtype)
        if not limits.min <= ignore_index <= limits.max:
            raise ValueError(
                f"ignore_index is {ignore_index}, dtype {dtype} holds {limits.min} to {limits.max}"
            )


def check_buffers(buffers: Sequence[Batch], shape: tuple[int, int], dtype: np.dtype, ahead: int) -> None:
    """Raise ValueError unless `buffers` are enough pairs of writable arrays, each its own, of that shape and dtype."""
    least = ahead + 2 if ahead else 1
    if len(buffers) < least:
        raise ValueError(
            f"found {len(buffers)} buffers, expected at least {least} with {ahead} batches made ahead"
        )
    for pair in buffers:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ValueError("buffers are not pairs, expected a list of (input_ids, target_ids)")
        for buffer in pair:
            if not isinstance(buffer, np.ndarray):
                raise ValueError(f"a buffer is a {type(buffer).__name__}, expected a NumPy array")
            if buffer.shape != shape or buffer.dtype != dtype or not buffer.flags.writeable:
                raise ValueError(
                    f"a buffer is {buffer.dtype} of shape {buffer.shape}, "
                    f"expected a writable one, {dtype} of shape {shape}"
                )
    if any(np.shares_memory(one, other) for one, other in combinations(chain.from_iterable(buffers), 2)):
        raise ValueError("buffers share memory, expected arrays of their own")
