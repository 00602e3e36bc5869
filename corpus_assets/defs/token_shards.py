"""token_shards: one HDF5 file per input shard; a run holds many partitions, each succeeds or fails alone."""

from collections.abc import Iterator

import dagster as dg

from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.metadata import shard_metadata
from corpus_assets.defs.partition_build import PartitionBuild
from corpus_assets.defs.process import mark_process
from corpus_assets.defs.progress import BuildListener
from corpus_assets.defs.provenance import code_version
from corpus_assets.defs.refusal import refusals


class BuildOptions(dg.Config):
    """How a run builds its partitions.

    Attributes:
        force: rebuild shards that were already made from the same inputs.
        workers: processes; default: the corpus's own setting, else one a core.
    """

    force: bool = False
    workers: int | None = None


def token_shards_asset(corpus: Corpus) -> dg.AssetsDefinition:
    """The asset; its runs end as FAILURE when a partition failed, so that the UI can pick those."""
    config = corpus.config
    version = code_version(config)

    @dg.asset(
        key=corpus.key("token_shards"),
        partitions_def=corpus.partitions,
        deps=[corpus.key("input_shards")],
        backfill_policy=_backfill_policy(config.partitions_per_run),
        # The partitions report themselves as they finish; an output would report all of them once more.
        # Steps downstream in the same run are skipped for it: the tail of the graph is a run of its own.
        output_required=False,
        code_version=version,
        pool=corpus.named("token_shards"),
        group_name=corpus.name,
        kinds={"hdf5", "python"},
        description="Token shards: the documents of one input shard each, as token ids in one HDF5 file.",
    )
    def token_shards(
        context: dg.AssetExecutionContext,
        config: BuildOptions,
        build_listener: dg.ResourceParam[BuildListener],
    ) -> Iterator[dg.AssetMaterialization]:
        mark_process(context)
        with refusals(corpus.config.root):
            build = PartitionBuild.of(context.instance, corpus, context.partition_keys)
        for outcome in build.outcomes(
            force=config.force,
            workers=config.workers,
            log=context.log,
            on_progress=build_listener.on_progress,
        ):
            if outcome.info is not None:
                yield dg.AssetMaterialization(
                    asset_key=context.asset_key,
                    partition=outcome.key,
                    metadata=shard_metadata(corpus.config, outcome),
                    tags=build.tags(outcome.info, version=version),
                )
        build.raise_failures()

    return token_shards


def _backfill_policy(partitions_per_run: int | None) -> dg.BackfillPolicy:
    if partitions_per_run is None:
        return dg.BackfillPolicy.single_run()
    return dg.BackfillPolicy.multi_run(partitions_per_run)
