"""corpus_definitions: every asset, check, job, schedule and sensor of one corpus, from its configuration."""

import dagster as dg

from corpus_assets.config import CorpusConfig
from corpus_assets.defs.beta import accepted_beta
from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.digests import shard_digests_asset
from corpus_assets.defs.discovery_sensor import discovery_sensor
from corpus_assets.defs.failure_sensor import Notifier, failure_sensor
from corpus_assets.defs.inputs import input_shards_asset
from corpus_assets.defs.io_manager import ReleasedCorpusIOManager
from corpus_assets.defs.jobs import corpus_jobs
from corpus_assets.defs.nightly import nightly_schedule, release_sensor
from corpus_assets.defs.progress import BuildListener
from corpus_assets.defs.release import training_release_asset
from corpus_assets.defs.shard_index import index_checks, shard_index_asset
from corpus_assets.defs.statistics import corpus_statistics_asset
from corpus_assets.defs.throughput import loader_throughput_asset
from corpus_assets.defs.token_shards import token_shards_asset
from corpus_assets.defs.training import training_asset

SILENT_LISTENER = BuildListener()  # one object for all corpora: definitions that share it can be merged


def corpus_definitions(
    config: CorpusConfig, *, notify: Notifier | None = None, listener: BuildListener = SILENT_LISTENER
) -> dg.Definitions:
    """The definitions of one corpus; those of several are merged with `dg.Definitions.merge`.

    Args:
        config: the corpus.
        notify: called with a summary of each failed run.
        listener: where builds report their progress besides the run's log.
    """
    corpus = Corpus(config)
    jobs = corpus_jobs(corpus)
    return dg.Definitions(
        assets=_assets(corpus),
        asset_checks=[index_checks(corpus)],
        jobs=list(jobs),
        schedules=[nightly_schedule(corpus, jobs)],
        sensors=[
            discovery_sensor(corpus, jobs),
            release_sensor(corpus, jobs),
            failure_sensor(corpus, notify),
        ],
        resources={
            "build_listener": listener,
            corpus.named("released_corpus"): ReleasedCorpusIOManager(index_path=str(config.index_path)),
        },
    )


def _assets(corpus: Corpus) -> list[dg.AssetsDefinition | dg.SourceAsset]:
    with accepted_beta():  # observable_source_asset and backfill_policy
        return [
            input_shards_asset(corpus),
            token_shards_asset(corpus),
            shard_index_asset(corpus),
            shard_digests_asset(corpus),
            corpus_statistics_asset(corpus),
            loader_throughput_asset(corpus),
            training_release_asset(corpus),
            training_asset(corpus),
        ]
