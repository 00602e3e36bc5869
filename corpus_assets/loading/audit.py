"""Encode a sample of documents anew from their source rows and compare with what the shards hold."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from corpus_assets.errors import CorpusError, InputError, one_line
from corpus_assets.formats import format_of
from corpus_assets.formats.batch import pack_record
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets.shards.cutting import cut_documents, excess_tokens
from corpus_assets.shards.inspection import Finding
from corpus_assets.shards.manifest import InputManifest, observe_inputs
from corpus_assets.shards.records import ShardIndex
from corpus_assets.shards.trained import untrained_findings
from corpus_assets.shards.verified import difference
from corpus_assets.sources import open_source
from corpus_assets.sources.rows import RowError
from corpus_assets.tokenizers import load_tokenizer
from corpus_assets.tokenizers.protocol import EncodedDocuments, SpanTable

if TYPE_CHECKING:
    from corpus_assets.config import CorpusConfig
    from corpus_assets.formats.protocol import Window
    from corpus_assets.shards.manifest import InputFile
    from corpus_assets.shards.records import ShardInfo
    from corpus_assets.sources.document import Document


def audit_corpus(
    config: CorpusConfig, index: ShardIndex, *, documents_per_shard: int = 8, seed: int = 0
) -> list[Finding]:
    """Encode documents anew, one by one, and compare ids, fields and annotations with the shards.

    Args:
        config: the corpus.
        index: what to audit.
        documents_per_shard: how many documents of each shard, drawn by `seed`.
        seed: of the sample.

    Returns:
        One finding for each document that differs and for each shard that cannot be audited; where there is none
        and nothing is trained on, one that says so, with the roles of the records where they are why.

    Raises:
        ConfigError: an own format cannot be loaded.
    """
    encoder = _Encoder(config)
    manifest = observe_inputs(config)
    findings: list[Finding] = []
    for shard in index.shards:
        drawn = random.Random(f"{seed}/{shard.key}")
        ordinals = sorted(
            drawn.sample(range(shard.document_count), min(documents_per_shard, shard.document_count))
        )
        try:
            findings += _compare(encoder, index, shard=shard, manifest=manifest, ordinals=ordinals)
        except (CorpusError, OSError) as error:
            findings.append(_finding(shard, str(error)))
    return findings or untrained_findings(index, config)


class _Encoder:
    """Encodes single documents as they should stand in a shard of the corpus."""

    def __init__(self, config: CorpusConfig) -> None:
        self._config = config
        self._format = format_of(config)
        self._tokenizer = load_tokenizer(config.tokenizer, boundary_token=config.boundary_token)
        made = {} if self._format is None else self._format.fields
        self.fields = {name: np.dtype(dtype).name for name, dtype in made.items()}
        self.spans = () if self._format is None else tuple(self._format.spans)

    def documents(self, file: InputFile, rows: set[int]) -> Iterator[Document]:
        """The documents at `rows` of an input.

        Raises:
            InputError: not all of these rows are documents.
        """
        left = set(rows)
        text_field = self._config.text_field if self._format is None else None
        source = open_source(file.url, text_field=text_field, max_line_bytes=self._config.max_line_bytes)
        for document in source:
            if document.row in left:
                left.remove(document.row)
                yield document
                if not left:
                    return
        raise InputError(f"{file.name}: rows {sorted(left)} are no documents any more")

    def encode(self, document: Document) -> EncodedDocuments:
        """A document as one that stands in a shard by itself.

        Raises:
            RowError: the format rejects it.
        """
        if self._format is None:
            ids = np.array([*self._tokenizer.encode(document.text), self._tokenizer.boundary_id])
            made = EncodedDocuments(ids=ids, ends=np.array([len(ids)]))
        else:
            assert document.record is not None
            made = pack_record(self._format, document.record, self._tokenizer)
        limit = self._config.max_document_tokens
        return made if limit is None else cut_documents(made, excess_tokens(made.ends, limit))


def _compare(
    encoder: _Encoder,
    index: ShardIndex,
    *,
    shard: ShardInfo,
    manifest: InputManifest,
    ordinals: Sequence[int],
) -> list[Finding]:
    if shard.key not in manifest:
        return [_finding(shard, f"its input {shard.input_name} is gone, so it cannot be audited")]
    file = manifest[shard.key]
    if file.fingerprint != shard.input_sha256:
        return [_finding(shard, f"its input {shard.input_name} has changed since it was built")]
    if (found := difference(index.root, shard)) is not None:
        return [_finding(shard, f"its file {found[1]}")]
    stored, made = (_columns(side.fields, side.spans) for side in (shard, encoder))
    if stored != made:
        return [_finding(shard, f"it holds {stored}, its format makes {made}")]
    if not ordinals:
        return []
    findings = []
    with MmapTokenStore(ShardIndex.of([shard], index.root)) as store:
        bounds = zip(*(edge.tolist() for edge in store.documents.bounds(np.array(ordinals))), strict=True)
        extents = {store.document_at(start).row: (start, stop) for start, stop in bounds}
        for document in encoder.documents(file, set(extents)):
            row, (start, stop) = document.row, extents[document.row]
            window = store.window(start, stop, fields=list(encoder.fields), spans=encoder.spans)
            try:
                differing = _differing(window, encoder.encode(document))
            except RowError as error:
                message = f"row {row} of {file.name} is rejected now: {error.reason}: {error.detail}"
                findings.append(_finding(shard, message, (start, stop)))
                continue
            if differing:
                message = f"row {row} of {file.name} gives other {', '.join(differing)} than the shard holds"
                findings.append(_finding(shard, message, (start, stop)))
    return findings


def _differing(stored: Window, made: EncodedDocuments) -> list[str]:
    """What of a document is not stored as it was made."""
    fields = [
        name
        for name, values in stored.fields.items()
        if values.tobytes() != made.fields[name].astype(values.dtype).tobytes()
    ]
    spans = [name for name, table in stored.spans.items() if _rows(table) != _rows(made.spans.get(name))]
    return ["ids"] * (not np.array_equal(stored.ids, made.ids)) + fields + spans


def _rows(table: SpanTable | None) -> list[tuple[int, int, bytes]]:
    """Annotations in the order of a shard: by start."""
    if table is None:
        return []
    rows = zip(table.starts.tolist(), table.stops.tolist(), table.values, strict=True)
    return sorted(rows, key=lambda row: row[0])


def _columns(fields: dict[str, str], spans: Sequence[str]) -> str:
    named = [f"{name}: {dtype}" for name, dtype in sorted(fields.items())]
    return f"fields {{{', '.join(named)}}} and spans {sorted(spans)}"


def _finding(shard: ShardInfo, message: str, token_range: tuple[int, int] | None = None) -> Finding:
    return Finding(
        shard=shard.key,
        check="retokenise",
        message=f"{shard.key}: {one_line(message, limit=4000)}",
        token_range=token_range,
    )
