"""A backfill whose runs go side by side, seen from its launch to the release after its re-execution."""

from dataclasses import dataclass
from pathlib import Path

from dagster import AssetKey, DagsterInstance, DagsterRun, DagsterRunStatus, RunsFilter
from dagster._core.execution.backfill import BulkActionStatus

from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.home import open_instance
from corpus_assets.defs.jobs import TAIL
from corpus_assets.defs.partitions import RANGE_START_TAG, PartitionStates, partition_states
from corpus_assets.shards.lease import lease
from corpus_assets_tests.defs.conftest import write_input
from corpus_assets_tests.defs.served.project import ServedProject

HELD, BROKEN = "m0.jsonl", "m3.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillsSeen:
    """What was seen of a backfill of six partitions, two a run, two runs at a time; one input is broken.

    Attributes:
        beside: partitions that other runs built while the run of `HELD` waited for its lease.
        first: how the backfill ended.
        after_first: the partitions then.
        indexed_after_first: whether the index had been written then.
        second: how its re-execution from failure ended, the input being mended.
        retried: the first partitions of the runs of the re-execution that built any.
        after_second: the partitions then.
    """

    beside: set[str]
    first: BulkActionStatus
    after_first: PartitionStates
    indexed_after_first: bool
    second: BulkActionStatus
    retried: list[str]
    after_second: PartitionStates


def backfill_in_parallel(project: ServedProject) -> BackfillsSeen:
    """Raise the pool's limit, backfill while one partition is held, mend the broken one, re-execute."""
    corpus = Corpus(project.corpora["many"])
    shards, root = corpus.key("token_shards"), corpus.config.root
    project.set_pool_limit(corpus.named("token_shards"), 2)
    with open_instance(project.home) as instance:
        with lease(root, HELD):
            first = project.backfill([f"many/{asset}" for asset in ("token_shards", *TAIL)])
            beside = project.wait_for(lambda: _built_beside(instance, shards, first), seconds=240)
        first_ended = project.wait_for_backfill(first)
        after_first = partition_states(instance, corpus)
        indexed = corpus.config.index_path.exists()
        write_input(Path(corpus.config.input) / BROKEN)
        second = project.re_execute_from_failure(first)
        return BackfillsSeen(
            beside=beside,
            first=first_ended,
            after_first=after_first,
            indexed_after_first=indexed,
            second=project.wait_for_backfill(second),
            retried=[
                run.tags[key] for run in _runs(instance, second) if (key := _first_key(run)) in run.tags
            ],
            after_second=partition_states(instance, corpus),
        )


def _built_beside(instance: DagsterInstance, shards: AssetKey, backfill_id: str) -> set[str] | None:
    """What is built while the first run is under way and the last one has begun; None before that."""
    running = {
        run.tags[RANGE_START_TAG]
        for run in _runs(instance, backfill_id)
        if run.status is DagsterRunStatus.STARTED
    }
    built = instance.get_materialized_partitions(shards)
    return built if HELD in running and {"m4.jsonl", "m5.jsonl"} <= built else None


def _runs(instance: DagsterInstance, backfill_id: str) -> list[DagsterRun]:
    return list(instance.get_runs(RunsFilter.for_backfill(backfill_id)))


def _first_key(run: DagsterRun) -> str:
    return "dagster/partition" if "dagster/partition" in run.tags else RANGE_START_TAG
