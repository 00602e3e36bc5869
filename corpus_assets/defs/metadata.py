"""Facts of the library as Dagster metadata: numbers that the UI plots over time, tables, pictures."""

from collections.abc import Iterable, Mapping, Sequence

import dagster as dg
from dagster import DagsterEvent

from corpus_assets.config import CorpusConfig
from corpus_assets.errors import ShardError, one_line
from corpus_assets.shards.records import Ledger, ShardIndex, ShardInfo
from corpus_assets.shards.statistics import QUANTILES, DocumentLengths, document_lengths
from corpus_assets.shards.worker import ShardOutcome

TABLE_ROWS = 200  # a table of 10,000 shards would make each event a megabyte
_REUSED = "reused"
_BAR = 24  # characters of the longest bar
Metadata = dict[str, dg.MetadataValue]


def shard_metadata(config: CorpusConfig, outcome: ShardOutcome) -> Metadata:
    """What a partition of token_shards shows about its shard."""
    info = outcome.info
    assert info is not None
    facts: Metadata = {
        "tokens": dg.MetadataValue.int(info.token_count),
        "documents": dg.MetadataValue.int(info.document_count),
        "rejected": dg.MetadataValue.int(info.ledger.rejected_count),
        "input": dg.MetadataValue.text(one_line(info.input_name)),
        "path": dg.MetadataValue.path(str(config.root / info.path)),
        "megabytes": dg.MetadataValue.float(round(info.file_bytes / 1e6, 3)),
        "ledger": ledger_table(info.ledger),
        _REUSED: dg.MetadataValue.bool(outcome.reused),
        **_lengths(config, info),
    }
    if not outcome.reused:
        seconds = max(outcome.seconds, 1e-9)
        facts["tokens_per_second"] = dg.MetadataValue.float(round(info.token_count / seconds, 1))
        facts["megabytes_per_second"] = dg.MetadataValue.float(round(info.input_bytes / 1e6 / seconds, 3))
    return facts


def _lengths(config: CorpusConfig, info: ShardInfo) -> Metadata:
    """How long the documents of one shard are; nothing where its file cannot be read any more.

    A table and no picture: drawing one takes ten times as long as building a small shard.
    """
    try:
        lengths = document_lengths(config.root, [info], verify=False)
    except (ShardError, OSError):
        return {}
    return {
        "document_length_quantiles": quantile_table(lengths.quantiles()),
        "document_lengths": bars(lengths),
    }


def quantile_table(lengths: Sequence[float]) -> dg.MetadataValue:
    """Document lengths in whole tokens at QUANTILES, in one row."""
    names = (f"{quantile:.0%}" for quantile in QUANTILES)
    return table([dict(zip(names, map(round, lengths), strict=True))])


def bars(lengths: DocumentLengths) -> dg.MetadataValue:
    """A histogram of document lengths as a table: a bar of text for each power of two."""
    octaves = lengths.octaves()
    most = max((count for _, _, count in octaves), default=0)
    return table(
        {
            "tokens": f"{shortest:,} to {longest:,}",
            "documents": count,
            "share": "█" * -(-_BAR * count // most),
        }
        for shortest, longest, count in octaves
    )


def reused_partitions(events: Iterable[DagsterEvent]) -> set[str]:
    """The partitions among the materialisations whose shard was there already."""
    found = set()
    for event in events:
        seen = event.materialization.metadata.get(_REUSED)
        if event.partition is not None and seen is not None and seen.value:
            found.add(event.partition)
    return found


def ledger_table(ledger: Ledger) -> dg.MetadataValue:
    """Where the rows went: rows = documents + blank + one line per reject reason."""
    lines = {"rows": ledger.rows, "documents": ledger.documents, "blank": ledger.blank}
    rejected = {f"rejected: {one_line(reason)}": count for reason, count in sorted(ledger.rejected.items())}
    return table({"where": where, "rows": rows} for where, rows in (lines | rejected).items())


def shards_table(shards: Sequence[ShardInfo]) -> dg.MetadataValue:
    """The first TABLE_ROWS shards of an index."""
    return table(
        {
            "key": shard.key,
            "input": one_line(shard.input_name),
            "starts_at": shard.global_start,
            "tokens": shard.token_count,
            "documents": shard.document_count,
            "rejected": shard.ledger.rejected_count,
            "megabytes": round(shard.file_bytes / 1e6, 3),
        }
        for shard in shards[:TABLE_ROWS]
    )


def index_metadata(index: ShardIndex) -> Metadata:
    """What shard_index shows about a generation."""
    tokenizer = index.tokenizer
    return {
        "fingerprint": dg.MetadataValue.text(index.fingerprint),
        "shards": dg.MetadataValue.int(len(index.shards)),
        "tokens": dg.MetadataValue.int(index.token_count),
        "documents": dg.MetadataValue.int(index.document_count),
        "rejected": dg.MetadataValue.int(index.ledger.rejected_count),
        "tokenizer": dg.MetadataValue.text(tokenizer.name if tokenizer else "none"),
        "ledger": ledger_table(index.ledger),
        "shard_table": shards_table(index.shards),
        "shards_shown": dg.MetadataValue.text(
            f"{min(len(index.shards), TABLE_ROWS)} of {len(index.shards)}; all: {index.root / 'shards.json'}"
        ),
    }


def table(rows: Iterable[Mapping[str, str | int | float | bool]]) -> dg.MetadataValue:
    """Rows as a table; a text where there are none, since Dagster cannot tell an empty table's columns."""
    records = [dg.TableRecord(dict(row)) for row in rows]
    return dg.MetadataValue.table(records) if records else dg.MetadataValue.text("none")
