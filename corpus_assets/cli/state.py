"""Where a corpus stands: what `corpus status` shows, gathered without changing anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from corpus_assets.errors import CorpusError, IndexMismatchError, NotReleasedError
from corpus_assets.shards.corpus import MISSING, stale_keys
from corpus_assets.shards.index import RELEASES, load_index
from corpus_assets.shards.lease import HeldLease, held_leases
from corpus_assets.shards.manifest import InputFile, InputManifest, load_manifest
from corpus_assets.shards.records import Ledger, ShardIndex
from corpus_assets.shards.release import Evidence, load_release
from corpus_assets.sources.discover import list_inputs

if TYPE_CHECKING:
    from pathlib import Path

    from corpus_assets.config import CorpusConfig

State = Literal["built", "missing", "stale", "failed"]
UNREAD = "the input may have changed: it was not read since it was touched"

SINCE = " (before the input was touched; the next build tries it again)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardState:
    """One input shard: whether its token shard is what it would be if it were built now, else why not."""

    key: str
    name: str
    state: State
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """The present generation; `pending` says why a build would write another one, None if it would not."""

    fingerprint: str
    written: str
    shard_count: int
    document_count: int
    token_count: int
    pending: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseState:
    """The latest release; `current` if it is of the present index."""

    fingerprint: str
    created: str
    current: bool
    release_count: int
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusState:
    """All that `corpus status` says of one corpus.

    Attributes:
        shards: the input shards in key order; None where `problems` says why they cannot be told.
        ledger: over the shards of the index.
        leases: partitions that are being built, or were by a builder that is gone.
        findings: what each check found when it last ran; empty where Dagster holds none.
        problems: what cannot be told, and why.
    """

    name: str
    input: str
    root: str
    shards: tuple[ShardState, ...] | None
    index: IndexState | None
    release: ReleaseState | None
    ledger: Ledger | None
    leases: tuple[HeldLease, ...]
    findings: tuple[Evidence, ...]
    problems: tuple[str, ...]

    @property
    def counts(self) -> dict[State, int]:
        found = Counter(shard.state for shard in self.shards or ())
        states: tuple[State, ...] = ("built", "missing", "stale", "failed")
        return {state: found[state] for state in states}


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """What Dagster remembers of a corpus: why partitions failed, what checks found."""

    failures: Mapping[str, str]
    findings: tuple[Evidence, ...]


def corpus_state(config: CorpusConfig, records: Records) -> CorpusState:
    """Look at the inputs, the records, the index, the release and the leases of `config`."""
    problems = []
    shards: tuple[ShardState, ...] | None = None
    try:
        shards = _shard_states(config, records.failures)
    except CorpusError as error:
        problems.append(str(error))
    index, release = None, None
    try:
        index = load_index(config.index_path) if config.index_path.exists() else None
        release = _release_state(config.root, index)
    except (IndexMismatchError, NotReleasedError) as error:
        problems.append(str(error))
    return CorpusState(
        name=config.name,
        input=config.input,
        root=str(config.root),
        shards=shards,
        index=None if index is None else _index_state(index, config.index_path, shards),
        release=release,
        ledger=None if index is None else index.ledger,
        leases=tuple(held_leases(config.root)),
        findings=records.findings,
        problems=tuple(problems),
    )


def _shard_states(config: CorpusConfig, failures: Mapping[str, str]) -> tuple[ShardState, ...]:
    manifest, unread = _inputs_now(config)
    stale = stale_keys(config, manifest)
    states = []
    for file in manifest.files:
        reason = stale.get(file.key)
        state: State = "built"
        if reason == MISSING:
            state, reason = "missing", None
        elif file.key in unread:
            state, reason = "stale", UNREAD
        elif reason is not None:
            state = "stale"
        if file.key in failures and state != "built":
            state, reason = "failed", failures[file.key]
            if file.key in unread:
                reason += SINCE
        states.append(ShardState(key=file.key, name=file.name, state=state, reason=reason))
    return tuple(states)


def _inputs_now(config: CorpusConfig) -> tuple[InputManifest, set[str]]:
    """The inputs as listed, with the fingerprints that are known; and the keys of those that were not read."""
    recorded = load_manifest(config.root)
    known = {} if recorded is None else {file.key: file for file in recorded.files}
    files, unread = [], set()
    for item in list_inputs(config.input, follow_symlinks=config.follow_symlinks):
        file = known.get(item.key)
        if file is None or (file.url, file.signature) != (item.url, item.signature):
            unread.add(item.key)
            file = InputFile(
                key=item.key,
                name=item.name,
                url=item.url,
                size=item.size,
                signature=item.signature,
                fingerprint=file.fingerprint if file else "",
            )
        files.append(file)
    return InputManifest(files=tuple(files)), unread


def _index_state(index: ShardIndex, path: Path, shards: tuple[ShardState, ...] | None) -> IndexState:
    return IndexState(
        fingerprint=index.fingerprint,
        written=_time_of(path),
        shard_count=len(index.shards),
        document_count=index.document_count,
        token_count=index.token_count,
        pending=_pending(index, shards),
    )


def _pending(index: ShardIndex, shards: tuple[ShardState, ...] | None) -> str | None:
    """Why the index is not of the inputs as they are."""
    if shards is None:
        return "the state of the input shards is not known"
    indexed, present = {shard.key for shard in index.shards}, {shard.key for shard in shards}
    unbuilt = sum(shard.state != "built" for shard in shards)
    parts = (
        (len(present - indexed), "not in it"),
        (len(indexed - present), "in it but gone"),
        (unbuilt, "not up to date"),
    )
    return ", ".join(f"{count:,} {what}" for count, what in parts if count) or None


def _release_state(root: Path, index: ShardIndex | None) -> ReleaseState | None:
    from corpus_assets.shards.release import RELEASE

    if not (root / RELEASE).exists():
        return None
    release = load_release(root)
    return ReleaseState(
        fingerprint=release.fingerprint,
        created=release.created,
        current=index is not None and index.fingerprint == release.fingerprint,
        release_count=sum(1 for path in (root / RELEASES).glob("*.json") if "." not in path.stem),
        evidence=release.evidence,
    )


def _time_of(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
