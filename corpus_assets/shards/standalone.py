"""Token shards without a corpus: one stream or one file of documents → one HDF5 file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from corpus_assets.errors import InputError
from corpus_assets.formats import record_format
from corpus_assets.formats.batch import pack_record
from corpus_assets.formats.protocol import RecordFormat
from corpus_assets.shards.build import format_options, refuse_changed, refuse_rejects
from corpus_assets.shards.encode import DocumentEncoder
from corpus_assets.shards.manifest import InputFile
from corpus_assets.shards.publish import scratch_folder
from corpus_assets.shards.quarantine import Quarantine
from corpus_assets.shards.records import TEXT, ShardInfo, ShardOrigin
from corpus_assets.shards.writer import HDF5ShardWriter
from corpus_assets.sources import open_source
from corpus_assets.sources.discover import content_sha256
from corpus_assets.sources.document import Document
from corpus_assets.sources.rows import RowError
from corpus_assets.tokenizers import load_tokenizer
from corpus_assets.tokenizers.protocol import Tokenizer


def write_shard(
    documents: Iterable[Document | str | dict[str, Any]],
    path: str | Path,
    *,
    tokenizer: str | Tokenizer = "byte",
    format: str | RecordFormat = TEXT,
    **options: Any,
) -> ShardInfo:
    """One stream of documents → one token shard at `path`.

    Args:
        documents: texts or records, or Documents that know their row.
        path: the HDF5 file to publish.
        tokenizer: a specification for `load_tokenizer`, or a tokenizer.
        format: `text` for texts; for records the name of a format, or what `record_format` returns.
        options: keywords of HDF5ShardWriter.

    Raises:
        InputError: a record does not fit the format; no shard is published.
    """
    encoder = load_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
    packing = _format(format)
    with HDF5ShardWriter(path, tokenizer=encoder, **format_options(packing) | options) as writer:
        for ordinal, document in enumerate(documents):
            row = document.row if isinstance(document, Document) else ordinal
            if packing is None:
                writer.add_document(encoder.encode(_text(document)), row=row)
                continue
            try:
                packed = pack_record(packing, _record(document), encoder)
            except RowError as error:
                raise InputError(f"{path}: row {row}: {error.reason}: {error.detail}") from error
            writer.add_documents(packed, [row])
        return writer.close()


def tokenize_jsonl_path(
    path: str | Path,
    output: str | Path,
    *,
    tokenizer: str | Tokenizer = "byte",
    text_field: str = "text",
    format: str | RecordFormat = TEXT,
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
        format: `text`, the name of another format, or what `record_format` returns, which has a text_field of
            its own.
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
    quarantine = Quarantine(
        output.with_suffix(".rejects.jsonl"), scratch=scratch_folder(output.parent), name=name
    )
    with quarantine:
        packing = _format(format, text_field)
        source = open_source(
            url, text_field=text_field if packing is None else None, on_reject=quarantine.add
        )
        documents = DocumentEncoder(
            encoder, source, quarantine.add, text_field=text_field, record_format=packing
        )
        origin = ShardOrigin(key=output.stem, input_name=name, input_sha256=digest)
        with HDF5ShardWriter(
            output, tokenizer=encoder, **{"origin": origin, **format_options(packing), **options}
        ) as writer:
            for batch in source.batches():
                rows, encoded = documents.encode(batch)
                writer.add_documents(encoded, rows)
            file = InputFile(
                key=output.stem, name=name, url=url, size=source.bytes_read, signature="", fingerprint=digest
            )
            refuse_changed(file, source)
            documents.audit()
            ledger = documents.ledger()
            refuse_rejects(file, ledger, max_reject_fraction, quarantine.path)
            return writer.close(ledger=ledger)


def _format(format: str | RecordFormat, text_field: str = "text") -> RecordFormat | None:
    """The format that makes documents; None where they are texts."""
    if not isinstance(format, str):
        return format
    return None if format == TEXT else record_format(format, text_field=text_field)


def _text(document: Document | str | dict[str, Any]) -> str:
    if isinstance(document, dict):
        raise ValueError("found a record among texts, expected a format other than `text`")
    return document.text if isinstance(document, Document) else document


def _record(document: Document | str | dict[str, Any]) -> dict[str, Any]:
    record = document.record if isinstance(document, Document) else document
    if not isinstance(record, dict):
        raise ValueError(f"found {type(record).__name__} among records, expected an object")
    return record
