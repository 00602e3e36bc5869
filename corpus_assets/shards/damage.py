"""What a validation found wrong with a released generation: kept beside its release until a full one passes.

A release says that every byte was right when it was written. A trainer that opens the corpus later asks here whether
that still holds, as far as anybody has looked.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from corpus_assets.errors import CorpusError, NotReleasedError, one_line
from corpus_assets.shards.index import RELEASES
from corpus_assets.shards.publish import publish_bytes, scratch_folder
from corpus_assets.shards.regular import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterable

    from corpus_assets.shards.inspection import Finding
    from corpus_assets.shards.validate import ValidationReport

# What concerns the next generation damages nothing of this one: inputs that came since, and the records of both.
COVERAGE, INPUTS, RECORD = "coverage", "inputs", "record"
_log = logging.getLogger(__name__)


def damage_path(root: Path, fingerprint: str) -> Path:
    """Where the damage of a released generation is recorded."""
    return root / RELEASES / f"{fingerprint}.damaged"


def damage_among(findings: Iterable[Finding]) -> list[Finding]:
    """Those that make the generation itself doubtful."""
    return [finding for finding in findings if finding.check not in (COVERAGE, INPUTS, RECORD)]


def record_validation(root: Path, report: ValidationReport) -> None:
    """Record what `report` found about a released generation, or that all is well.

    Args:
        root: the corpus folder; where it cannot be written, nothing is recorded, and that is logged.
        report: of a full validation, or of a quick one that found something.
    """
    if report.fingerprint is None or not (root / RELEASES / f"{report.fingerprint}.json").exists():
        return
    path = damage_path(root, report.fingerprint)
    findings = damage_among(report.findings)
    try:
        if not findings:
            path.unlink(missing_ok=True)
            return
        now = datetime.now(UTC).isoformat(timespec="seconds")
        said = f"{len(findings)} found at {now}, the first: {one_line(findings[0].message)}"
        publish_bytes(path, said.encode(), scratch=scratch_folder(root))
    except (CorpusError, OSError) as error:
        _log.warning("%s: what the validation found cannot be recorded: %s", path, error)


def refuse_damaged(root: Path, fingerprint: str) -> None:
    """Raise NotReleasedError if the last validation of a released generation found damage."""
    path = damage_path(root, fingerprint)
    try:
        said = one_line(read_regular(path).decode("utf-8", "replace"), limit=600)
    except FileNotFoundError:
        return
    except OSError as error:
        said = f"its record cannot be read: {error.strerror}"
    raise NotReleasedError(
        f"{root}: index {fingerprint} was released, but is damaged: {said}; "
        "`corpus repair` restores it, and a full `corpus validate` without findings clears this"
    )
