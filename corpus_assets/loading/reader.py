"""Which reader serves a corpus: one flat mapping where that is possible, else piece by piece."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np

from corpus_assets.loading.advice import Access
from corpus_assets.loading.extents import TokenFile
from corpus_assets.loading.mapping import FlatReader, can_map_flat, mappings_left

Layout = Literal["auto", "flat", "pieces"]

logger = logging.getLogger(__name__)


class TokenReader(Protocol):
    """Reads positions that have been checked; what it returns are fresh arrays of the stored dtype.

    Attributes:
        block_bytes: bytes of rows to ask for in one call at least, since calls may repeat each other's work.
    """

    block_bytes: int

    def read(self, start: int, stop: int) -> np.ndarray: ...
    def rows(self, starts: np.ndarray, length: int) -> np.ndarray: ...
    def advise(self, access: Access) -> None: ...


def open_reader(
    files: Sequence[TokenFile], dtype: np.dtype, *, layout: Layout, cache_bytes: int, threads: int
) -> TokenReader:
    """The reader of `files` in the layout asked for.

    Raises:
        ValueError: `flat` where that is not possible, saying why.
        IndexMismatchError: a file that is not what the index says.
    """
    obstacle = _obstacle_to_flat(files)
    if layout == "flat" and obstacle:
        raise ValueError(f"layout is flat, but {obstacle}")
    if layout == "pieces" or obstacle:
        if obstacle and layout == "auto" and all(file.offset is not None for file in files):
            logger.warning("%s; shards are mapped on demand, which is slower", obstacle)
        from corpus_assets.loading.piecewise import PiecewiseReader

        return PiecewiseReader(files, dtype, threads=threads, cache_bytes=cache_bytes)
    return FlatReader(files, dtype)


def _obstacle_to_flat(files: Sequence[TokenFile]) -> str | None:
    """Why the corpus cannot be mapped as one array; None where it can."""
    chunked = [file.path for file in files if file.offset is None]
    if chunked:
        return f"{len(chunked)} shards are compressed or scattered, the first is {chunked[0]}"
    if not can_map_flat():
        return "this platform has no 64-bit mmap with MAP_FIXED"
    left = mappings_left()
    if left is not None and len(files) > left:
        return (
            f"the corpus needs {len(files)} memory mappings and this process may make {left} more: "
            "vm.max_map_count; raise it with `sysctl -w vm.max_map_count=262144`"
        )
    return None
