"""What a caller asks a corpus for, checked before anything is read."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, SupportsIndex, TypeGuard

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

    from corpus_assets.loading.store import MmapTokenStore


def checked_store(store: MmapTokenStore, what: str = "store") -> MmapTokenStore:
    """The store that a caller reads from.

    Raises:
        ValueError: it is none, such as a path.
    """
    from corpus_assets.loading.store import MmapTokenStore

    if not isinstance(store, MmapTokenStore):
        example = repr(os.fspath(store)) if isinstance(store, str | os.PathLike) else "path"
        raise ValueError(f"{what} is {store!r}, expected a store: MmapTokenStore({example})")
    return store


def checked_slice(start: SupportsIndex, stop: SupportsIndex, token_count: int) -> tuple[int, int]:
    """The slice [start, stop) as two ints.

    Raises:
        IndexError: unless 0 <= start <= stop <= token_count.
    """
    first, last = operator.index(start), operator.index(stop)
    if not 0 <= first <= last <= token_count:
        raise IndexError(
            f"slice is [{first}, {last}), expected 0 <= start <= stop <= {token_count}, "
            "the corpus's token count"
        )
    return first, last


def checked_starts(starts: ArrayLike, length: int, token_count: int) -> np.ndarray:
    """(B,) int64 starts of windows of `length` tokens.

    Raises:
        IndexError: a window that leaves the corpus.
        ValueError: starts that are no row of integers, or a length below 1.
    """
    length = operator.index(length)
    positions = np.asarray(starts)
    if positions.size == 0:
        positions = positions.astype(np.int64)
    if positions.ndim != 1 or positions.dtype.kind not in "iu":
        raise ValueError(
            f"starts are {positions.dtype} of shape {positions.shape}, expected one row of integers"
        )
    if length < 1:
        raise ValueError(f"length is {length}, expected 1 or more")
    found = positions.astype(np.int64, copy=False)
    # Seen as unsigned, negative starts are larger than any: one pass over them in place of two.
    if found.size and int(np.maximum.reduce(found.view(np.uint64))) > token_count - length:
        raise IndexError(
            f"starts run from {positions.min()} to {positions.max()}, expected 0 to {token_count - length} "
            f"for windows of {length} in {token_count} tokens"
        )
    return found


def check_out(out: np.ndarray, shape: tuple[int, int], dtype: DTypeLike | None) -> None:
    """Raise ValueError unless `out` can be filled with a result of that shape and dtype."""
    if not isinstance(out, np.ndarray):
        raise ValueError(f"out is a {type(out).__name__}, expected a NumPy array")
    if out.shape != shape:
        raise ValueError(f"out has shape {out.shape}, expected {shape}")
    if dtype is not None and np.dtype(dtype) != out.dtype:
        raise ValueError(f"out is {out.dtype}, dtype says {np.dtype(dtype)}")
    if not out.flags.writeable:
        raise ValueError("out is read-only, expected a writable array")


def check_id_dtype(target: np.dtype, stored: np.dtype, largest: int) -> None:
    """Raise ValueError unless `target` is an integer type that holds ids up to `largest`, stored as `stored`."""
    if np.can_cast(stored, target, "safe") and target.kind in "iu":
        return
    if target.kind not in "iu" or np.iinfo(target).max < largest:
        raise ValueError(f"dtype is {target}, expected an integer type that holds ids up to {largest}")


def item_numbers(items: SupportsIndex | slice | ArrayLike, count: int) -> np.ndarray:
    """(N,) int64 numbers of the items of a dataset, in the order asked for; repeats stay.

    Args:
        items: a slice, integers (negative ones count from the end) or a mask of `count` booleans.
        count: items in the dataset.

    Raises:
        IndexError: a number outside the dataset, or what numbers no items.
    """
    if isinstance(items, slice):
        return np.arange(*items.indices(count), dtype=np.int64)
    numbers = np.asarray(items)
    if numbers.dtype == bool and numbers.shape == (count,):
        return numbers.nonzero()[0].astype(np.int64)
    if numbers.size == 0:
        numbers = numbers.astype(np.int64)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise IndexError(
            f"index is {numbers.dtype} of shape {numbers.shape}, expected an integer, a slice or a list of integers"
        )
    if numbers.size and not -count <= int(numbers.min()) <= int(numbers.max()) < count:
        raise IndexError(f"items are {numbers.min()} to {numbers.max()}, expected {-count} to {count - 1}")
    numbers = numbers.astype(np.int64)
    numbers[numbers < 0] += count
    return numbers


def names_of(names: Sequence[str], what: str) -> tuple[str, ...]:
    """The names of columns that a caller asks for.

    Raises:
        ValueError: one string, of which each character would be a name.
    """
    if isinstance(names, str):
        raise ValueError(f"{what} is {names!r}, expected a list of names: [{names!r}]")
    return tuple(names)


def is_number(item: SupportsIndex | slice | ArrayLike) -> TypeGuard[SupportsIndex]:
    """Whether `item` asks for one item of a dataset, also as an array or tensor without dimensions."""
    return isinstance(item, SupportsIndex) and getattr(item, "ndim", 0) == 0


def item_number(item: SupportsIndex, count: int) -> int:
    """The number of one item of a dataset; a negative one counts from the end.

    Raises:
        IndexError: a number outside the dataset.
    """
    number = operator.index(item)
    if count == 0:
        raise IndexError(f"item is {number}, but there are none")
    if not -count <= number < count:
        raise IndexError(f"item is {number}, expected {-count} to {count - 1}")
    return number + count if number < 0 else number
