"""ReadingMark: says on the corpus's own disk that this process reads it, so that `corpus gc` spares the files."""

from __future__ import annotations

import os
import weakref
from typing import Any

from corpus_assets.shards.readers import ReaderMark
from corpus_assets.shards.records import ShardIndex


class ReadingMark:
    """The mark of one store in each process that reads through it.

    A forked or unpickled copy makes a mark of its own when it first reads. The mark goes with `release`, with the
    last reference to this object, or with the process; a child never takes its parent's away.
    """

    def __init__(self, index: ShardIndex) -> None:
        self._index = index
        self._process: int | None = None
        self._taken_away: weakref.finalize | None = None

    def hold(self) -> None:
        """Make the mark of this process, unless it is there."""
        if self._process == os.getpid():
            return
        if self._taken_away is not None:
            self._taken_away.detach()
        self._process = os.getpid()
        self._taken_away = weakref.finalize(self, _remove, ReaderMark(self._index), self._process)

    def release(self) -> None:
        """Take this process's mark away. Safe to call again."""
        if self._taken_away is not None:
            self._taken_away()
        self._process = self._taken_away = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_index": self._index, "_process": None, "_taken_away": None}


def _remove(mark: ReaderMark, process: int) -> None:
    if os.getpid() == process:
        mark.remove()
