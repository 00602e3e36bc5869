"""The rows in quarantine: those of the present shards, and those that made the last build of a shard fail."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from corpus_assets.errors import ConfigError, ShardError, one_line
from corpus_assets.shards.corpus import stale_keys
from corpus_assets.shards.index import current_shard, record_path
from corpus_assets.shards.manifest import load_manifest, manifest_damage
from corpus_assets.shards.quarantine import FOLDER, quarantine_path
from corpus_assets.sources.lines import RAW_PREFIX_BYTES

if TYPE_CHECKING:
    from corpus_assets.config import CorpusConfig
    from corpus_assets.shards.manifest import InputFile

_Kind = TypeVar("_Kind", int, str)
_NAME = re.compile(r"(?P<key>.+)-(?P<build>[0-9a-f]{16})\.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineFile:
    """The rejects of one build of one input shard.

    Attributes:
        key: the partition.
        name: of the input shard.
        path: the JSON Lines file.
        built: whether these rows are the rejects of the present shard; else its last build failed for them.
    """

    key: str
    name: str
    path: Path
    built: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedRow:
    """A row that is no document: where it stood, why, and its bytes, or the first 64 KiB of them."""

    key: str
    name: str
    row: int
    reason: str
    detail: str
    raw: bytes

    @property
    def why_no_line(self) -> str | None:
        """Why `raw` cannot be a line of JSON Lines as it is; None if it can."""
        if len(self.raw) == RAW_PREFIX_BYTES:
            return f"only its first {RAW_PREFIX_BYTES:,} bytes are kept"
        if not self.raw.strip():
            return "its bytes are not kept"
        return "it has line ends inside" if b"\n" in self.raw else None


def quarantine_files(config: CorpusConfig, *, shard: str | None = None) -> list[QuarantineFile]:
    """Where the rejects of each input shard stand, in key order; rejects of older builds are left out.

    Args:
        config: the corpus.
        shard: only this input shard, by name or key.

    Raises:
        ConfigError: the corpus was never built, its record of inputs is damaged, or it has no such shard.
    """
    manifest = load_manifest(config.root)
    if manifest is None:
        damage = manifest_damage(config.root)
        raise ConfigError(damage or f"{config.root}: never built, expected a corpus that was")
    wanted = manifest.files if shard is None else (manifest.find(shard),)
    newest = _newest(config.root)
    stale = stale_keys(config, manifest)
    found = (_file_of(config.root, file, newest.get(file.key), stale=file.key in stale) for file in wanted)
    return [file for file in found if file is not None]


def rows_of(file: QuarantineFile) -> Iterator[QuarantinedRow]:
    """The rows of one file, in input order.

    Raises:
        ShardError: a line is not what a build writes.
    """
    with file.path.open("rb") as lines:
        for number, line in enumerate(lines):
            try:
                fields = orjson.loads(line)
                yield QuarantinedRow(
                    key=file.key,
                    name=file.name,
                    row=_checked(fields["row"], int),
                    reason=_checked(fields["reason"], str),
                    detail=_checked(fields["detail"], str),
                    raw=_raw(fields),
                )
            except (ValueError, KeyError, TypeError, binascii.Error) as error:
                raise ShardError(
                    f"{file.path}: line {number} is no quarantined row: {one_line(error)}; "
                    f"`corpus build --shard {file.key} --force` writes the file anew"
                ) from error


def _file_of(root: Path, file: InputFile, newest: Path | None, *, stale: bool) -> QuarantineFile | None:
    present = current_shard(root, file.key)
    if newest is not None and (present is None or (stale and _is_newer(newest, record_path(root, file.key)))):
        return QuarantineFile(key=file.key, name=file.name, path=newest, built=False)
    if present is None or not present.ledger.rejected_count:
        return None
    path = quarantine_path(root, file.key, present.build)
    return QuarantineFile(key=file.key, name=file.name, path=path, built=True) if path.exists() else None


def _newest(root: Path) -> dict[str, Path]:
    """The newest quarantine file of each key."""
    newest: dict[str, Path] = {}
    for path in (root / FOLDER).glob("*.jsonl"):
        match = _NAME.fullmatch(path.name)
        if match and (match["key"] not in newest or _is_newer(path, newest[match["key"]])):
            newest[match["key"]] = path
    return newest


def _is_newer(one: Path, other: Path) -> bool:
    return one.stat().st_mtime_ns > other.stat().st_mtime_ns


def _raw(fields: dict[str, Any]) -> bytes:
    if "raw" in fields:
        return _checked(fields["raw"], str).encode("utf-8")
    return base64.b64decode(_checked(fields["raw_base64"], str), validate=True)


def _checked(value: Any, kind: type[_Kind]) -> _Kind:
    if not isinstance(value, kind):
        raise TypeError(f"found {type(value).__name__}, expected {kind.__name__}")
    return value
