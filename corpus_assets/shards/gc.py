"""Which files of a corpus nothing refers to any more, and their removal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from corpus_assets.errors import IndexMismatchError
from corpus_assets.shards.damage import damage_path
from corpus_assets.shards.index import INDEX, RELEASES, SHARDS, current_shard, load_index, record_path
from corpus_assets.shards.lease import STALE_AFTER, clear_stale, held_leases
from corpus_assets.shards.manifest import load_manifest
from corpus_assets.shards.quarantine import FOLDER as QUARANTINE
from corpus_assets.shards.readers import paths_being_read
from corpus_assets.shards.release import RELEASE, release_record

_BUILT = re.compile(r"(?P<key>.+)-(?P<build>[0-9a-f]{16})\.(?:h5|jsonl)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage:
    """A file that nothing refers to, its size in bytes, and why it can go."""

    path: Path
    size: int
    reason: str


def find_garbage(root: Path, *, keep_releases: int | None = None) -> list[Garbage]:
    """Files under `root` that no current record, index, release or live reader refers to.

    Args:
        root: the corpus folder.
        keep_releases: how many releases to keep, the latest first; default: all.

    Raises:
        IndexMismatchError: an index or a reader's mark is damaged, so that what it refers to is not known.
    """
    old = _old_releases(root, keep_releases)
    kept = {
        root / RELEASES / f"{path.name.removesuffix('.json')}.{INDEX}"
        for path in _releases(root)
        if path not in old
    }
    indexes = [path for path in [root / INDEX, *sorted(kept)] if path.exists()]
    needed = {shard.path for path in indexes for shard in load_index(path).shards}
    needed |= paths_being_read(root)
    manifest = load_manifest(root)
    keys = {path.name.removesuffix(".json") for path in (root / SHARDS).glob("*.json")}
    wanted = {key for key in keys if manifest is None or key in manifest}
    for key in wanted:
        # Current, though no index names it yet.
        if (info := current_shard(root, key)) is not None:
            needed.add(info.path)
    leased = {lease.key for lease in held_leases(root)}
    found = [*_unreferenced_shards(root, needed, leased)]
    found += _garbage((record_path(root, key) for key in keys - wanted - leased), "its input is gone")
    found += _garbage(_old_quarantine(root, wanted), "rejects of an earlier build")
    for release in old:
        generation = release.with_name(f"{release.stem}.{INDEX}")
        found += _garbage(
            [release, generation, damage_path(root, release.stem)], "a release beyond those kept"
        )
    return sorted(found, key=lambda item: item.path)


def remove_garbage(root: Path, garbage: Iterable[Garbage], *, stale_after: float = STALE_AFTER) -> None:
    """Remove what `find_garbage` found, and what dead builders left in the scratch folder."""
    # The record of a release goes last: as long as it stands, the next call knows what belonged to it.
    for item in sorted(garbage, key=lambda item: _is_release(item.path)):
        item.path.unlink(missing_ok=True)
    clear_stale(root, stale_after=stale_after)


def _is_release(path: Path) -> bool:
    return path.parent.name == RELEASES and path.suffix == ".json" and not path.name.endswith(f".{INDEX}")


def _garbage(paths: Iterable[Path], reason: str) -> list[Garbage]:
    return [
        Garbage(path=path, size=path.stat().st_size, reason=reason) for path in sorted(paths) if path.exists()
    ]


def _unreferenced_shards(root: Path, needed: set[str], leased: set[str]) -> Iterator[Garbage]:
    for path in sorted((root / SHARDS).glob("*.h5")):
        match = _BUILT.fullmatch(path.name)
        # A builder that holds the key may be about to record this very file.
        if f"{SHARDS}/{path.name}" in needed or match is None or match["key"] in leased:
            continue
        yield from _garbage([path], "no index, release or reader refers to it")


def _old_quarantine(root: Path, wanted: set[str]) -> Iterator[Path]:
    by_key: dict[str, list[Path]] = {}
    for path in (root / QUARANTINE).glob("*.jsonl"):
        if match := _BUILT.fullmatch(path.name):
            by_key.setdefault(match["key"], []).append(path)
    for key, paths in by_key.items():
        newest = max(paths, key=lambda path: path.stat().st_mtime_ns)
        info = current_shard(root, key) if key in wanted else None
        for path in paths:
            if path != newest and (info is None or info.build not in path.name):
                yield path


def _releases(root: Path) -> list[Path]:
    """The records of all releases, the latest first."""
    paths = [path for path in (root / RELEASES).glob("*.json") if _is_release(path)]
    return sorted(paths, key=lambda path: release_record(root, path.stem).created, reverse=True)


def _old_releases(root: Path, keep: int | None) -> list[Path]:
    if keep is None:
        return []
    if keep < 1:
        raise ValueError(f"keep_releases is {keep}, expected at least 1: the current release stays")
    if (root / RELEASE).exists() and not _releases(root):
        raise IndexMismatchError(f"{root / RELEASE}: names a release that is not in {root / RELEASES}")
    return _releases(root)[keep:]
