"""input_shards: the inputs as an observable source, one dynamic partition each."""

import dagster as dg

from corpus_assets.defs.beta import accepted_beta
from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.observation import discover, observations, register
from corpus_assets.defs.refusal import refusals


def input_shards_asset(corpus: Corpus) -> dg.SourceAsset:
    """The asset; observing it registers new inputs, drops removed ones, and looks at what changed."""

    @dg.observable_source_asset(
        key=corpus.key("input_shards"),
        partitions_def=corpus.partitions,
        group_name=corpus.name,
        description=f"Input shards of {corpus.config.input}; the data version is the sha256 of the content.",
    )
    def input_shards(context: dg.OpExecutionContext) -> dg.DataVersionsByPartition:
        with refusals(corpus.config.root):
            discovery = discover(context.instance, corpus)
        register(context.instance, corpus, added=discovery.added, removed=discovery.removed)
        for observation in observations(corpus, discovery):
            context.log_event(observation)
        # The observations above say more than data versions alone could; nothing is left to return.
        with accepted_beta():
            return dg.DataVersionsByPartition({})

    return input_shards
