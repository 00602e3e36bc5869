"""Where the tokens of each shard, and what is stored beside them, lie in its file, checked against the file before anything is mapped.

An index and its files are untrusted here: touching a mapped page behind the end of a file kills the process, so
every number is compared with what the operating system says about the file.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np

from corpus_assets.errors import IndexMismatchError, one_line
from corpus_assets.shards.records import ShardIndex, ShardInfo
from corpus_assets.shards.regular import leads_out

# As in shards.layout, which imports h5py; a chunked reader compares chunk sizes with the file.
TOKENS, FIELDS, DOCUMENT_ENDS, DOCUMENT_ROWS = "tokens", "fields", "document_ends", "document_rows"
TOKEN_CRC32 = "token_crc32"
INDEX_CHUNK = 8 * 1024


@dataclass(frozen=True, slots=True)
class TokenFile:
    """One dataset of a shard as a reader sees it: its tokens, or another one, whose items stand for tokens here.

    Attributes:
        path: the HDF5 file, below the corpus root.
        offset: byte offset of the tokens where they lie uncompressed in one run, else None.
        token_count: tokens in the shard, at least 1.
        itemsize: bytes per token.
        chunk_size: tokens per HDF5 chunk.
        file_bytes: size of the whole file.
        dataset: its name in the file.
    """

    path: str
    offset: int | None
    token_count: int
    itemsize: int
    chunk_size: int
    file_bytes: int
    dataset: str = TOKENS

    def open(self) -> int:
        """A descriptor of the file, read-only, after comparing it with the index.

        Raises:
            IndexMismatchError: the file is missing, no regular file, or has another size.
        """
        try:
            # O_NONBLOCK: a FIFO in place of a shard must not hang the reader.
            descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        except OSError as error:
            raise IndexMismatchError(f"{self.path}: {error.strerror}; shards.json names this file") from error
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode) and found.st_size == self.file_bytes:
            return descriptor
        os.close(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise IndexMismatchError(f"{self.path}: not a regular file, shards.json names it as a shard")
        raise IndexMismatchError(
            f"{self.path}: size is {found.st_size} bytes, shards.json says {self.file_bytes}"
        )


def token_dtype_of(index: ShardIndex) -> np.dtype:
    """The stored dtype of a corpus's tokens, little-endian; uint16 for a corpus without shards.

    Raises:
        IndexMismatchError: shards of several dtypes, or one that is not uint16 or uint32.
    """
    names = sorted({shard.dtype for shard in index.shards})
    if len(names) > 1:
        raise IndexMismatchError(f"{index.root}: shards have dtypes {', '.join(names)}, expected one")
    if names and names[0] not in ("uint16", "uint32"):
        raise IndexMismatchError(f"{index.root}: token dtype is {names[0]}, expected uint16 or uint32")
    return np.dtype(names[0] if names else "uint16").newbyteorder("<")


def token_files(index: ShardIndex, dtype: np.dtype) -> list[TokenFile]:
    """The non-empty shards of `index` in order, every number inside its file's bounds.

    Raises:
        IndexMismatchError: naming the shard and the number that cannot be right.
    """
    start = 0
    for shard in index.shards:
        _check_counts(shard, start)
        start += shard.token_count
    return [_file(index, shard, TOKENS, dtype) for shard in index.shards if shard.token_count]


def field_dtype_of(index: ShardIndex, name: str) -> np.dtype:
    """The stored dtype of a per-token field, little-endian.

    Raises:
        KeyError: no shard has the field, naming those there are.
        IndexMismatchError: not every shard has it, or with several dtypes.
    """
    found = {shard.fields.get(name, "") for shard in index.shards}
    if found <= {""}:
        names = sorted({field for shard in index.shards for field in shard.fields})
        raise KeyError(f"{index.root}: no field {name!r}, found {', '.join(names) or 'no fields'}")
    if len(found) > 1:
        dtypes = ", ".join(sorted(dtype or "absent" for dtype in found))
        raise IndexMismatchError(f"{index.root}: field {name} is {dtypes}; expected one dtype in all shards")
    try:
        return np.dtype(found.pop()).newbyteorder("<")
    except TypeError as error:
        raise IndexMismatchError(f"{index.root}: field {name}: {error}") from error


def field_files(index: ShardIndex, name: str, dtype: np.dtype) -> list[TokenFile]:
    """The values of a field in the non-empty shards of a checked `index`, one for each token."""
    dataset = f"{FIELDS}/{name}"
    return [_file(index, shard, dataset, dtype) for shard in index.shards if shard.token_count]


def document_end_files(index: ShardIndex) -> list[TokenFile]:
    """The document ends of the shards of a checked `index` that have documents, one for each document."""
    return [document_file(index, shard, DOCUMENT_ENDS) for shard in index.shards if shard.document_count]


def document_file(index: ShardIndex, shard: ShardInfo, dataset: str) -> TokenFile:
    """The int64 values, one for each document, of `document_ends` or `document_rows`."""
    return _file(index, shard, dataset, np.dtype("<i8"))


def _file(index: ShardIndex, shard: ShardInfo, dataset: str, dtype: np.dtype) -> TokenFile:
    of_documents = dataset in (DOCUMENT_ENDS, DOCUMENT_ROWS)
    count = shard.document_count if of_documents else shard.token_count
    chunk_size = INDEX_CHUNK if of_documents else shard.chunk_size
    offset = shard.extents.get(dataset)
    if not of_documents and shard.compression != "none":
        offset = None
    if offset is not None:
        _check_extent(shard, dataset, offset, count, dtype.itemsize)
    return TokenFile(
        path=shard_path(index, shard),
        offset=offset,
        token_count=count,
        itemsize=dtype.itemsize,
        chunk_size=chunk_size,
        file_bytes=shard.file_bytes,
        dataset=dataset,
    )


def shard_path(index: ShardIndex, shard: ShardInfo) -> str:
    """The file of a shard, below the corpus root.

    Raises:
        IndexMismatchError: the index names a path elsewhere, or a link leads there.
    """
    parts = PurePosixPath(shard.path).parts
    if not parts or shard.path.startswith("/") or ".." in parts or "\0" in shard.path:
        raise IndexMismatchError(
            f"{index.root}: shard {shard.key}: path is '{one_line(shard.path)}', expected one below the corpus root"
        )
    path = os.fspath(index.root)
    for part in parts:
        path = os.path.join(path, part)
        if os.path.islink(path) and leads_out(path, index.root):
            raise IndexMismatchError(f"{path}: is a link that leads out of the corpus")
    return path


def _check_counts(shard: ShardInfo, start: int) -> None:
    for name, least in (("token_count", 0), ("document_count", 0), ("chunk_size", 1), ("file_bytes", 0)):
        value = getattr(shard, name)
        if not isinstance(value, int) or not least <= value < 2**62:
            raise IndexMismatchError(f"shard {shard.key}: {name} is {value!r}, expected {least} to 2^62")
    if shard.global_start != start:
        raise IndexMismatchError(
            f"shard {shard.key}: global_start is {shard.global_start}, expected {start}, "
            "the sum of the token counts before it"
        )


def _check_extent(shard: ShardInfo, dataset: str, offset: int, count: int, itemsize: int) -> None:
    end = shard.file_bytes - count * itemsize
    if not isinstance(offset, int) or not 0 <= offset <= end or offset % itemsize:
        raise IndexMismatchError(
            f"shard {shard.key}: its {count} {dataset} begin at byte {offset!r} of {shard.file_bytes}, "
            f"expected a multiple of {itemsize} from 0 to {end}"
        )
