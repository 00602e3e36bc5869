"""RecycledMemory: arrays whose memory serves again once nobody holds them.

A fresh batch of a megabyte costs its page faults, as much time as filling it. Memory that was filled before has
none.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np


class RecycledMemory:
    """Hands out uninitialised arrays of one shape; keeps up to `spare` pieces of memory that came back.

    A piece comes back when the last array over it is gone, views and tensors that share it included: all of them
    hold the loan that it was handed out on. So an array is never written to by anybody but its holder.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, *, spare: int) -> None:
        self._shape = shape
        self._dtype = dtype
        self._spare: deque[np.ndarray] = deque(maxlen=spare)

    def new(self) -> np.ndarray:
        """An array of its own for the caller, its content undefined."""
        try:
            memory = self._spare.pop()
        except IndexError:
            memory = np.empty(self._shape, self._dtype)
        return np.asarray(_Loan(memory, self._spare))


class _Loan:
    """What the arrays over one piece of memory refer to; returns it when they are gone."""

    def __init__(self, memory: np.ndarray, spare: deque[np.ndarray]) -> None:
        self._memory = memory
        self._spare = spare

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._memory.__array_interface__

    def __del__(self) -> None:
        self._spare.append(self._memory)
