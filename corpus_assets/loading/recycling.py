"""RecycledMemory: arrays whose memory serves again once nobody holds them.

A fresh batch of a megabyte costs its page faults, as much time as filling it. Memory that was filled before has
none.
"""

from __future__ import annotations

import weakref
from collections import deque
from math import prod
from typing import Any

import numpy as np


class RecycledMemory:
    """Hands out uninitialised arrays of one shape; keeps up to `spare` pieces of memory that came back.

    A piece comes back when the array that was handed out over it is gone. Every view, tensor or buffer made from
    that array holds it: the memory is a bytearray, and NumPy shortens a chain of views only up to the array next
    to an owner that is no array. So an array is never written to by anybody but its holders.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, *, spare: int) -> None:
        self._shape = shape
        self._dtype = dtype
        self._spare: deque[bytearray] = deque(maxlen=spare)
        # By the identity of the reference: it hashes as its array would, which has no hash.
        self._lent: dict[int, tuple[weakref.ref[np.ndarray], bytearray]] = {}

    def new(self) -> np.ndarray:
        """An array of its own for the caller, its content undefined."""
        try:
            memory = self._spare.pop()
        except IndexError:
            memory = bytearray(prod(self._shape) * self._dtype.itemsize)
        array: np.ndarray = np.ndarray(self._shape, self._dtype, buffer=memory)
        reference = weakref.ref(array, self._take_back)
        self._lent[id(reference)] = reference, memory
        return array

    def _take_back(self, reference: weakref.ref[np.ndarray]) -> None:
        _, memory = self._lent.pop(id(reference))
        self._spare.append(memory)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_spare": deque(maxlen=self._spare.maxlen), "_lent": {}}
