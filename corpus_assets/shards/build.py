"""One input shard → one token shard: read, encode, write, account, publish."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpus_assets.errors import IndexMismatchError, InputChangedError, TooManyRejectsError
from corpus_assets.formats import content_fingerprint, format_of
from corpus_assets.formats.protocol import RecordFormat
from corpus_assets.shards.encode import DocumentEncoder
from corpus_assets.shards.index import current_shard, publish_record
from corpus_assets.shards.lease import STALE_AFTER, lease
from corpus_assets.shards.quarantine import Quarantine, quarantine_path
from corpus_assets.shards.records import FORMAT_VERSION, Ledger, ShardInfo, ShardOrigin
from corpus_assets.shards.space import expected_tokens
from corpus_assets.shards.writer import HDF5ShardWriter
from corpus_assets.sources import open_source
from corpus_assets.sources.discover import content_sha256
from corpus_assets.sources.document import Source
from corpus_assets.tokenizers.protocol import Tokenizer

if TYPE_CHECKING:
    from corpus_assets.config import CorpusConfig
    from corpus_assets.shards.manifest import InputFile

BUILD_LENGTH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildProgress:
    """How far the build of one shard is; bytes are raw bytes of the input."""

    key: str
    documents: int
    rows: int
    tokens: int
    bytes_read: int
    bytes_total: int


OnProgress = Callable[[BuildProgress], None]


def build_identity(input_sha256: str, tokenizer_fingerprint: str, options_fingerprint: str) -> str:
    """Name of a build: the same input, tokenizer, options and format give the same bytes."""
    parts = f"{FORMAT_VERSION}\n{input_sha256}\n{tokenizer_fingerprint}\n{options_fingerprint}"
    return hashlib.sha256(parts.encode()).hexdigest()[:BUILD_LENGTH]


def build_shard(
    file: InputFile,
    config: CorpusConfig,
    tokenizer: Tokenizer,
    *,
    force: bool = False,
    threads: int = 1,
    on_progress: OnProgress | None = None,
    on_document: Callable[[int | None], None] | None = None,
    on_encoded: Callable[[], None] | None = None,
    refuse_rows: Mapping[int, str] | None = None,
    stale_after: float = STALE_AFTER,
    expected: ShardInfo | None = None,
) -> tuple[ShardInfo, bool]:
    """Build the token shard of `file` and make it current.

    Args:
        file: the input as it was observed.
        config: its corpus.
        tokenizer: the corpus's tokenizer.
        force: build even where the current shard was made from the same.
        threads: threads that encode.
        on_progress: called after each batch.
        on_document: called with the row of each document before it is encoded, one at a time, and with None
            after the last one of a batch.
        on_encoded: called when no document is left to be encoded.
        refuse_rows: rows to reject unencoded, with the reason.
        stale_after: seconds after which another builder's lease may be taken over.
        expected: publish the shard only if it is this one.

    Returns:
        The record, and whether it was there already.

    Raises:
        InputError: the input cannot become a shard; nothing of it is published but its rejects.
        LeaseHeldError: another builder holds the partition.
        ShardError: the shard is not the expected one.
    """
    if not file.fingerprint:
        content_sha256(file.url)  # says what is wrong, if it still is
        raise InputChangedError(f"{file.name}: could not be read when it was observed; observe it again")
    build = build_identity(file.fingerprint, tokenizer.fingerprint, content_fingerprint(config))

    def built() -> ShardInfo | None:
        try:
            info = None if force else current_shard(config.root, file.key)
        except IndexMismatchError:
            return None  # a damaged record is replaced like a missing one
        return info if info is not None and info.build == build else None

    if (info := built()) is not None:
        return info, True
    record_format = format_of(config)
    with lease(config.root, file.key, stale_after=stale_after) as scratch:
        if (info := built()) is not None:
            return info, True
        origin = ShardOrigin(
            key=file.key,
            input_name=file.name,
            input_sha256=file.fingerprint,
            input_bytes=file.size,
            build=build,
        )
        quarantine = Quarantine(
            quarantine_path(config.root, file.key, build),
            scratch=scratch,
            name=file.name,
            max_bytes=config.max_quarantine_bytes,
        )
        with (
            quarantine,
            HDF5ShardWriter(
                config.root / "shards" / f"{file.key}-{build}.h5",
                tokenizer=tokenizer,
                window_size=config.window_size,
                chunk_size=config.tokens_per_chunk,
                compression=config.compression,
                max_document_tokens=config.max_document_tokens,
                **format_options(record_format),
                expected_tokens=expected_tokens(config, file),
                origin=origin,
                root=config.root,
                scratch=scratch,
            ) as writer,
        ):
            source = open_source(
                file.url,
                text_field=config.text_field if record_format is None else None,
                on_reject=quarantine.add,
                max_line_bytes=config.max_line_bytes,
            )
            encoder = DocumentEncoder(
                tokenizer,
                source,
                quarantine.add,
                text_field=config.text_field,
                record_format=record_format,
                threads=threads,
                on_document=on_document,
                refuse_rows=refuse_rows or {},
            )
            for batch in source.batches():
                rows, encoded = encoder.encode(batch)
                writer.add_documents(encoded, rows)
                if on_progress is not None:
                    on_progress(_progress(file, source, writer))
            if on_encoded is not None:
                on_encoded()
            refuse_changed(file, source)
            encoder.audit()
            ledger = encoder.ledger()
            refuse_rejects(file, ledger, config.max_reject_fraction, quarantine.path)
            info = writer.close(ledger=ledger, expected=expected)
        publish_record(config.root, info, scratch=scratch)
    return info, False


def _progress(file: InputFile, source: Source, writer: HDF5ShardWriter) -> BuildProgress:
    return BuildProgress(
        key=file.key,
        documents=writer.document_count,
        rows=source.counts.rows,
        tokens=writer.token_count,
        bytes_read=source.bytes_read,
        bytes_total=file.size,
    )


def format_options(record_format: RecordFormat | None) -> dict[str, Any]:
    """The keywords of HDF5ShardWriter for documents of a format."""
    if record_format is None:
        return {}
    return {
        "fields": record_format.fields,
        "spans": record_format.spans,
        "format": record_format.name,
    }


def refuse_changed(file: InputFile, source: Source) -> None:
    """Raise InputChangedError unless the source read what was observed."""
    if source.sha256 != file.fingerprint:
        raise InputChangedError(
            f"{file.name}: its sha256 is {source.sha256[:16]}…, but {file.fingerprint[:16] or 'unreadable'}… "
            "when it was observed: it changed; observe it again and rebuild"
        )


def refuse_rejects(file: InputFile, ledger: Ledger, allowed: float, quarantine: Path) -> None:
    """Raise TooManyRejectsError if more than the share `allowed` of the rows was rejected, or all of them."""
    if not ledger.rejected_count:
        return
    reasons = ", ".join(f"{count} × {reason}" for reason, count in sorted(ledger.rejected.items()))
    if not ledger.documents:
        raise TooManyRejectsError(
            f"{file.name}: none of {ledger.rows} rows is a document ({reasons}); rejects: {quarantine}"
        )
    share = ledger.rejected_count / (ledger.rows - ledger.blank)
    if share > allowed:
        raise TooManyRejectsError(
            f"{file.name}: {ledger.rejected_count} of {ledger.rows} rows rejected ({reasons}), "
            f"{share:.2%} where max_reject_fraction allows {allowed:.2%}; rejects: {quarantine}"
        )
