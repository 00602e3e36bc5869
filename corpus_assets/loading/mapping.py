"""A whole corpus as one array: the token run of every shard mapped side by side into one range of addresses.

Each run begins at its own position inside its first page, so that between two shards lies a gap of bytes that are
no tokens. `FlatReader` translates positions in the corpus to positions in that array; behind the shards stand the
bridges, for windows that run across a border.

The range is reserved inaccessible (PROT_NONE) and each file is mapped over its place (MAP_FIXED): mmap(2).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from corpus_assets.loading.advice import Access, advice_for
from corpus_assets.loading.bridges import Bridges, bridge_reach
from corpus_assets.loading.extents import TokenFile
from corpus_assets.loading.lookup import ShardLookup

_MAP_FIXED = 0x10  # on Linux, macOS and the BSDs; Python's mmap module has no name for it
_MAX_MAP_COUNT = Path("/proc/sys/vm/max_map_count")
_OWN_MAPS = Path("/proc/self/maps")
LARGE_WINDOW_BYTES = 2**20
_SPARE_MAPPINGS = 1000  # for what the process maps later: threads, libraries, allocator


def can_map_flat() -> bool:
    """Whether this platform has 64-bit addresses and mmap with MAP_FIXED."""
    return os.name == "posix" and sys.maxsize > 2**32 and hasattr(mmap, "MAP_ANONYMOUS")


def mappings_left() -> int | None:
    """How many more mappings this process may make; None where the platform sets no limit.

    Linux allows vm.max_map_count per process, 65,530 by default.
    """
    try:
        limit = int(_MAX_MAP_COUNT.read_text())
        with _OWN_MAPS.open("rb") as maps:
            used = sum(1 for _ in maps)
    except (OSError, ValueError):
        return None
    return max(0, limit - used - _SPARE_MAPPINGS)


class _AddressRange:
    """Reserved addresses that files are mapped into; given back when the last array over them is gone.

    NumPy arrays made from it hold a reference to it. So no array, and no read in another thread, can ever
    outlive the mapping: closing a reader drops a reference and frees nothing that is in use.
    """

    def __init__(self, length: int) -> None:
        self._address: int | None = None
        self._libc = _libc()
        self._length = length
        anonymous = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._address = self._checked(self._libc.mmap(None, length, 0, anonymous, -1, 0), length)

    def map_file(self, position: int, length: int, descriptor: int, offset: int) -> None:
        """Map `length` bytes of a file from `offset` over the range at `position`; both page-aligned."""
        assert self._address is not None
        assert position + length <= self._length
        target, flags = self._address + position, mmap.MAP_SHARED | _MAP_FIXED
        self._checked(self._libc.mmap(target, length, mmap.PROT_READ, flags, descriptor, offset), length)

    def writable(self, position: int, length: int) -> np.ndarray:
        """(length,) bytes of the range from `position`, page-aligned, as zeros that may be written."""
        if length == 0:
            return np.empty(0, np.uint8)
        assert self._address is not None
        target = self._address + position
        if self._libc.mprotect(target, length, mmap.PROT_READ | mmap.PROT_WRITE):
            number = ctypes.get_errno()
            raise OSError(number, f"cannot use {length} bytes: {os.strerror(number)}")
        return np.asarray(_WritablePart(self, target, length))

    @staticmethod
    def _checked(address: int | None, length: int) -> int:
        if address is None or address == ctypes.c_void_p(-1).value:
            number = ctypes.get_errno()
            raise OSError(number, f"cannot map {length} bytes: {os.strerror(number)}")
        return address

    def advise(self, advice: int) -> None:
        """Tell the kernel how the range will be read; it may ignore that."""
        self._libc.madvise(self._address, self._length, advice)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"version": 3, "shape": (self._length,), "typestr": "|u1", "data": (self._address, True)}

    def __del__(self) -> None:
        if self._address is not None:
            self._libc.munmap(self._address, self._length)
            self._address = None


class _WritablePart:
    """What arrays over a writable part of a range refer to; keeps the range."""

    def __init__(self, whole: _AddressRange, address: int, length: int) -> None:
        self._whole = whole
        self.__array_interface__ = {
            "version": 3,
            "shape": (length,),
            "typestr": "|u1",
            "data": (address, False),
        }


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    libc.mmap.restype = pointer
    libc.mmap.argtypes = [pointer, size, number, number, number, ctypes.c_int64]
    libc.munmap.argtypes = [pointer, size]
    libc.mprotect.argtypes = [pointer, size, number]
    libc.madvise.argtypes = [pointer, size, number]
    return libc


def windows_of(tokens: np.ndarray, length: int) -> np.ndarray:
    """A view with one item of `length` tokens for every position of `tokens`, which is contiguous.

    An item of a void dtype is copied with one memcpy. Gathering rows of a (N, length) view instead was
    0.75 times as fast.
    """
    return np.ndarray(
        shape=(max(0, len(tokens) - length + 1),),
        dtype=f"V{length * tokens.itemsize}",
        buffer=tokens,
        strides=(tokens.itemsize,),
    )


class FlatReader:
    """Reads windows of a corpus whose shards are all uncompressed, a batch in a fixed number of NumPy calls.

    What it returns are copies. Owns the mapping, no descriptor; survives fork; is not pickled.

    Raises:
        IndexMismatchError: a file that is not what the index says.
        OSError: the kernel refuses the mapping.
    """

    block_bytes = 0

    def __init__(self, files: Sequence[TokenFile], dtype: np.dtype) -> None:
        page = mmap.ALLOCATIONGRANULARITY
        self._dtype = dtype
        self._bounds = np.cumsum([0, *(file.token_count for file in files)], dtype=np.int64)
        places, heads, position = [], [], 0
        for file in files:
            assert file.offset is not None
            head = file.offset % page
            places.append(position)
            heads.append(position + head)
            position += -(-(head + file.token_count * file.itemsize) // page) * page
        border_count = max(0, len(files) - 1)
        bridge_bytes = 2 * bridge_reach(border_count, dtype.itemsize) * border_count * dtype.itemsize
        self._range = _AddressRange(max(position + bridge_bytes, page))
        for file, place in zip(files, places, strict=True):
            assert file.offset is not None
            head = file.offset % page
            descriptor = file.open()
            try:
                size = head + file.token_count * file.itemsize
                self._range.map_file(place, size, descriptor, file.offset - head)
            finally:
                os.close(descriptor)
        self._bounds_after = self._bounds[1:]
        self._lookup = ShardLookup(self._bounds)
        self._bases = np.array(heads, np.int64) // dtype.itemsize
        self._shifts = self._bases - self._bounds[:-1]
        # The same values as Python's integers, for reads of one slice: NumPy's cost ten times as much.
        self._bounds_view, self._shifts_view = self._bounds.data, self._shifts.data
        self._flat: np.ndarray = np.asarray(self._range).view(dtype)
        self._bridges = Bridges(
            self._range.writable(position, bridge_bytes).view(dtype),
            first=position // dtype.itemsize,
            borders=self._bounds[1:-1],
            token_count=int(self._bounds[-1]),
        )
        self._rows: dict[int, np.ndarray] = {}

    def read(self, start: int, stop: int) -> np.ndarray:
        """Tokens [start, stop) as a fresh array."""
        bounds, shifts = self._bounds_view, self._shifts_view
        shard = bisect_right(bounds, start) - 1
        if start < stop <= bounds[shard + 1]:
            shift = shifts[shard]
            return self._flat[start + shift : stop + shift].copy()
        tokens = np.empty(stop - start, self._dtype)
        position = start
        while position < stop:
            end = min(stop, bounds[shard + 1])
            shift = shifts[shard]
            tokens[position - start : end - start] = self._flat[position + shift : end + shift]
            position, shard = end, shard + 1
        return tokens

    def rows(self, starts: np.ndarray, length: int) -> np.ndarray:
        """(B, length) fresh array of the windows at `starts`, all inside the corpus."""
        if length * self._dtype.itemsize > LARGE_WINDOW_BYTES:
            return np.stack([self.read(start, start + length) for start in starts.tolist()])
        windows = self._windows(length)
        shards = self._lookup.find(starts)
        crossing = (starts > self._bounds_after.take(shards) - length).nonzero()[0]
        places = starts + self._shifts.take(shards)
        bridged = length <= self._bridges.reach + 1
        if crossing.size and bridged:
            places[crossing] = self._bridges.places(starts.take(crossing), shards.take(crossing), self.read)
        # The first token of every window, and with it its page, is waited for together and not one after another:
        # 1.4 times as fast where the corpus is much larger than the processor's cache.
        self._flat.take(places)
        tokens = windows[places].view(self._dtype).reshape(len(starts), length)
        if crossing.size and not bridged:
            for row, start in zip(crossing.tolist(), starts.take(crossing).tolist(), strict=True):
                tokens[row] = self.read(start, start + length)
        return tokens

    def _windows(self, length: int) -> np.ndarray:
        windows = self._rows.get(length)
        if windows is None:
            windows = windows_of(self._flat, length)
            self._rows = {length: windows}
        return windows

    def advise(self, access: Access) -> None:
        """Choose the kernel's read-ahead: `random` turns it off."""
        if (advice := advice_for(access)) is not None:
            self._range.advise(advice)
