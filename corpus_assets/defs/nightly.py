"""The nightly rebuild: a schedule that launches the builds, a sensor that launches the release after them."""

import dagster as dg
from dagster import DagsterRun

from corpus_assets.defs.backfills import awaited_keys
from corpus_assets.defs.corpus import CORPUS_TAG, NIGHT_TAG, PHASE_TAG, Corpus
from corpus_assets.defs.jobs import CorpusJobs, tail_keys
from corpus_assets.defs.observation import discover, listing, record, register
from corpus_assets.defs.plan import BuildPlan, plan_build
from corpus_assets.shards.manifest import InputManifest, load_manifest

READ_IN_TICK = 4 << 30  # bytes; a tick has 60 s, and a build run hashes what the tick leaves


def nightly_schedule(corpus: Corpus, jobs: CorpusJobs) -> dg.ScheduleDefinition:
    """Builds exactly the missing, stale and failed partitions; off until switched on in the UI.

    Each tick plans anew from recorded fingerprints, so a broken input is tried once a night, and a change
    that lands while a build is running is built by the next tick.
    """
    settings = corpus.config.schedule

    @dg.schedule(
        name=corpus.named("nightly"),
        job=jobs.corpus,
        cron_schedule=settings.cron,
        execution_timezone=settings.timezone,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description="Discover, rebuild what is missing, stale or failed, then release.",
    )
    def nightly(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
        night = context.scheduled_execution_time.isoformat()
        plan = tonights_plan(context.instance, corpus)
        context.log.info(
            f"{len(plan.reasons)} partitions to build; release: {plan.release_due or 'up to date'}"
        )
        requests = night_requests(corpus, plan, night)
        return requests or dg.SkipReason(_nothing_to_do(plan))

    return nightly


def release_sensor(corpus: Corpus, jobs: CorpusJobs) -> dg.SensorDefinition:
    """Launches the tail of the graph once all of a night's build runs have ended, however they ended."""

    @dg.sensor(
        name=corpus.named("release_after_build"),
        job=jobs.corpus,
        minimum_interval_seconds=15,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="After a night's builds: index, checks, statistics, throughput, release.",
    )
    def release_after_build(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        runs = latest_night(context.instance, corpus)
        if not runs:
            return dg.SkipReason("no nightly build has run yet")
        night = runs[0].tags[NIGHT_TAG]
        open_runs = [run for run in runs if not run.is_finished]
        if open_runs:
            return dg.SkipReason(f"night of {night}: {len(open_runs)} of {len(runs)} runs have not ended")
        if any(run.tags.get(PHASE_TAG) == "release" for run in runs):
            return dg.SkipReason(f"night of {night}: its release has run")
        return release_request(corpus, night)

    return release_after_build


def tonights_plan(instance: dg.DagsterInstance, corpus: Corpus) -> BuildPlan:
    """Bring Dagster's partitions up to date with the inputs, and plan what no backfill is about to build."""
    seen, awaited = listing(instance, corpus), awaited_keys(instance, corpus)
    if seen.unread_bytes <= READ_IN_TICK:
        discovery = discover(instance, corpus, seen)
        record(instance, corpus, discovery)
        return plan_build(instance, corpus, discovery.manifest, left_out=awaited)
    register(instance, corpus, added=seen.added, removed=seen.removed)
    manifest = load_manifest(corpus.config.root) or InputManifest(files=())
    return plan_build(instance, corpus, manifest, also=seen.unread, left_out=awaited)


def night_requests(corpus: Corpus, plan: BuildPlan, night: str) -> list[dg.RunRequest]:
    """One run for each contiguous range; the release alone where only that is due; none for nothing."""
    if not plan.ranges:
        return [release_request(corpus, night)] if plan.release_due and not plan.in_progress else []
    return [
        dg.RunRequest(
            run_key=f"{night}/{part.start}",
            asset_selection=[corpus.key("token_shards")],
            tags={**corpus.run_tags, NIGHT_TAG: night, PHASE_TAG: "build", **part.tags},
        )
        for part in plan.ranges
    ]


def release_request(corpus: Corpus, night: str) -> dg.RunRequest:
    """The tail of the graph, with training where the schedule asks for it."""
    return dg.RunRequest(
        run_key=f"{night}/release",
        asset_selection=tail_keys(corpus, train=corpus.config.schedule.train),
        tags={**corpus.run_tags, NIGHT_TAG: night, PHASE_TAG: "release"},
    )


def latest_night(instance: dg.DagsterInstance, corpus: Corpus) -> list[DagsterRun]:
    """All runs of the newest night."""
    newest = instance.get_runs(
        dg.RunsFilter(tags={CORPUS_TAG: corpus.name, PHASE_TAG: ["build", "release"]}), limit=1
    )
    if not newest:
        return []
    tags = {CORPUS_TAG: corpus.name, NIGHT_TAG: newest[0].tags[NIGHT_TAG]}
    return list(instance.get_runs(dg.RunsFilter(tags=tags)))


def _nothing_to_do(plan: BuildPlan) -> str:
    if plan.in_progress:
        return f"{len(plan.in_progress)} partitions are being built, the others are up to date"
    return "every partition is up to date and the index is released"
