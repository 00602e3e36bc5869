"""Raw bytes of one input: the only place of this package that opens an input."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import ExitStack
from typing import BinaryIO, cast

from corpus_assets.errors import InputUnreadableError

READ_BYTES = 1 << 20
REFUSED = "refused:"


def local_path(url: str) -> str | None:
    """The path that `url` names on this machine, None when it names something elsewhere."""
    for scheme in ("file://", "local://"):
        if url.startswith(scheme) and "::" not in url:
            return url.removeprefix(scheme)
    return None if "://" in url else url


def open_raw(url: str, handles: ExitStack) -> BinaryIO:
    """A binary stream over `url`, which is a path or an fsspec URL; closed with `handles`.

    Raises:
        InputUnreadableError: there is no such file, it may not be read, or it is not a regular file.
    """
    if url.startswith(REFUSED):
        raise InputUnreadableError(url.removeprefix(REFUSED))
    path = local_path(url)
    if path is None:
        return _open_elsewhere(url, handles)
    try:
        # A FIFO would block in open(), a device would never end.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise InputUnreadableError(f"{url}: found a folder or a special file, expected a regular file")
        return handles.enter_context(open(path, "rb", buffering=0))
    except (OSError, ValueError) as error:
        raise unreadable(url, error) from error


def _open_elsewhere(url: str, handles: ExitStack) -> BinaryIO:
    import fsspec

    try:
        return cast(BinaryIO, handles.enter_context(fsspec.open(url, "rb")))
    except Exception as error:  # each fsspec backend has exceptions of its own
        raise unreadable(url, error) from error


def unreadable(url: str, error: Exception, *, offset: int | None = None) -> InputUnreadableError:
    """The error of this package for whatever an operating system or a backend raised."""
    place = "" if offset is None else f" at byte {offset}"
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return InputUnreadableError(f"{url}: cannot be read{place}: {reason or type(error).__name__}")


class RawReader:
    """Blocks of one input's raw bytes, counted and hashed as they pass; owns its handle."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.bytes_read = 0
        self._digest = hashlib.sha256()
        self._handles = ExitStack()
        self._stream = open_raw(url, self._handles)

    def read(self, size: int = READ_BYTES) -> bytes:
        """Up to `size` bytes; empty at the end of the input only."""
        try:
            block = self._stream.read(size)
        except Exception as error:  # each fsspec backend has exceptions of its own
            raise unreadable(self.url, error, offset=self.bytes_read) from error
        self.bytes_read += len(block)
        self._digest.update(block)
        return block

    @property
    def size(self) -> int:
        """Raw bytes of the whole input; the storage must be able to seek."""
        try:
            size = self._stream.seek(0, os.SEEK_END)
            self._stream.seek(self.bytes_read)
        except Exception as error:  # each fsspec backend has exceptions of its own
            raise unreadable(self.url, error) from error
        return size

    @property
    def sha256(self) -> str:
        """Hex digest of the bytes read so far."""
        return self._digest.hexdigest()

    def close(self) -> None:
        self._handles.close()

    def __enter__(self) -> RawReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def content_sha256(url: str) -> str:
    """Hex sha256 of the raw bytes of `url`, streamed.

    Raises:
        InputUnreadableError: it cannot be read to its end.
    """
    with RawReader(url) as reader:
        while reader.read():
            pass
        return reader.sha256
