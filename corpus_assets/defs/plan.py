"""Which partitions need a build, and whether the tail of the graph is due: by recorded fingerprints.

Automation conditions compare two ticks and can lose a change that lands between them. This compares what
each shard was made from with the input as it is, so a change that was missed once is seen the next time.
"""

from collections.abc import Collection
from dataclasses import dataclass

import dagster as dg

from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.partitions import KeyRange, contiguous_ranges, partition_states
from corpus_assets.errors import IndexMismatchError, NotReleasedError
from corpus_assets.formats import content_fingerprint
from corpus_assets.shards.build import build_identity
from corpus_assets.shards.corpus import stale_keys
from corpus_assets.shards.index import load_index
from corpus_assets.shards.manifest import InputManifest
from corpus_assets.shards.release import load_release


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildPlan:
    """What there is to do for a corpus.

    Attributes:
        reasons: the partitions to build, and why.
        ranges: the same partitions as runs.
        in_progress: partitions that a run or a backfill is at; they are left to it.
        release_due: why index, checks and release have to run even without a build; empty if they need not.
    """

    reasons: dict[str, str]
    ranges: tuple[KeyRange, ...]
    in_progress: frozenset[str]
    release_due: str


def plan_build(
    instance: dg.DagsterInstance,
    corpus: Corpus,
    manifest: InputManifest,
    *,
    also: Collection[str] = (),
    left_out: Collection[str] = (),
) -> BuildPlan:
    """Missing, stale and failed partitions among the registered ones, and those of `also`, without `left_out`."""
    states = partition_states(instance, corpus)
    in_progress = states.in_progress.union(left_out)
    reasons = dict.fromkeys(also, "may have changed")
    reasons |= dict.fromkeys(states.failed, "failed")
    reasons |= dict.fromkeys(states.missing, "never materialised")
    reasons |= stale_keys(corpus.config, manifest)
    wanted = {key: reasons[key] for key in states.keys if key in reasons and key not in in_progress}
    at_most = corpus.config.partitions_per_run
    return BuildPlan(
        reasons=wanted,
        ranges=tuple(contiguous_ranges(states.keys, wanted, at_most=at_most)),
        in_progress=in_progress,
        release_due=_release_due(corpus, set(states.keys), manifest),
    )


def _release_due(corpus: Corpus, registered: Collection[str], manifest: InputManifest) -> str:
    config = corpus.config
    try:
        index = load_index(config.index_path)
        load_release(config.root, index.fingerprint)
    except (IndexMismatchError, NotReleasedError) as error:
        return str(error)
    if {shard.key for shard in index.shards} != registered:
        return "the index covers other inputs than there are"
    content = content_fingerprint(config)
    # What is not stale has the build that its input says; an index that names another is older than it.
    moved = [
        shard.key
        for shard in index.shards
        if shard.key in manifest
        and shard.build
        != build_identity(manifest[shard.key].fingerprint, shard.tokenizer.fingerprint, content)
    ]
    return f"{len(moved)} shards were built since the index was written" if moved else ""
