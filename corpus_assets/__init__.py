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
    "PackedRecord": "formats.protocol",
    "RecordFormat": "formats.protocol",
    "RecordRejected": "formats.protocol",
    "record_format": "formats",
    "HDF5ShardWriter": "shards.writer",
    "write_shard": "shards.standalone",
    "tokenize_jsonl_path": "shards.standalone",
    "ShardedTokenizationPipeline": "shards.pipeline",
    "write_corpus": "shards.corpus",
    "ShardInfo": "shards.records",
    "ShardIndex": "shards.records",
    "load_index": "shards.index",
    "recode_corpus": "shards.recode",
    "validate_corpus": "shards.validate",
    "MmapTokenStore": "loading.store",
    "SlidingWindowDataloader": "loading.loader",
    "DocumentDataset": "loading.datasets",
    "DocumentDataloader": "loading.document_loader",
    "RecordDataset": "loading.datasets",
    "RecordDataloader": "loading.record_loader",
    "MixtureDataloader": "loading.mixture",
    "SkipList": "loading.skipping",
    "WindowBatch": "loading.batches",
    "RaggedBatch": "loading.ragged",
    "pack_documents": "loading.packing",
    "CorpusError": "errors",
    "CorpusComponent": "defs.component",
}

__all__ = [
    "ByteTokenizer",
    "CorpusComponent",
    "CorpusError",
    "DocumentDataloader",
    "DocumentDataset",
    "HDF5ShardWriter",
    "JSONLSource",
    "MixtureDataloader",
    "MmapTokenStore",
    "PackedRecord",
    "ParquetSource",
    "RaggedBatch",
    "RecordDataloader",
    "RecordDataset",
    "RecordFormat",
    "RecordRejected",
    "ShardIndex",
    "ShardInfo",
    "ShardedTokenizationPipeline",
    "SkipList",
    "SlidingWindowDataloader",
    "WindowBatch",
    "load_index",
    "load_tokenizer",
    "pack_documents",
    "recode_corpus",
    "record_format",
    "tokenize_jsonl_path",
    "validate_corpus",
    "write_corpus",
    "write_shard",
]

if TYPE_CHECKING:
    from corpus_assets.defs.component import CorpusComponent as CorpusComponent
    from corpus_assets.errors import CorpusError as CorpusError
    from corpus_assets.formats import record_format as record_format
    from corpus_assets.formats.protocol import PackedRecord as PackedRecord
    from corpus_assets.formats.protocol import RecordFormat as RecordFormat
    from corpus_assets.formats.protocol import RecordRejected as RecordRejected
    from corpus_assets.loading.batches import WindowBatch as WindowBatch
    from corpus_assets.loading.datasets import DocumentDataset as DocumentDataset
    from corpus_assets.loading.datasets import RecordDataset as RecordDataset
    from corpus_assets.loading.document_loader import DocumentDataloader as DocumentDataloader
    from corpus_assets.loading.loader import SlidingWindowDataloader as SlidingWindowDataloader
    from corpus_assets.loading.mixture import MixtureDataloader as MixtureDataloader
    from corpus_assets.loading.packing import pack_documents as pack_documents
    from corpus_assets.loading.ragged import RaggedBatch as RaggedBatch
    from corpus_assets.loading.record_loader import RecordDataloader as RecordDataloader
    from corpus_assets.loading.skipping import SkipList as SkipList
    from corpus_assets.loading.store import MmapTokenStore as MmapTokenStore
    from corpus_assets.shards.corpus import write_corpus as write_corpus
    from corpus_assets.shards.index import load_index as load_index
    from corpus_assets.shards.pipeline import ShardedTokenizationPipeline as ShardedTokenizationPipeline
    from corpus_assets.shards.recode import recode_corpus as recode_corpus
    from corpus_assets.shards.records import ShardIndex as ShardIndex
    from corpus_assets.shards.records import ShardInfo as ShardInfo
    from corpus_assets.shards.standalone import tokenize_jsonl_path as tokenize_jsonl_path
    from corpus_assets.shards.standalone import write_shard as write_shard
    from corpus_assets.shards.validate import validate_corpus as validate_corpus
    from corpus_assets.shards.writer import HDF5ShardWriter as HDF5ShardWriter
    from corpus_assets.sources.jsonl import JSONLSource as JSONLSource
    from corpus_assets.sources.parquet import ParquetSource as ParquetSource
    from corpus_assets.tokenizers import ByteTokenizer as ByteTokenizer
    from corpus_assets.tokenizers import load_tokenizer as load_tokenizer


def __getattr__(name: str) -> Any:
    if name not in _ROOM_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_ROOM_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
