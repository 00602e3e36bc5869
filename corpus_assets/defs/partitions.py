"""Which partitions there are, which of them Dagster holds as built or failed, and ranges over them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import dagster as dg
from dagster import DagsterEventType

from corpus_assets.defs.corpus import Corpus

RANGE_START_TAG = "dagster/asset_partition_range_start"
RANGE_END_TAG = "dagster/asset_partition_range_end"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStates:
    """The registered keys, in Dagster's order, by what their last attempt came to."""

    keys: tuple[str, ...]
    missing: frozenset[str]
    failed: frozenset[str]
    in_progress: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """Neighbouring keys in Dagster's order, both ends included: what one run can hold."""

    start: str
    end: str
    keys: tuple[str, ...]

    @property
    def tags(self) -> dict[str, str]:
        return {RANGE_START_TAG: self.start, RANGE_END_TAG: self.end}


def registered_keys(instance: dg.DagsterInstance, corpus: Corpus) -> list[str]:
    """The partition keys in Dagster's order: the order in which they were added."""
    return list(instance.get_dynamic_partitions(corpus.partition_set))


def partition_states(instance: dg.DagsterInstance, corpus: Corpus) -> PartitionStates:
    """Where each partition of token_shards stands, in three queries whatever their number.

    `failed` is what the UI's failed selection picks: planned in a run that ended without building it.
    """
    keys = registered_keys(instance, corpus)
    storage, asset = instance.event_log_storage, corpus.key("token_shards")
    built = storage.get_materialized_partitions(asset)
    attempts = storage.get_latest_asset_partition_materialization_attempts_without_materializations(asset)
    unfinished = _unfinished({run for run, _ in attempts.values()}, instance)
    open_keys = {key for key, (run, _) in attempts.items() if run in unfinished}
    return PartitionStates(
        keys=tuple(keys),
        missing=frozenset(set(keys) - set(built)),
        failed=frozenset((set(attempts) - open_keys) & set(keys)),
        in_progress=frozenset(open_keys & set(keys)),
    )


def contiguous_ranges(
    order: Sequence[str], wanted: Collection[str], *, at_most: int | None = None
) -> list[KeyRange]:
    """`wanted` as ranges over `order`, none longer than `at_most`.

    A dynamic partition set keeps insertion order, and a run's range means all keys between its ends in
    that order.
    """
    ranges, run = [], list[str]()
    for key in order:
        if run and (key not in wanted or len(run) == at_most):
            ranges.append(KeyRange(start=run[0], end=run[-1], keys=tuple(run)))
            run = []
        if key in wanted:
            run.append(key)
    if run:
        ranges.append(KeyRange(start=run[0], end=run[-1], keys=tuple(run)))
    return ranges


def latest_versions(
    instance: dg.DagsterInstance, asset: dg.AssetKey, event_type: DagsterEventType
) -> dict[str, str]:
    """The data version of each partition's latest event; 0.1 s for 10,000 partitions."""
    tags = instance.event_log_storage.get_latest_tags_by_partition(
        asset, event_type, ["dagster/data_version"]
    )
    return {key: values["dagster/data_version"] for key, values in tags.items()}


def _unfinished(run_ids: set[str], instance: dg.DagsterInstance) -> set[str]:
    if not run_ids:
        return set()
    runs = instance.get_runs(filters=dg.RunsFilter(run_ids=list(run_ids)))
    return {run.run_id for run in runs if not run.is_finished}
