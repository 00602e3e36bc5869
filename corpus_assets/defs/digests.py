"""shard_digests: every byte of every shard read and hashed again, and the blocking check on it."""

import dagster as dg

from corpus_assets.defs.claims import Claim
from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.evaluation import check_result
from corpus_assets.defs.metadata import TABLE_ROWS, table
from corpus_assets.defs.refusal import refusals
from corpus_assets.shards.damage import damage_among, record_validation
from corpus_assets.shards.index import load_index
from corpus_assets.shards.inspection import Finding
from corpus_assets.shards.validate import ValidationReport, validate_corpus

DIGESTS_CLAIM = "digests_match"


def shard_digests_asset(corpus: Corpus) -> dg.AssetsDefinition:
    """The asset and its check in one step, so that the corpus is read once."""
    asset, config = corpus.key("shard_digests"), corpus.config

    @dg.asset(
        key=asset,
        deps=[corpus.key("shard_index")],
        check_specs=[dg.AssetCheckSpec(DIGESTS_CLAIM, asset=asset, blocking=True)],
        pool=corpus.named("release"),
        group_name=corpus.name,
        kinds={"hdf5", "python"},
        description="Every shard read in full and compared with the index: digests, counts, attributes.",
    )
    def shard_digests() -> dg.MaterializeResult:
        with refusals(config.root):
            index = load_index(config.index_path)
            report = validate_corpus(config.index_path, workers=config.workers, config=config)
            record_validation(config.root, report)
        findings = damage_among(report.findings)
        return dg.MaterializeResult(
            metadata={
                "shards": report.shard_count,
                "megabytes": round(report.token_bytes / 1e6, 3),
                "findings": len(findings),
                "finding_table": _table(findings),
            },
            data_version=dg.DataVersion(index.fingerprint),
            check_results=[check_result(asset, digests_match(report, findings), index)],
        )

    return shard_digests


def digests_match(report: ValidationReport, findings: list[Finding]) -> Claim:
    """Every shard holds the bytes that the index says; names the shards that do not."""
    bad = sorted({finding.shard or "index" for finding in findings})
    first = f"; first: {findings[0].message}" if findings else ""
    return Claim(
        name=DIGESTS_CLAIM,
        passed=not findings,
        detail=f"{len(bad)} of {report.shard_count} shards differ: {', '.join(bad[:20])}{first}"
        if findings
        else f"{report.shard_count} shards, {report.token_bytes / 1e6:,.1f} MB hashed",
    )


def _table(findings: list[Finding]) -> dg.MetadataValue:
    return table(
        {
            "shard": finding.shard or "index",
            "check": finding.check,
            "found": finding.message,
            "tokens": "–" if finding.token_range is None else "{} to {}".format(*finding.token_range),
        }
        for finding in findings[:TABLE_ROWS]
    )
