"""Retokenise a sample of documents from their source rows and compare with what the shards hold."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from corpus_assets.errors import InputError, ShardError, one_line
from corpus_assets.shards import layout
from corpus_assets.shards.inspection import Finding
from corpus_assets.shards.manifest import InputManifest, observe_inputs
from corpus_assets.shards.verified import VerifiedColumns
from corpus_assets.sources import open_source
from corpus_assets.tokenizers import load_tokenizer

if TYPE_CHECKING:
    from corpus_assets.config import CorpusConfig
    from corpus_assets.shards.manifest import InputFile
    from corpus_assets.shards.records import ShardIndex, ShardInfo
    from corpus_assets.tokenizers.protocol import Tokenizer


def audit_corpus(
    config: CorpusConfig, index: ShardIndex, *, documents_per_shard: int = 8, seed: int = 0
) -> list[Finding]:
    """Encode documents anew, one by one, and compare them with the shards; one finding for each that differs.

    Args:
        config: the corpus; its format must be `text`.
        index: what to audit.
        documents_per_shard: how many documents of each shard, drawn by `seed`.
        seed: of the sample.
    """
    tokenizer = load_tokenizer(config.tokenizer, boundary_token=config.boundary_token)
    manifest = observe_inputs(config)
    findings: list[Finding] = []
    for shard in index.shards:
        drawn = random.Random(f"{seed}/{shard.key}")
        ordinals = sorted(
            drawn.sample(range(shard.document_count), min(documents_per_shard, shard.document_count))
        )
        source = _source_of(shard, manifest)
        if isinstance(source, Finding):
            findings.append(source)
        elif ordinals:
            findings += _compare(config, index, tokenizer, shard=shard, file=source, ordinals=ordinals)
    return findings


def _source_of(shard: ShardInfo, manifest: InputManifest) -> InputFile | Finding:
    if shard.key not in manifest:
        return _finding(shard, f"its input {shard.input_name} is gone, so it cannot be audited")
    if manifest[shard.key].fingerprint != shard.input_sha256:
        return _finding(shard, f"its input {shard.input_name} has changed since it was built")
    return manifest[shard.key]


def _compare(
    config: CorpusConfig,
    index: ShardIndex,
    tokenizer: Tokenizer,
    *,
    shard: ShardInfo,
    file: InputFile,
    ordinals: Sequence[int],
) -> list[Finding]:
    findings = []
    try:
        columns = VerifiedColumns(index.root, shard)
        ends = columns.get(layout.DOCUMENT_ENDS, "int64", shard.document_count)
        rows = columns.get(layout.DOCUMENT_ROWS, "int64", shard.document_count)
        tokens = columns.get(layout.TOKENS, shard.dtype, shard.token_count)
        extents = {
            int(rows[ordinal]): (int(ends[ordinal - 1]) if ordinal else 0, int(ends[ordinal]))
            for ordinal in ordinals
        }
        texts = _texts(config, file, set(extents))
        for row, (start, stop) in extents.items():
            expected = tokenizer.encode(texts[row])[: config.max_document_tokens]
            if not np.array_equal(tokens[start:stop], [*expected, tokenizer.boundary_id]):
                message = f"row {row} of {file.name} gives other ids than the shard holds"
                findings.append(_finding(shard, message, (start, stop)))
    except (InputError, ShardError, OSError) as error:
        return [_finding(shard, str(error))]
    return findings


def _texts(config: CorpusConfig, file: InputFile, wanted: set[int]) -> dict[int, str]:
    texts: dict[int, str] = {}
    source = open_source(file.url, text_field=config.text_field, max_line_bytes=config.max_line_bytes)
    for document in source:
        if document.row in wanted:
            texts[document.row] = document.text
            if len(texts) == len(wanted):
                return texts
    raise InputError(f"{file.name}: rows {sorted(wanted - texts.keys())} are no documents any more")


def _finding(shard: ShardInfo, message: str, token_range: tuple[int, int] | None = None) -> Finding:
    return Finding(
        shard=shard.key,
        check="retokenise",
        message=f"{shard.key}: {one_line(message, limit=4000)}",
        token_range=token_range,
    )
