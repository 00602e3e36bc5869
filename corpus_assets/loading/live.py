"""LiveTokenReader: follows one token shard while another process writes it."""

from __future__ import annotations

import operator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, SupportsIndex

import numpy as np

from corpus_assets.errors import ShardError

if TYPE_CHECKING:
    import h5py


def growing_shards(root: str | Path) -> list[Path]:
    """The shards of the corpus at `root` that are being written, or that a killed writer left."""
    return sorted(Path(root, ".building").rglob("*.growing.h5"))


class LiveTokenReader:
    """The tokens that a shard has so far, through HDF5's single-writer multiple-reader mode (SWMR).

    `len` is what the last `refresh` found and never falls. It counts written tokens only: a dataset is resized
    before it is written, and what lies between reads as id 0. What it shows is progress, not a finished shard.
    It stays readable when the writer has sealed the shard and removed the growing file.

    Owns an HDF5 handle, which belongs to the process that opened it.

    Args:
        path: a `.growing.h5` file; see `growing_shards`.

    Raises:
        ShardError: the file is missing or cannot be followed.
    """

    def __init__(self, path: str | Path) -> None:
        import h5py

        self.path = Path(path)
        try:
            # Without a lock: a reader must never keep the writer from finishing.
            self._file = h5py.File(self.path, "r", swmr=True, locking=False)
            self._tokens: h5py.Dataset = self._file["tokens"]
            self._chunk = int(self._tokens.chunks[0])
        except (OSError, KeyError, TypeError, AttributeError) as error:
            raise ShardError(f"{self.path}: not a shard that is being written: {error}") from error
        self._written_chunks = 0
        self._length = 0
        self.refresh()

    def __len__(self) -> int:
        """Tokens that the last refresh found."""
        return self._length

    @property
    def dtype(self) -> np.dtype:
        """Stored type of the ids."""
        return self._tokens.dtype

    def refresh(self) -> int:
        """Look for new tokens; how many there are now."""
        self._tokens.refresh()
        size = int(self._tokens.shape[0])
        while self._written_chunks * self._chunk < size and self._is_stored(self._written_chunks):
            self._written_chunks += 1
        self._length = max(self._length, min(size, self._written_chunks * self._chunk))
        # The last chunk may still grow: it counts as new the next time.
        self._written_chunks = self._length // self._chunk
        return self._length

    def _is_stored(self, chunk: int) -> bool:
        return self._tokens.id.get_chunk_info_by_coord((chunk * self._chunk,)).byte_offset is not None

    def get_slice(self, start: SupportsIndex, stop: SupportsIndex) -> np.ndarray:
        """Tokens [start, stop) as a fresh array.

        Raises:
            IndexError: unless 0 <= start <= stop <= len(reader).
        """
        first, last = operator.index(start), operator.index(stop)
        if not 0 <= first <= last <= self._length:
            raise IndexError(
                f"slice is [{first}, {last}), expected 0 <= start <= stop <= {self._length}, "
                "the tokens written when the shard was last looked at"
            )
        return self._tokens[first:last]

    def close(self) -> None:
        """Close the file. Safe to call again."""
        self._file.close()

    def __enter__(self) -> LiveTokenReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
