"""release.json: which generation of the index passed every gate, with the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from corpus_assets.errors import NotReleasedError
from corpus_assets.shards.damage import refuse_damaged
from corpus_assets.shards.index import INDEX, RELEASES, publish_index
from corpus_assets.shards.publish import publish_bytes, scratch_folder
from corpus_assets.shards.records import ShardIndex
from corpus_assets.shards.regular import read_regular

RELEASE = "release.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one check found about the released index."""

    check: str
    passed: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One released generation; `created` is an ISO 8601 time in UTC.

    `throughput` is the loader's rate as a share of the machine's limit, what the next generation is
    compared with; None where it was not measured.
    """

    fingerprint: str
    token_count: int
    document_count: int
    created: str
    evidence: tuple[Evidence, ...]
    throughput: float | None = None


def write_release(
    index: ShardIndex, evidence: Sequence[Evidence], *, created: str, throughput: float | None = None
) -> Release:
    """Release `index`; the release of an earlier generation stays valid for that generation.

    Raises:
        NotReleasedError: a piece of evidence did not pass, or there is none.
    """
    failed = [f"{item.check}: {item.detail}" for item in evidence if not item.passed]
    if failed or not evidence:
        raise NotReleasedError(f"{index.root}: not released: {'; '.join(failed) or 'no check was evaluated'}")
    release = Release(
        fingerprint=index.fingerprint,
        token_count=index.token_count,
        document_count=index.document_count,
        created=created,
        evidence=tuple(evidence),
        throughput=throughput,
    )
    content = orjson.dumps(release, option=orjson.OPT_INDENT_2)
    scratch = scratch_folder(index.root)
    publish_index(index, generation_path(index.root, release.fingerprint))
    publish_bytes(_release_path(index.root, release.fingerprint), content, scratch=scratch)
    publish_bytes(index.root / RELEASE, content, scratch=scratch)
    return release


def generation_path(root: Path, fingerprint: str) -> Path:
    """The index of a released generation; a store can be opened on it while newer ones are built."""
    return root / RELEASES / f"{fingerprint}.{INDEX}"


def load_release(root: Path, fingerprint: str | None = None) -> Release:
    """The release of the generation `fingerprint`, else the latest, to be relied upon.

    Raises:
        NotReleasedError: there is none, its record is damaged, or a validation found the generation damaged.
    """
    release = release_record(root, fingerprint)
    refuse_damaged(root, release.fingerprint)
    return release


def release_record(root: Path, fingerprint: str | None = None) -> Release:
    """What was released, whatever has been found since.

    Raises:
        NotReleasedError: there is none, or its record is damaged.
    """
    path = root / RELEASE if fingerprint is None else _release_path(root, fingerprint)
    release = _read(path)
    if release is None:
        latest = None if fingerprint is None else _read(root / RELEASE)
        found = "no release" if latest is None else f"the latest release is {latest.fingerprint}"
        raise NotReleasedError(
            f"{root}: found {found}, expected one for index {fingerprint or '(any)'}; "
            "materialise training_release once every blocking check passes"
        )
    if fingerprint is not None and release.fingerprint != fingerprint:
        raise NotReleasedError(f"{path}: is for {release.fingerprint}, expected {fingerprint}")
    return release


def _release_path(root: Path, fingerprint: str) -> Path:
    return root / RELEASES / f"{fingerprint}.json"


def _read(path: Path) -> Release | None:
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(Release).validate_json(read_regular(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NotReleasedError(f"{path}: {error.strerror}, expected the record of a release") from error
    except ValidationError as error:
        raise NotReleasedError(
            f"{path}: damaged: {error.errors()[0]['msg']}; release again, or remove it"
        ) from error
