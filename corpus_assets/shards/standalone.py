"""Token shards without a corpus: one stream or one file of documents → one HDF5 file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from corpus_assets.shards.build import refuse_changed, refuse_rejects
from corpus_assets.shards.encode import DocumentEncoder
from corpus_assets.shards.manifest import InputFile
from corpus_assets.shards.publish import scratch_folder
from corpus_assets.shards.quarantine import Quarantine
from corpus_assets.shards.records import ShardInfo, ShardOrigin
from corpus_assets.shards.writer import HDF5ShardWriter
from corpus_assets.sources import open_source
from corpus_assets.sources.discover import content_sha256
from corpus_assets.sources.document import Document
from corpus_assets.tokenizers import load_tokenizer
from corpus_assets.tokenizers.protocol import Tokenizer


def write_shard(
    documents: Iterable[Document | str],
    path: str | Path,
    *,
    tokenizer: str | Tokenizer = "byte",
    **options: Any,
) -> ShardInfo:
    """One stream of documents → one token shard at `path`.

    Args:
        documents: texts, or Documents that know their row.
        path: the HDF5 file to publish.
        tokenizer: a specification for `load_tokenizer`, or a tokenizer.
        options: keywords of HDF5ShardWriter.
    """
    encoder = load_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
    with HDF5ShardWriter(path, tokenizer=encoder, **options) as writer:
        for ordinal, document in enumerate(documents):
            text, row = (document, ordinal) if isinstance(document, str) else (document.text, document.row)
            writer.add_document(encoder.encode(text), row=row)
        return writer.close()


def tokenize_jsonl_path(
    path: str | Path,
    output: str | Path,
    *,
    tokenizer: str | Tokenizer = "byte",
    text_field: str = "text",
    max_reject_fraction: float = 0.01,
    **options: Any,
) -> ShardInfo:
    """One input file, JSON Lines or Parquet by its extension → one token shard at `output`.

    Rejects are counted in the record's ledger and written to `<output>.rejects.jsonl`.

    Args:
        path: the input shard, a path or an fsspec URL.
        output: the HDF5 file to publish.
        tokenizer: a specification for `load_tokenizer`, or a tokenizer.
        text_field: the field that holds the text; `a.b` reaches into nested objects.
        max_reject_fraction: share of rows that may be rejected.
        options: keywords of HDF5ShardWriter.

    Raises:
        InputError: unreadable, or too many rejects; no shard is published.
    """
    output = Path(output)
    encoder = load_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
    url = os.fspath(path)
    name = url.rsplit("/", 1)[-1]
    digest = content_sha256(url)
    quarantine = Quarantine(output.with_suffix(".rejects.jsonl"), scratch=scratch_folder(output.parent))
    with quarantine:
        source = open_source(url, text_field=text_field, on_reject=quarantine.add)
        documents = DocumentEncoder(encoder, source, quarantine.add)
        origin = ShardOrigin(key=output.stem, input_name=name, input_sha256=digest)
        with HDF5ShardWriter(output, tokenizer=encoder, **{"origin": origin, **options}) as writer:
            for batch in source.batches():
                rows, encoded = documents.encode(batch)
                writer.add_documents(encoded, rows)
            file = InputFile(
                key=output.stem, name=name, url=url, size=source.bytes_read, signature="", fingerprint=digest
            )
            refuse_changed(file, source)
            ledger = documents.ledger()
            refuse_rejects(file, ledger, max_reject_fraction, quarantine.path)
            return writer.close(ledger=ledger)
