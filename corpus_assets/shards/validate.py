"""validate_corpus: everything that is wrong with a corpus, at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from corpus_assets.errors import IndexMismatchError, one_line
from corpus_assets.shards.damage import COVERAGE, INPUTS, RECORD, damage_among
from corpus_assets.shards.index import current_shard, load_index, refuse_mixture
from corpus_assets.shards.inspection import Finding, ShardInspector
from corpus_assets.shards.manifest import load_manifest, manifest_damage
from corpus_assets.shards.records import ShardIndex, ShardInfo
from corpus_assets.shards.trained import untrained_findings

if TYPE_CHECKING:
    from corpus_assets.config import CorpusConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationReport:
    """What a validation looked at and found.

    Attributes:
        fingerprint: of the index; None if it cannot be loaded.
        shard_count: shards looked at.
        token_bytes: bytes of tokens hashed; 0 for a quick validation.
        findings: in key order, the index's own first.
    """

    fingerprint: str | None
    shard_count: int
    token_bytes: int
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        return not self.findings

    @property
    def failed_shards(self) -> list[str]:
        """Keys of the shards with findings, each once, in order."""
        return sorted({finding.shard for finding in self.findings if finding.shard is not None})


def validate_corpus(
    index_path: str | Path,
    *,
    quick: bool = False,
    workers: int | None = None,
    on_shard: Callable[[ShardInfo], None] | None = None,
    config: CorpusConfig | None = None,
) -> ValidationReport:
    """Compare a corpus with its index, shard by shard in parallel.

    Args:
        index_path: shards.json or its folder.
        quick: sizes, counts, attributes and places only; otherwise every byte is read and hashed, and a sound corpus
            with a loss mask must have a token that is trained on.
        workers: threads; default: one a core.
        on_shard: called with each shard that is done.
        config: of the corpus, if at hand: names roles that its inputs have where nothing is trained on.
    """
    try:
        index = load_index(index_path)
    except IndexMismatchError as error:
        finding = Finding(shard=None, check="index", message=str(error))
        return ValidationReport(fingerprint=None, shard_count=0, token_bytes=0, findings=(finding,))
    findings = list(index_findings(index))

    def inspect(info: ShardInfo) -> list[Finding]:
        inspector = ShardInspector(index.root, info)
        found = list(inspector.quick() if quick else inspector.full())
        if on_shard is not None:
            on_shard(info)
        return found

    with ThreadPoolExecutor(max_workers=workers or os.cpu_count()) as pool:
        for found in pool.map(inspect, index.shards):
            findings += found
    if not quick and not damage_among(findings):
        findings += untrained_findings(index, config)
    width = 4 if index.shards and index.shards[0].dtype == "uint32" else 2
    return ValidationReport(
        fingerprint=index.fingerprint,
        shard_count=len(index.shards),
        token_bytes=0 if quick else index.token_count * width,
        findings=tuple(findings),
    )


def index_findings(index: ShardIndex) -> list[Finding]:
    """What is wrong with an index on its own, against the inputs as last observed, and with the records of both."""
    findings = []
    try:
        refuse_mixture(index)
    except IndexMismatchError as error:
        findings.append(Finding(shard=None, check="one_tokenizer", message=str(error)))
    for shard in index.shards:
        try:
            current_shard(index.root, shard.key)
        except IndexMismatchError as error:
            findings.append(Finding(shard=shard.key, check=RECORD, message=str(error)))
    if (damage := manifest_damage(index.root)) is not None:
        message = f"{damage}; `corpus build` observes them anew"
        return [*findings, Finding(shard=None, check=INPUTS, message=message)]
    manifest = load_manifest(index.root)
    indexed = {shard.key for shard in index.shards}
    return findings + [
        Finding(
            shard=file.key,
            check=COVERAGE,
            message=f"{index.root}: input {one_line(file.name)} is not in shards.json; build it and index again",
        )
        for file in (manifest.files if manifest is not None else ())
        if file.key not in indexed
    ]
