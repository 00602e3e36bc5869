"""Backfills under way: Dagster launches their runs one after another, and there are moments without any."""

from collections.abc import Iterable, Iterator

import dagster as dg
from dagster._core.definitions.assets.graph.asset_graph_subset import AssetGraphSubset
from dagster._core.execution.asset_backfill import AssetBackfillData
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus

from corpus_assets.defs.corpus import Corpus

_UNDER_WAY = [BulkActionStatus.REQUESTED, BulkActionStatus.CANCELING, BulkActionStatus.FAILING]


def open_backfills(instance: dg.DagsterInstance, corpus: Corpus) -> Iterator[AssetBackfillData]:
    """The backfills of the corpus that have not ended."""
    for backfill in instance.get_backfills(filters=BulkActionsFilter(statuses=_UNDER_WAY)):
        data, selected = backfill.asset_backfill_data, backfill.asset_selection or ()
        if data is not None and any(key.path[0] == corpus.name for key in selected):
            yield data


def targeted_keys(instance: dg.DagsterInstance, corpus: Corpus) -> frozenset[str]:
    """The partitions of open backfills, built or not; Dagster gives a backfill up when one is deleted."""
    return _shards_in(corpus, (data.target_subset for data in open_backfills(instance, corpus)))


def awaited_keys(instance: dg.DagsterInstance, corpus: Corpus) -> frozenset[str]:
    """The partitions that open backfills have neither built nor failed to build yet."""
    backfills = open_backfills(instance, corpus)
    left = (data.get_targeted_partitions_without_materialization_status() for data in backfills)
    return _shards_in(corpus, left)


def _shards_in(corpus: Corpus, subsets: Iterable[AssetGraphSubset]) -> frozenset[str]:
    shards = corpus.key("token_shards")
    return frozenset(
        key
        for subset in subsets
        if shards in subset.partitions_subsets_by_asset_key
        for key in subset.get_partitions_subset(shards).get_partition_keys()
    )
