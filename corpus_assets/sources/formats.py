"""Which names are inputs: extensions, in any case, and what stands behind them."""

from __future__ import annotations

import posixpath

JSON_EXTENSIONS = (".jsonl", ".ndjson", ".json")
PARQUET_EXTENSIONS = (".parquet", ".pq")
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
KNOWN_EXTENSIONS = (
    *JSON_EXTENSIONS,
    *(extension + suffix for extension in JSON_EXTENSIONS for suffix in COMPRESSIONS),
    *PARQUET_EXTENSIONS,
)


def extension_of(url: str) -> str | None:
    """The known extension that a path or URL ends with, in lower case; None when there is none.

    Of a chained URL (`zip://a.jsonl::s3://bucket/x.zip`) the first link that has a path counts.
    """
    name = next((link for link in url.split("::") if "://" in link), url)
    if name.startswith(("http://", "https://")):
        name = name.partition("?")[0].partition("#")[0]
    base = posixpath.basename(name).lower()
    return next((extension for extension in KNOWN_EXTENSIONS if base.endswith(extension)), None)


def compression_of(url: str) -> str | None:
    """`gzip`, `zstd` or None, by the extension of `url`."""
    extension = extension_of(url) or ""
    return next((kind for suffix, kind in COMPRESSIONS.items() if extension.endswith(suffix)), None)
