"""Opening a finished shard file through h5py, the few times when that is needed."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import h5py


def open_shard(path: str) -> h5py.File:
    """The file, read-only.

    HDF5 refuses to open a file that this process already has open with another choice about locking; nothing
    ever writes to a finished shard, so either choice will do.

    Raises:
        OSError: not a readable HDF5 file.
    """
    import h5py

    for locking in (None, False):
        with suppress(OSError):
            return h5py.File(path, "r", locking=locking)
    return h5py.File(path, "r", locking=True)
