"""Reading a shard file only as far as its record vouches for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from corpus_assets.errors import ShardError
from corpus_assets.shards.records import ShardInfo
from corpus_assets.shards.regular import leads_out, open_regular
from corpus_assets.shards.seal import frame_digest
from corpus_assets.shards.values import RunValues, StoredValues


def difference(root: Path, info: ShardInfo) -> tuple[str, str] | None:
    """What shows that the file is not the one that `info` describes, tokens aside: check and message.

    Raises:
        OSError: it is not there, not a regular file, or cannot be read.
    """
    path = root / info.path
    if leads_out(path, root):
        return "file", "is a link that leads out of the corpus"
    with open_regular(path) as file:
        size = file.seek(0, 2)
    if size != info.file_bytes:
        return "file", f"is {size} bytes, expected {info.file_bytes}"
    if frame_digest(path, info.data_offset, info.data_bytes) != info.frame_sha256:
        return "frame_digest", "bytes outside the tokens changed (index, attributes)"
    return None


class VerifiedColumns:
    """The datasets of a shard whose file is the one that its record describes.

    Datasets with a recorded place are read from there; HDF5 is asked for others only, in a process of its own.

    Args:
        root: the corpus folder.
        info: the record.
        verify: compare the file with the record first; not where that was just done.

    Raises:
        ShardError: it is another file, or a damaged one.
    """

    def __init__(self, root: Path, info: ShardInfo, *, verify: bool = True) -> None:
        self.path = root / info.path
        self._info = info
        if verify:
            try:
                found = difference(root, info)
            except OSError as error:
                raise ShardError(f"{self.path}: {error.strerror or error}, expected a token shard") from error
            if found is not None:
                raise ShardError(f"{self.path}: {found[1]}")

    def get(self, name: str, dtype: str, length: int) -> RunValues | StoredValues:
        """The first `length` values of the dataset `name`, which are read or asked for when they are taken.

        Raises:
            ShardError: the record says that the dataset lies outside of the file; that it is none of these values
                is said when they are taken.
        """
        stored = np.dtype(dtype).newbyteorder("<")
        offset = self._info.extents.get(name)
        if offset is None:
            return StoredValues(self.path, name, stored, length)
        if offset + length * stored.itemsize > self._info.file_bytes:
            raise ShardError(f"{self.path}: {name} lies at byte {offset}, outside of the file")
        return RunValues(self.path, stored, offset, length)
