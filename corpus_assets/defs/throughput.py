"""loader_throughput: windows per second by chunk size and reader, as a share of the machine's limit."""

import dagster as dg

from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.evaluation import FINGERPRINT
from corpus_assets.shards.records import ShardIndex

RATIO = "ratio_to_limit"


def loader_throughput_asset(corpus: Corpus) -> dg.AssetsDefinition:
    """The asset and its check."""

    @dg.asset(key=corpus.key("loader_throughput"), deps=[corpus.key("shard_index")], group_name=corpus.name)
    def loader_throughput() -> dg.MaterializeResult:
        return dg.MaterializeResult()

    return loader_throughput


def measured_throughput(instance: dg.DagsterInstance, corpus: Corpus, index: ShardIndex) -> float | None:
    """The last measured ratio; None where the present index was not measured."""
    entry = instance.get_latest_materialization_event(corpus.key("loader_throughput"))
    event = entry.asset_materialization if entry else None
    if event is None or FINGERPRINT not in event.metadata or RATIO not in event.metadata:
        return None
    ratio = event.metadata[RATIO].value
    is_present = event.metadata[FINGERPRINT].value == index.fingerprint
    return float(ratio) if is_present and isinstance(ratio, int | float) else None
