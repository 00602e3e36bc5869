"""Who reads which generation: a mark that `corpus gc` respects, also from another machine."""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path

from corpus_assets.shards.lease import STALE_AFTER, is_running, machine_identity, process_start
from corpus_assets.shards.records import ShardIndex

READERS = ".readers"


class ReaderMark:
    """Says that this process reads the files of one index, until `remove` or the end of the process.

    The mark is a file that is refreshed while the process lives. On a root that cannot be written there is
    none, and nothing else changes: files stay readable while they are mapped, on a local file system.
    """

    def __init__(self, index: ShardIndex, *, stale_after: float = STALE_AFTER) -> None:
        self._path = index.root / READERS / f"{uuid.uuid4().hex}.json"
        self._stop = threading.Event()
        content = {
            "fingerprint": index.fingerprint,
            "machine": machine_identity(),
            "pid": os.getpid(),
            "process_start": process_start(os.getpid()),
            "paths": [shard.path for shard in index.shards],
        }
        try:
            self._path.parent.mkdir(exist_ok=True)
            self._path.write_text(json.dumps(content), encoding="utf-8")
        except OSError:
            return
        interval = min(stale_after / 5, 60.0)
        threading.Thread(target=self._refresh, args=(interval,), daemon=True).start()

    def _refresh(self, interval: float) -> None:
        while not self._stop.wait(interval):
            with suppress(OSError):
                os.utime(self._path)

    def remove(self) -> None:
        """Take the mark away; safe to call again."""
        self._stop.set()
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def paths_being_read(root: Path, *, stale_after: float = STALE_AFTER) -> set[str]:
    """Paths of shards, relative to `root`, that a live reader has marked; marks of the dead are removed."""
    paths: set[str] = set()
    for mark in sorted((root / READERS).glob("*.json")):
        try:
            content = json.loads(mark.read_text(encoding="utf-8"))
            age = time.time() - mark.stat().st_mtime
            dead = content["machine"] == machine_identity() and not is_running(
                content["pid"], content["process_start"]
            )
            if dead or age > stale_after:
                mark.unlink(missing_ok=True)
            else:
                paths.update(content["paths"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return paths
