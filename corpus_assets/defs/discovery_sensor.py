"""The sensor that turns new input files into partitions, and observes the ones that changed."""

import hashlib
import time

import dagster as dg

from corpus_assets.defs.backfills import open_backfills
from corpus_assets.defs.corpus import CORPUS_TAG, Corpus
from corpus_assets.defs.failures import concerns
from corpus_assets.defs.jobs import CorpusJobs
from corpus_assets.defs.observation import Discovery, Listing, discover, listing, observations
from corpus_assets.defs.process import fail_abandoned_runs
from corpus_assets.errors import ConfigError

READ_IN_TICK = 256 << 20  # bytes; more is read by a run of the observe job, which has no time limit
READ_AGAIN = 3600  # seconds; Dagster gives no second run for one key, however the first ended
CHANGES_IN_TICK = 250  # observations; an event costs SQLite about 40 ms
# Not NOT_STARTED: that is how Dagster leaves for ever a run whose launch it refused.
_OPEN = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def discovery_sensor(corpus: Corpus, jobs: CorpusJobs) -> dg.SensorDefinition:
    """Registers new inputs, deletes the partitions of removed ones, observes the changed ones.

    It waits while the corpus is being built, so that an input that arrives meanwhile belongs to the next
    generation and does not make this one incomplete, and while a backfill is under way, which Dagster gives
    up when one of its partitions is deleted.
    """

    @dg.sensor(
        name=corpus.named("discovery"),
        job=jobs.observe,
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Watches {corpus.config.input} for new, changed and removed input shards.",
    )
    def discovery(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        fail_abandoned_runs(context.instance)
        if busy := _runs_in_progress(context.instance, corpus):
            return dg.SkipReason(f"{busy} runs of this corpus are in progress")
        if backfills := list(open_backfills(context.instance, corpus)):
            return dg.SkipReason(f"{len(backfills)} backfills of this corpus are in progress")
        try:
            seen = listing(context.instance, corpus)
        except ConfigError as error:
            return dg.SkipReason(str(error))
        if seen.unread_bytes > READ_IN_TICK:
            return _read_in_a_run(corpus, seen)
        return _result(corpus, discover(context.instance, corpus, seen))

    return discovery


def _result(corpus: Corpus, found: Discovery) -> dg.SensorResult | dg.SkipReason:
    events = list(observations(corpus, found))[:CHANGES_IN_TICK]
    requests = _partition_requests(corpus, added=found.added, removed=found.removed)
    if not events and not requests:
        return dg.SkipReason(f"no change among {len(found.manifest.files)} input shards")
    return dg.SensorResult(asset_events=events, dynamic_partitions_requests=requests)


def _read_in_a_run(corpus: Corpus, seen: Listing) -> dg.SensorResult:
    """Register what is new at once, and have a run read it; one that failed is followed by another, later."""
    state = hashlib.sha256("\n".join(seen.unread).encode()).hexdigest()[:16]
    run_key = f"{state}/{seen.unread_bytes}/{int(time.time()) // READ_AGAIN}"
    return dg.SensorResult(
        run_requests=[dg.RunRequest(run_key=run_key, tags={CORPUS_TAG: corpus.name})],
        dynamic_partitions_requests=_partition_requests(corpus, added=seen.added, removed=seen.removed),
    )


def _partition_requests(
    corpus: Corpus, *, added: tuple[str, ...], removed: tuple[str, ...]
) -> list[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest]:
    requests: list[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest] = []
    if added:
        requests.append(corpus.partitions.build_add_request(list(added)))
    if removed:
        requests.append(corpus.partitions.build_delete_request(list(removed)))
    return requests


def _runs_in_progress(instance: dg.DagsterInstance, corpus: Corpus) -> int:
    runs = instance.get_runs(dg.RunsFilter(statuses=_OPEN))
    return sum(concerns(run, corpus) for run in runs)
