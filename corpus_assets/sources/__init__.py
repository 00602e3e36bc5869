"""Input shard to documents.

list_inputs ──▶ ListedInput ──▶ open_source ──▶ DocumentBatch …
 discover.py     keys.py         jsonl.py ◀── rows.py ◀── lines.py ◀── decompression.py ◀── raw.py
                                 parquet.py ◀── unpacking.py
"""

from __future__ import annotations

from collections.abc import Callable

from corpus_assets.errors import InputUnreadableError
from corpus_assets.sources.document import OnReject, Source
from corpus_assets.sources.formats import KNOWN_EXTENSIONS, PARQUET_EXTENSIONS, extension_of

__all__ = ["open_source"]


def open_source(
    url: str,
    *,
    text_field: str | None = "text",
    on_reject: OnReject | None = None,
    max_line_bytes: int = 64 * 1024 * 1024,
    batch_bytes: int = 4 * 1024 * 1024,
    keep_records: bool = False,
) -> Source:
    """The source of `url`, a path or an fsspec URL, chosen by its extension.

    Raises:
        InputUnreadableError: the extension is unknown.
    """
    extension = extension_of(url)
    if extension is None:
        raise InputUnreadableError(
            f"{url}: unknown extension, expected one of {', '.join(KNOWN_EXTENSIONS)} (in any case)"
        )
    opened: Callable[..., Source]
    if extension in PARQUET_EXTENSIONS:
        from corpus_assets.sources.parquet import ParquetSource as opened
    else:
        from corpus_assets.sources.jsonl import JSONLSource as opened
    return opened(
        url,
        text_field=text_field,
        on_reject=on_reject,
        max_line_bytes=max_line_bytes,
        batch_bytes=batch_bytes,
        keep_records=keep_records,
    )
