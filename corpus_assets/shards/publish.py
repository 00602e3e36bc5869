"""The one place where files of a corpus come into being: scratch, fsync, rename.

A published path holds either its old content or its new content, whatever kills the process.
"""

from __future__ import annotations

import ctypes
import errno
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from corpus_assets.errors import ConfigError

SCRATCH = ".building"
_SYNC_FILE_RANGE_WRITE = 2  # begin to write; without 1 and 4, which wait


@contextmanager
def published(path: Path, *, scratch: Path) -> Iterator[Path]:
    """Yield a draft path in `scratch` that becomes `path` only if the block succeeds.

    `scratch` must exist, on the same file system as `path`; a lease's folder that was taken away stops
    the publication. The draft is fsynced before the rename and the folder after it; a failing block leaves
    neither draft nor change.
    """
    # Hidden: left by a kill in an input folder, it is no input.
    draft = scratch / f".{uuid.uuid4().hex}.draft"
    try:
        yield draft
        sync(draft)
        path.parent.mkdir(parents=True, exist_ok=True)
        os.replace(draft, path)
        sync(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def publish_bytes(path: Path, data: bytes, *, scratch: Path) -> None:
    """Publish `data` as the whole content of `path`."""
    with published(path, scratch=scratch) as draft:
        draft.write_bytes(data)


def scratch_folder(root: Path) -> Path:
    """The scratch folder of the corpus at `root`, made if it does not exist.

    Raises:
        ConfigError: it cannot be made or written.
    """
    folder = root / SCRATCH
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            code = errno.EROFS if os.statvfs(folder).f_flag & os.ST_RDONLY else errno.EACCES
            raise OSError(code, os.strerror(code))
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror}, expected a folder that can be written") from error
    return folder


def sync(path: Path) -> None:
    """Have the file system keep `path`, a file or a folder, through a power failure."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def start_writing(descriptor: int) -> None:
    """Have the kernel begin to write an open file to its disk, so that `sync` finds less to do; does not wait.

    sync_file_range(2), which leaves the pages in the cache; nothing where there is none.
    """
    if (call := _sync_file_range()) is not None:
        call(descriptor, 0, 0, _SYNC_FILE_RANGE_WRITE)


@cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    call = getattr(ctypes.CDLL(None), "sync_file_range", None) if os.name == "posix" else None
    if call is not None:
        call.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return call
