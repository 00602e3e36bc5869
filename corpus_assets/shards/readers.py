"""Who reads which generation: a mark that `corpus gc` respects, also from another machine."""

from __future__ import annotations

import json
import os
import threading
import uuid
from contextlib import suppress
from pathlib import Path

from corpus_assets.errors import IndexMismatchError
from corpus_assets.shards.lease import STALE_AFTER, age_of, is_running, machine_identity, process_start
from corpus_assets.shards.records import ShardIndex
from corpus_assets.shards.regular import read_regular

READERS = ".readers"


class ReaderMark:
    """Says that this process reads the files of one index, until `remove` or the end of the process.

    The mark is a file that is refreshed while the process lives. On a root that cannot be written there is
    none, and nothing else changes: files stay readable while they are mapped, on a local file system.
    """

    def __init__(self, index: ShardIndex, *, stale_after: float = STALE_AFTER) -> None:
        self._path = index.root / READERS / f"{uuid.uuid4().hex}.json"
        self._stop = threading.Event()
        self._lock = threading.Lock()
        content = {
            "fingerprint": index.fingerprint,
            "machine": machine_identity(),
            "pid": os.getpid(),
            "process_start": process_start(os.getpid()),
            "paths": [shard.path for shard in index.shards],
        }
        self._content = json.dumps(content)
        try:
            self._path.parent.mkdir(exist_ok=True)
            self._write()
        except OSError:
            return
        interval = min(stale_after / 5, 60.0)
        threading.Thread(target=self._refresh, args=(interval,), daemon=True).start()

    def _write(self) -> None:
        draft = self._path.with_suffix(".draft")
        draft.write_text(self._content, encoding="utf-8")
        draft.replace(self._path)

    def _refresh(self, interval: float) -> None:
        while not self._stop.wait(interval):
            with self._lock, suppress(OSError):
                if self._stop.is_set():
                    return
                try:
                    os.utime(self._path)
                except FileNotFoundError:  # this process was paused, and looked dead from another machine
                    self._write()

    def remove(self) -> None:
        """Take the mark away; safe to call again."""
        with self._lock, suppress(OSError):
            self._stop.set()
            self._path.unlink(missing_ok=True)


def paths_being_read(root: Path, *, stale_after: float = STALE_AFTER) -> set[str]:
    """Paths of shards, relative to `root`, that a live reader has marked; marks of the dead are removed.

    A reader of this machine is alive while its process is, however long it was paused; one of another machine
    while its mark is refreshed, by the clock of the file system.

    Raises:
        IndexMismatchError: a fresh mark is damaged, so that what its reader needs is not known.
    """
    paths: set[str] = set()
    for mark in sorted((root / READERS).glob("*.json")):
        with suppress(FileNotFoundError):
            if (marked := _marked_paths(mark, stale_after)) is None:
                mark.unlink()
            else:
                paths |= marked
    return paths


def _marked_paths(mark: Path, stale_after: float) -> set[str] | None:
    """What the reader that made `mark` reads; None if it is dead."""
    try:
        content = json.loads(read_regular(mark))
        if content["machine"] == machine_identity():
            alive = is_running(content["pid"], content["process_start"])
        else:
            alive = age_of(mark) <= stale_after
        return set(content["paths"]) if alive else None
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        if age_of(mark) > stale_after:
            return None
        raise IndexMismatchError(
            f"{mark}: not the mark of a reader, so what it reads is not known; "
            f"it counts no more when it is {stale_after:g} s old"
        ) from error
