"""Record to document: tokens, values beside them, annotations of their ranges.

load_format(shape) ──▶ text.py ───────┐
                  ├──▶ segments.py ───┤ pieces.py ◀── spans.py (characters to tokens)
                  ├──▶ chat.py ───────┘
                  ├──▶ own.py            a user's own
                  └──▶ values.py         numbers of the record around any of them
                           │
                        batch.py ──▶ EncodedDocuments
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from corpus_assets.errors import ConfigError
from corpus_assets.formats.protocol import RecordFormat

if TYPE_CHECKING:
    from corpus_assets.config import CorpusConfig
    from corpus_assets.shapes import DocumentShape

__all__ = ["content_fingerprint", "format_of", "load_format", "record_format"]


def load_format(shape: DocumentShape) -> RecordFormat:
    """The format that `shape` describes.

    Raises:
        ConfigError: an own format cannot be loaded, or has a field that the shape also names.
    """
    made = _base_format(shape)
    if clash := sorted(shape.fields.keys() & set(made.fields)):
        raise ConfigError(f"fields: {clash[0]} is a field of format {shape.format}, expected another name")
    if shared := sorted((shape.fields.keys() | set(made.fields)) & set(made.spans)):
        raise ConfigError(f"spans: {shared[0]} is the name of a field too, expected another name")
    if not shape.fields:
        return made
    from corpus_assets.formats.values import WithValues

    return WithValues(made, shape.fields)


def _base_format(shape: DocumentShape) -> RecordFormat:
    spans = {name: span.source for name, span in shape.spans.items()}
    if shape.format == "text":
        from corpus_assets.formats.text import TextFormat

        return TextFormat(text_field=shape.text_field, spans=spans)
    if shape.format == "segments":
        from corpus_assets.formats.segments import SegmentsFormat

        return SegmentsFormat(text_field=shape.text_field, spans=spans)
    if shape.format == "chat":
        from corpus_assets.formats.chat import ChatFormat
        from corpus_assets.shapes import DEFAULT_TEMPLATE, DEFAULT_TRAIN_ROLES

        return ChatFormat(
            text_field=shape.text_field,
            train_roles=shape.train_roles or DEFAULT_TRAIN_ROLES,
            template=DEFAULT_TEMPLATE if shape.template is None else shape.template,
            spans=spans,
        )
    from corpus_assets.formats.own import import_format

    return import_format(shape.format)


def record_format(format: str = "text", **options: Any) -> RecordFormat:
    """A format by the keys of a corpora.yaml entry: `record_format("chat", text_field="messages")`.

    Args:
        format: `text`, `segments`, `chat`, or an own format as `package.module:Name`.
        options: `text_field`, `train_roles`, `template`, `fields`, `spans`.

    Raises:
        ConfigError: an option cannot be used.
    """
    from pydantic import ValidationError

    from corpus_assets.shapes import DocumentShape

    try:
        return load_format(DocumentShape(format=format, **options))
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"format {format}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def format_of(config: DocumentShape) -> RecordFormat | None:
    """The format of a corpus; None where a document is one text and nothing else.

    Raises:
        ConfigError: see `load_format`.
    """
    return None if config.is_plain else load_format(config)


def content_fingerprint(config: CorpusConfig) -> str:
    """sha256 over all that decides the content of a shard, tokenizer and input aside; an own format's code too."""
    made = format_of(config)
    if made is None:
        return config.options_fingerprint
    return hashlib.sha256(f"{config.options_fingerprint}\n{made.fingerprint}".encode()).hexdigest()
