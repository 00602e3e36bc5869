"""corpus_statistics: document lengths, boundaries and rejects over all shards, with thresholds."""

import dagster as dg

from corpus_assets.config import StatisticsConfig
from corpus_assets.defs.claims import Claim
from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.evaluation import check_result
from corpus_assets.defs.metadata import Metadata, ledger_table, quantile_table
from corpus_assets.defs.plots import length_plot
from corpus_assets.defs.refusal import refusals
from corpus_assets.shards.index import load_index
from corpus_assets.shards.statistics import CorpusStatistics
from corpus_assets.shards.statistics import corpus_statistics as statistics_of

STATISTICS_CLAIMS = ("enough_documents", "boundary_share_is_low", "reject_share_is_low")


def corpus_statistics_asset(corpus: Corpus) -> dg.AssetsDefinition:
    """The asset and its threshold checks; they block a release only where configured."""
    asset, config = corpus.key("corpus_statistics"), corpus.config
    blocking = config.statistics.blocking

    @dg.asset(
        key=asset,
        deps=[corpus.key("shard_index")],
        check_specs=[dg.AssetCheckSpec(name, asset=asset, blocking=blocking) for name in STATISTICS_CLAIMS],
        pool=corpus.named("release"),
        group_name=corpus.name,
        kinds={"hdf5", "python"},
        description="Document lengths, the share of boundary tokens and the rejects, over all shards.",
    )
    def corpus_statistics() -> dg.MaterializeResult:
        with refusals(config.root):
            index = load_index(config.index_path)
        statistics = statistics_of(index)
        return dg.MaterializeResult(
            metadata=_metadata(statistics),
            data_version=dg.DataVersion(index.fingerprint),
            check_results=[
                check_result(asset, claim, index, blocking=blocking)
                for claim in threshold_claims(statistics, config.statistics)
            ],
        )

    return corpus_statistics


def threshold_claims(statistics: CorpusStatistics, limits: StatisticsConfig) -> tuple[Claim, ...]:
    """The claims of STATISTICS_CLAIMS, in their order."""
    documents, boundary, reject = (
        statistics.document_count,
        statistics.boundary_share,
        statistics.reject_share,
    )
    return (
        Claim(
            name="enough_documents",
            passed=documents >= limits.min_documents,
            detail=f"{documents:,} documents, at least {limits.min_documents:,} expected",
        ),
        Claim(
            name="boundary_share_is_low",
            passed=boundary <= limits.max_boundary_share,
            detail=f"{boundary:.3%} of the tokens are boundaries, at most {limits.max_boundary_share:.3%} expected",
        ),
        Claim(
            name="reject_share_is_low",
            passed=reject <= limits.max_reject_share,
            detail=f"{reject:.3%} of the rows were rejected, at most {limits.max_reject_share:.3%} expected",
        ),
    )


def _metadata(statistics: CorpusStatistics) -> Metadata:
    return {
        "tokens": dg.MetadataValue.int(statistics.token_count),
        "documents": dg.MetadataValue.int(statistics.document_count),
        "rejected": dg.MetadataValue.int(statistics.ledger.rejected_count),
        "mean_document_tokens": dg.MetadataValue.float(round(statistics.mean_length, 2)),
        "boundary_share": dg.MetadataValue.float(round(statistics.boundary_share, 6)),
        "reject_share": dg.MetadataValue.float(round(statistics.reject_share, 6)),
        "ledger": ledger_table(statistics.ledger),
        "document_length_quantiles": quantile_table(statistics.length_quantiles),
        "document_lengths": length_plot(statistics.histogram_edges, statistics.histogram_counts),
    }
