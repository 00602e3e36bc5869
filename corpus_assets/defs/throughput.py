"""loader_throughput: windows per second by chunk size and compression, as a share of the machine's limit."""

from collections.abc import Sequence
from statistics import median

import dagster as dg

from corpus_assets.benchmarks.records import ThroughputRow
from corpus_assets.benchmarks.throughput import measure_throughput
from corpus_assets.defs.claims import Claim
from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.evaluation import FINGERPRINT, check_result
from corpus_assets.defs.metadata import Metadata, table
from corpus_assets.defs.plots import throughput_plot
from corpus_assets.defs.refusal import refusals
from corpus_assets.errors import NotReleasedError
from corpus_assets.shards.index import load_index
from corpus_assets.shards.records import ShardIndex
from corpus_assets.shards.release import load_release

FLOOR_CLAIM = "throughput_is_above_floor"
RATIO = "share_of_limit"


def loader_throughput_asset(corpus: Corpus) -> dg.AssetsDefinition:
    """The asset and its check; a slow loader is a warning, since a busy machine is no wrong corpus."""
    asset, config = corpus.key("loader_throughput"), corpus.config

    @dg.asset(
        key=asset,
        deps=[corpus.key("shard_index")],
        check_specs=[dg.AssetCheckSpec(FLOOR_CLAIM, asset=asset, blocking=False)],
        pool=corpus.named("release"),
        group_name=corpus.name,
        kinds={"numpy", "python"},
        description="How fast the loader reads the corpus, and samples of it in other chunk sizes.",
    )
    def loader_throughput() -> dg.MaterializeResult:
        with refusals(config.root):
            index = load_index(config.index_path)
            rows = measure_throughput(index, config.window_size)
        claim = throughput_is_above_floor(
            share_of_limit(rows), released=_released_share(corpus), floor=config.throughput_floor
        )
        return dg.MaterializeResult(
            metadata={**_metadata(rows), FINGERPRINT: index.fingerprint},
            data_version=dg.DataVersion(index.fingerprint),
            check_results=[check_result(asset, claim, index, blocking=False)],
        )

    return loader_throughput


def share_of_limit(rows: Sequence[ThroughputRow]) -> float:
    """The corpus as it is built, beside a plain copy in memory; the samples where it is too short."""
    shares = [row.share_of_limit for row in rows if row.as_built]
    return median(shares or [row.share_of_limit for row in rows if row.cache == "warm"])


def throughput_is_above_floor(share: float, *, released: float | None, floor: float) -> Claim:
    """The loader's share of the limit is no less than `floor` times that of the last release.

    Shares are compared, not windows per second: those depend on the machine and on what else it does.
    """
    if released is None:
        detail = f"{share:.3f} of the limit; no release to compare with yet"
    else:
        detail = f"{share:.3f} of the limit, at least {floor:g} × {released:.3f} of the last release expected"
    return Claim(name=FLOOR_CLAIM, passed=released is None or share >= floor * released, detail=detail)


def measured_throughput(instance: dg.DagsterInstance, corpus: Corpus, index: ShardIndex) -> float | None:
    """The share that was last measured; None where the present index was not measured."""
    entry = instance.get_latest_materialization_event(corpus.key("loader_throughput"))
    event = entry.asset_materialization if entry else None
    if event is None or FINGERPRINT not in event.metadata or RATIO not in event.metadata:
        return None
    share = event.metadata[RATIO].value
    is_present = event.metadata[FINGERPRINT].value == index.fingerprint
    return float(share) if is_present and isinstance(share, int | float) else None


def _released_share(corpus: Corpus) -> float | None:
    try:
        return load_release(corpus.config.root).throughput
    except NotReleasedError:
        return None


def _metadata(rows: Sequence[ThroughputRow]) -> Metadata:
    built = [row.windows_per_second for row in rows if row.as_built]
    warm = {(row.compression, row.chunk_size): row for row in rows if row.cache == "warm"}
    cold = {(row.compression, row.chunk_size): row for row in rows if row.cache == "cold"}
    effects = [cold[key].windows_per_second / warm[key].windows_per_second for key in cold if key in warm]
    facts: Metadata = {
        RATIO: dg.MetadataValue.float(round(share_of_limit(rows), 4)),
        "throughput": throughput_plot(
            {_name(row): row.windows_per_second for row in rows},
            pale=[_name(row) for row in rows if row.cache == "cold"],
        ),
        "throughput_table": table(
            {
                "what": "corpus" if row.as_built else "sample",
                "chunk": row.chunk_size,
                "codec": row.compression,
                "cache": row.cache,
                "windows/s": round(row.windows_per_second),
                "of limit": round(row.share_of_limit, 4),
            }
            for row in rows
        ),
    }
    if built:
        facts["windows_per_second"] = dg.MetadataValue.float(round(built[0], 1))
    if effects:
        facts["cold_over_warm_cache"] = dg.MetadataValue.float(round(median(effects), 4))
    return facts


def _name(row: ThroughputRow) -> str:
    what = "corpus as built" if row.as_built else "sample"
    compression = "uncompressed" if row.compression == "none" else row.compression
    return f"{what}, {compression}, {row.chunk_size:,} tokens a chunk, {row.cache}"
