"""shard_index: shards.json over every registered input, and the blocking checks of what it claims."""

from collections.abc import Iterator

import dagster as dg

from corpus_assets.defs.claims import (
    every_input_shard_is_indexed,
    ledger_balances,
    offsets_are_contiguous,
    one_tokenizer,
)
from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.evaluation import check_result
from corpus_assets.defs.metadata import index_metadata
from corpus_assets.defs.observation import observed_fingerprints
from corpus_assets.defs.partitions import registered_keys
from corpus_assets.defs.refusal import refusals
from corpus_assets.errors import IndexMismatchError, MissingShardsError
from corpus_assets.shards.index import compare_indexes, load_index, write_index
from corpus_assets.shards.records import ShardIndex, info_of
from corpus_assets.tokenizers import load_tokenizer

INDEX_CLAIMS = ("every_input_shard_is_indexed", "offsets_are_contiguous", "one_tokenizer", "ledger_balances")


def shard_index_asset(corpus: Corpus) -> dg.AssetsDefinition:
    """The asset; its data version is the index fingerprint."""

    @dg.asset(
        key=corpus.key("shard_index"),
        deps=[corpus.key("token_shards")],
        pool=corpus.named("release"),
        group_name=corpus.name,
        kinds={"json", "python"},
        description="shards.json: the ordered token shards, the one source of truth that a trainer reads.",
    )
    def shard_index(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        with refusals(corpus.config.root):
            before = _present_index(corpus)
            index = write_index(corpus.config.root, _expected_keys(context.instance, corpus))
        change = compare_indexes(before, index)
        context.log.info(f"added {change.added}, changed {change.changed}, dropped {change.dropped}")
        facts = {
            name: dg.MetadataValue.json(list(getattr(change, name)))
            for name in ("added", "dropped", "changed")
        }
        return dg.MaterializeResult(
            metadata={**index_metadata(index), **facts}, data_version=dg.DataVersion(index.fingerprint)
        )

    return shard_index


def index_checks(corpus: Corpus) -> dg.AssetChecksDefinition:
    """The four blocking checks, evaluated in one step on the index as it is on disk."""
    asset, config = corpus.key("shard_index"), corpus.config

    @dg.multi_asset_check(
        name=corpus.named("index_checks"),
        specs=[dg.AssetCheckSpec(name, asset=asset, blocking=True) for name in INDEX_CLAIMS],
        pool=corpus.named("release"),
    )
    def checks(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        with refusals(config.root):
            index = load_index(config.index_path)
            tokenizer = load_tokenizer(config.tokenizer, boundary_token=config.boundary_token)
        registered = registered_keys(context.instance, corpus)
        observed = observed_fingerprints(context.instance, corpus)
        for claim in (
            every_input_shard_is_indexed(index, registered=registered, observed=observed),
            offsets_are_contiguous(index),
            one_tokenizer(index, configured=info_of(tokenizer)),
            ledger_balances(index),
        ):
            yield check_result(asset, claim, index)

    return checks


def _expected_keys(instance: dg.DagsterInstance, corpus: Corpus) -> list[str]:
    """The registered inputs by key: Dagster's own order puts a key that was added again last."""
    keys = sorted(registered_keys(instance, corpus))
    if not keys:
        raise MissingShardsError(
            f"{corpus.name}: no input shard is registered as a partition, expected those of "
            f"{corpus.config.input}; observe input_shards first"
        )
    return keys


def _present_index(corpus: Corpus) -> ShardIndex | None:
    """The index that is about to be replaced; None where there is none that can be read."""
    try:
        return load_index(corpus.config.index_path)
    except IndexMismatchError:
        return None
