"""One builder per partition, on any file system with POSIX mkdir and rename.

A lease is a folder. Whoever makes it builds the partition, and drafts everything inside it. Whoever takes a
stale lease over first moves that folder away: a builder that was paused and comes back late then renames
from a path that is gone, so it cannot publish over its successor. The drafts' folder is named by a token of
its own, so the successor's lease does not bring the path back.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from corpus_assets.errors import LeaseError
from corpus_assets.shards.publish import SCRATCH
from corpus_assets.shards.regular import read_regular

if TYPE_CHECKING:
    from pydantic import TypeAdapter

STALE_AFTER = 600.0
_SUFFIX = ".lease"
_OWNER = "owner.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseOwner:
    """Who holds a lease; `machine` tells whether its process can be looked up from here."""

    token: str
    host: str
    machine: str
    pid: int
    process_start: str
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLease:
    """A lease as `corpus status` shows it; age in seconds since it was last refreshed."""

    key: str
    owner: LeaseOwner | None
    age: float
    stale: bool


class LeaseHeldError(LeaseError):
    """Another builder holds the partition."""


@contextmanager
def lease(root: Path, key: str, *, stale_after: float = STALE_AFTER) -> Iterator[Path]:
    """Hold the partition `key` of the corpus at `root`; yields the folder to draft in.

    Raises:
        LeaseHeldError: a live builder holds it.
    """
    folder = lease_folder(root, key)
    owner = _this_process()
    _acquire(folder, owner, stale_after=stale_after)
    stop = threading.Event()
    refresher = threading.Thread(target=_refresh, args=(folder, owner, stale_after, stop), daemon=True)
    refresher.start()
    try:
        yield folder / owner.token
    except FileNotFoundError as error:
        if _owner_of(folder) == owner:
            raise
        raise LeaseError(
            f"{key}: the lease was taken over by {_describe(folder)}; nothing published"
        ) from error
    finally:
        stop.set()
        refresher.join()
        if _owner_of(folder) == owner:
            _evict(folder, owner)


def lease_folder(root: Path, key: str) -> Path:
    """Where the lease of `key` stands while someone holds it."""
    return root / SCRATCH / f"{key}{_SUFFIX}"


def held_leases(root: Path, *, stale_after: float = STALE_AFTER) -> list[HeldLease]:
    """All leases under `root`, by key."""
    found = []
    for folder in sorted((root / SCRATCH).glob(f"*{_SUFFIX}")):
        with suppress(FileNotFoundError):
            found.append(
                HeldLease(
                    key=folder.name.removesuffix(_SUFFIX),
                    owner=_owner_of(folder),
                    age=age_of(folder),
                    stale=_is_stale(folder, stale_after),
                )
            )
    return found


def clear_stale(root: Path, *, stale_after: float = STALE_AFTER) -> list[Path]:
    """Remove what dead builders left in the scratch folder; returns what went."""
    removed = []
    for path in sorted((root / SCRATCH).glob("*")):
        with suppress(FileNotFoundError):
            gone = _is_stale(path, stale_after) if path.suffix == _SUFFIX else age_of(path) > stale_after
            if gone:
                _evict(path, _owner_of(path)) if path.suffix == _SUFFIX else _remove(path)
                removed.append(path)
    return removed


def _acquire(folder: Path, owner: LeaseOwner, *, stale_after: float) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(100):
        if _claim(folder, owner):
            return
        holder = _owner_of(folder)
        try:
            if not _is_stale(folder, stale_after):
                raise LeaseHeldError(
                    f"{folder.name.removesuffix(_SUFFIX)}: being built by {_describe(folder)}"
                )
        except FileNotFoundError:
            continue
        _evict(folder, holder)
    raise LeaseHeldError(f"{folder}: changes hands too fast")


def _claim(folder: Path, owner: LeaseOwner) -> bool:
    """Make the lease with its owner already inside: renaming onto a folder that is not empty fails."""
    draft = folder.with_name(f"{uuid.uuid4().hex}.claim")
    (draft / owner.token).mkdir(parents=True)
    (draft / _OWNER).write_text(json.dumps(asdict(owner)), encoding="utf-8")
    try:
        draft.rename(folder)
    except OSError:
        _remove(draft)
        if not folder.exists() and not os.access(folder.parent, os.W_OK):
            raise
        return False
    return True


def _evict(folder: Path, holder: LeaseOwner | None) -> None:
    """Move a lease away; puts it back if someone fresh had taken it in the meantime.

    It goes whole: one that is taken apart where it stands would, after a kill, be held by nobody.
    """
    moved = folder.with_name(f"{uuid.uuid4().hex}.evicted")
    with suppress(FileNotFoundError):
        folder.rename(moved)
        if _owner_of(moved) != holder:
            with suppress(OSError):
                moved.rename(folder)
                return
        _remove(moved)


def _refresh(folder: Path, owner: LeaseOwner, stale_after: float, stop: threading.Event) -> None:
    while not stop.wait(min(stale_after / 5, 30.0)):
        with suppress(FileNotFoundError):
            if _owner_of(folder) == owner:
                os.utime(folder / _OWNER)


def _owner_of(folder: Path) -> LeaseOwner | None:
    """Who holds the lease; None where its record is missing or damaged, so that only its age tells."""
    try:
        return _owner_adapter().validate_json(read_regular(folder / _OWNER), strict=True)
    except (OSError, ValueError):
        return None


@cache
def _owner_adapter() -> TypeAdapter[LeaseOwner]:
    from pydantic import TypeAdapter as Adapter

    return Adapter(LeaseOwner)


def _describe(folder: Path) -> str:
    owner = _owner_of(folder)
    return f"process {owner.pid} on {owner.host}" if owner else "another builder"


def age_of(path: Path) -> float:
    """Seconds since `path` was refreshed, by the clock of the file system that holds it."""
    mark = path / _OWNER
    changed = (mark if mark.exists() else path).stat().st_mtime
    probe = path.parent / f"{uuid.uuid4().hex}.clock"
    try:
        probe.touch()
        return probe.stat().st_mtime - changed
    except OSError:
        return time.time() - changed
    finally:
        probe.unlink(missing_ok=True)


def _is_stale(folder: Path, stale_after: float) -> bool:
    owner = _owner_of(folder)
    if (
        owner is not None
        and owner.machine == machine_identity()
        and not is_running(owner.pid, owner.process_start)
    ):
        return True
    return age_of(folder) > stale_after


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _this_process() -> LeaseOwner:
    return LeaseOwner(
        token=uuid.uuid4().hex,
        host=socket.gethostname(),
        machine=machine_identity(),
        pid=os.getpid(),
        process_start=process_start(os.getpid()),
        since=time.time(),
    )


def machine_identity() -> str:
    """Identity of the space in which a pid means something; empty where the system does not tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return f"unknown-{uuid.getnode()}-{socket.gethostname()}"


def process_start(pid: int) -> str:
    """When the process with `pid` started, so that a reused pid is not taken for it; empty if none runs."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return "" if Path("/proc/self/stat").exists() else "unknown"
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else fields[18]


def is_running(pid: int, started: str) -> bool:
    """Whether the process `pid` of this machine is still the one that started then."""
    return process_start(pid) == started
