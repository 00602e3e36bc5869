"""Opening files that somebody else may have put there: never a pipe, a device or a folder."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """The regular file at `path`, for reading; returns at once whatever stands there.

    Raises:
        OSError: it cannot be opened, or is something that may block or never end.
    """
    # O_NONBLOCK: opening a pipe for reading would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))


def read_regular(path: Path) -> bytes:
    """The content of the regular file at `path`.

    Raises:
        OSError: as `open_regular`.
    """
    with open_regular(path) as file:
        return file.read()


def leads_out(path: str | os.PathLike[str], root: str | os.PathLike[str]) -> bool:
    """Whether `path`, or a folder on the way to it, is a link to a place outside of `root`."""
    home, real = os.path.realpath(root), os.path.realpath(path)
    return os.path.commonpath([home, real]) != home
