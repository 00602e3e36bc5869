"""training_release: release.json, written only when every blocking check passed for this very index."""

from datetime import UTC, datetime

import dagster as dg

from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.gate import gate, refuse_unless_passed
from corpus_assets.defs.metadata import table
from corpus_assets.defs.refusal import refusals
from corpus_assets.defs.throughput import measured_throughput
from corpus_assets.shards.index import load_index
from corpus_assets.shards.release import RELEASE, write_release


def training_release_asset(corpus: Corpus) -> dg.AssetsDefinition:
    """The asset; a downstream asset may take it as an argument typed MmapTokenStore."""
    config = corpus.config
    upstream = ("shard_index", "shard_digests", "corpus_statistics", "loader_throughput")

    @dg.asset(
        key=corpus.key("training_release"),
        deps=[corpus.key(name) for name in upstream],
        io_manager_key=corpus.named("released_corpus"),
        pool=corpus.named("release"),
        group_name=corpus.name,
        kinds={"json", "python"},
        description="release.json: the generation of the index that passed every gate, with the evidence.",
    )
    def training_release(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        with refusals(corpus.config.root):
            index = load_index(config.index_path)
            evidence = gate(context.instance, corpus, index)
            refuse_unless_passed(corpus, index, evidence)
            throughput = measured_throughput(context.instance, corpus, index)
            release = write_release(
                index,
                evidence,
                created=datetime.now(UTC).isoformat(timespec="seconds"),
                throughput=throughput,
            )
        return dg.MaterializeResult(
            metadata={
                "fingerprint": release.fingerprint,
                "tokens": release.token_count,
                "documents": release.document_count,
                "evidence": table({"check": item.check, "found": item.detail} for item in evidence),
                "path": dg.MetadataValue.path(str(config.root / RELEASE)),
            },
            data_version=dg.DataVersion(release.fingerprint),
        )

    return training_release
