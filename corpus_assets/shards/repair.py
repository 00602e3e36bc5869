"""Rebuild exactly the damaged shards, and prove that they are what they were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from corpus_assets.shards.damage import record_validation
from corpus_assets.shards.index import load_index
from corpus_assets.shards.manifest import observe_inputs
from corpus_assets.shards.pipeline import ShardedTokenizationPipeline
from corpus_assets.shards.validate import validate_corpus

if TYPE_CHECKING:
    from corpus_assets.config import CorpusConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What became of one damaged shard: `error` is None where its digests equal the recorded ones."""

    key: str
    error: str | None


def repair_corpus(
    config: CorpusConfig, *, keys: Sequence[str] | None = None, workers: int | None = None
) -> list[Repair]:
    """Rebuild the damaged shards of a corpus from their inputs.

    A shard is only replaced by one that is equal to the recorded one, digests and all; where the input, the
    tokenizer or an option has changed since, it cannot come back and the error says so.

    Args:
        config: the corpus.
        keys: shards to rebuild; default: those that a full validation finds damaged.
        workers: processes and threads; default: one a core.

    Raises:
        IndexMismatchError: shards.json itself is damaged; build the corpus instead, which indexes it anew.
    """
    index = load_index(config.index_path)
    recorded = {shard.key: shard for shard in index.shards}
    if keys is None:
        report = validate_corpus(config.index_path, workers=workers)
        record_validation(config.root, report)
        keys = report.failed_shards
    manifest = observe_inputs(config)
    possible, repairs = [], []
    for key in keys:
        if key not in recorded:
            repairs.append(Repair(key=key, error=f"{key}: is not in shards.json; build it"))
        elif key not in manifest:
            repairs.append(Repair(key=key, error=f"{key}: its input is gone"))
        elif manifest[key].fingerprint != recorded[key].input_sha256:
            repairs.append(Repair(key=key, error=f"{key}: its input has changed since; build the corpus"))
        else:
            possible.append(manifest[key])
    pipeline = ShardedTokenizationPipeline(config, workers=workers)
    for outcome in pipeline.run(possible, force=True, expected=recorded):
        hint = "; if its tokenizer or an option has changed since, build the corpus"
        error = None if outcome.error is None else outcome.error + hint
        repairs.append(Repair(key=outcome.key, error=error))
    if repairs and not any(repair.error for repair in repairs):
        record_validation(config.root, validate_corpus(config.index_path, workers=workers))
    return sorted(repairs, key=lambda repair: repair.key)
