"""Raw bytes of one input: the only place of this package that opens an input."""

from __future__ import annotations

import hashlib
import os
import stat
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


def open_raw(url: str) -> BinaryIO:
    """An unbuffered binary stream over `url`, which is a path or an fsspec URL.

    Raises:
        InputUnreadableError: there is no such file, it may not be read, or it is not a regular file.
    """
    if url.startswith(REFUSED):
        raise InputUnreadableError(url.removeprefix(REFUSED))
    path = local_path(url)
    if path is None:
        return _open_elsewhere(url)
    try:
        # A FIFO would block in open(), a device would never end.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise InputUnreadableError(f"{url}: found a folder or a special file, expected a regular file")
        return open(path, "rb", buffering=0)
    except (OSError, ValueError) as error:
        raise unreadable(url, error) from error


def _open_elsewhere(url: str) -> BinaryIO:
    import fsspec

    try:
        return cast(BinaryIO, fsspec.open(url, "rb").open())
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
        self._stream = open_raw(url)

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
    def sha256(self) -> str:
        """Hex digest of the bytes read so far."""
        return self._digest.hexdigest()

    def close(self) -> None:
        self._stream.close()

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
