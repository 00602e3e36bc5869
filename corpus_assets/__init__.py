"""Build, verify and read token corpora; the names that a trainer or a script uses.

Names are loaded on first use, so that importing a loader costs NumPy and nothing else.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_ROOM_OF = {
    "ByteTokenizer": "tokenizers",
    "load_tokenizer": "tokenizers",
    "JSONLSource": "sources.jsonl",
    "ParquetSource": "sources.parquet",
    "HDF5ShardWriter": "shards.writer",
    "write_shard": "shards.build",
    "tokenize_jsonl_path": "shards.build",
    "ShardedTokenizationPipeline": "shards.pipeline",
    "write_corpus": "shards.corpus",
    "ShardInfo": "shards.records",
    "ShardIndex": "shards.records",
    "load_index": "shards.index",
    "validate_corpus": "shards.validate",
    "MmapTokenStore": "loading.store",
    "SlidingWindowDataloader": "loading.loader",
    "pack_documents": "loading.packing",
    "CorpusError": "errors",
    "CorpusComponent": "defs.component",
}

__all__ = sorted(_ROOM_OF)

if TYPE_CHECKING:
    from corpus_assets.errors import CorpusError as CorpusError


def __getattr__(name: str) -> Any:
    if name not in _ROOM_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_ROOM_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
