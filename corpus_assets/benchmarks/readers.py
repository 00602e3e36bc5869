"""What a user would write instead of the store: the readers that it is compared with."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

import numpy as np


class MemmapReader:
    """A file of bare tokens through np.memmap: slices, stacked."""

    def __init__(self, path: Path, dtype: np.dtype) -> None:
        self.tokens = np.memmap(path, dtype, "r")

    def windows(self, starts: np.ndarray, length: int) -> np.ndarray:
        """(B, length), one slice per window."""
        return np.stack([self.tokens[start : start + length] for start in starts])


class HyperslabReader:
    """One HDF5 dataset through h5py: a hyperslab per window."""

    def __init__(self, path: Path) -> None:
        import h5py
        import hdf5plugin  # noqa: F401  (registers the zstd filter)

        self._file = h5py.File(path, "r")
        self._tokens = self._file["tokens"]

    def windows(self, starts: np.ndarray, length: int) -> np.ndarray:
        """(B, length), one hyperslab per window."""
        return np.stack([self._tokens[start : start + length] for start in starts.tolist()])

    def slice(self, start: int, stop: int) -> np.ndarray:
        """Tokens [start, stop)."""
        return self._tokens[start:stop]

    def __enter__(self) -> HyperslabReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


class MemoryCopy:
    """The limit: one contiguous copy of as many bytes as a batch has, from another place of a mapping each time."""

    def __init__(self, tokens: np.ndarray, batch_tokens: int) -> None:
        self._tokens = tokens
        self._target = np.empty(batch_tokens, tokens.dtype)

    def copy(self, start: int) -> np.ndarray:
        """The tokens from `start` on, moved back where they would pass the end."""
        first = min(start, len(self._tokens) - len(self._target))
        np.copyto(self._target, self._tokens[first : first + len(self._target)])
        return self._target
