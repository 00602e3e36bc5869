"""Small corpora with fields and annotations, and what they must read back as."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from corpus_assets.shards.index import INDEX, publish_index
from corpus_assets.shards.records import ShardIndex
from corpus_assets.shards.writer import HDF5ShardWriter
from corpus_assets.tokenizers.protocol import SpanTable
from corpus_assets_tests.loading.corpora import BOUNDARY, random_shards, tokenizer_info

FIELDS = {"loss_mask": np.uint8, "weight": np.float32}


@dataclass(frozen=True)
class Doc:
    """One document: ids, a mask and a weight per token (boundary included), annotations (start, stop, value)."""

    ids: list[int]
    mask: list[int]
    weights: list[float]
    topics: list[tuple[int, int, Any]] = field(default_factory=list)


def random_docs(sizes: Sequence[int], *, seed: int = 0) -> list[list[Doc]]:
    """Shards of exactly `sizes` tokens."""
    generator = np.random.default_rng(seed)
    return [
        [_annotated(ids, generator) for ids in documents] for documents in random_shards(sizes, seed=seed)
    ]


def _annotated(ids: list[int], generator: np.random.Generator) -> Doc:
    count = len(ids) + 1
    topics = []
    for number in range(int(generator.integers(0, 4))):
        start = int(generator.integers(0, count))
        topics.append((start, int(generator.integers(start + 1, count + 1)), {"topic": number}))
    return Doc(
        ids,
        generator.integers(0, 2, count).tolist(),
        generator.integers(0, 1000, count).astype(np.float32).tolist(),
        topics,
    )


def write_shaped(
    root: Path, shards: Sequence[Sequence[Doc]], *, compression: str | Sequence[str] = "none"
) -> ShardIndex:
    """A corpus at `root` with fields `loss_mask` and `weight` and annotations `topic`."""
    root.mkdir(parents=True, exist_ok=True)
    codecs = [compression] * len(shards) if isinstance(compression, str) else compression
    records = []
    for number, (documents, codec) in enumerate(zip(shards, codecs, strict=True)):
        with HDF5ShardWriter(
            root / f"s{number:05d}.h5",
            tokenizer=tokenizer_info(),
            window_size=4,
            chunk_size=16,
            compression=codec,
            fields=FIELDS,
            spans=["topic"],
        ) as writer:
            for doc in documents:
                writer.add_document(
                    doc.ids,
                    fields={
                        "loss_mask": np.array(doc.mask, np.uint8),
                        "weight": np.array(doc.weights, np.float32),
                    },
                    spans={"topic": _table(doc.topics)},
                )
            records.append(writer.close())
    index = ShardIndex.of(records, root)
    publish_index(index, root / INDEX)
    return index


def _table(topics: Sequence[tuple[int, int, Any]]) -> SpanTable:
    return SpanTable(
        starts=np.array([start for start, _, _ in topics], np.int64),
        stops=np.array([stop for _, stop, _ in topics], np.int64),
        values=[json.dumps(value).encode() for _, _, value in topics],
    )


@dataclass(frozen=True)
class Flat:
    """The corpus as plain lists, one entry per token, made without the code under test."""

    tokens: np.ndarray
    mask: np.ndarray
    weight: np.ndarray
    document: np.ndarray
    bounds: list[tuple[int, int]]
    topics: list[tuple[int, int, Any]]


def flat(shards: Sequence[Sequence[Doc]]) -> Flat:
    """What `shards` must read back as."""
    docs = [doc for shard in shards for doc in shard]
    tokens: list[int] = []
    bounds, topics = [], []
    for doc in docs:
        start = len(tokens)
        tokens += [*doc.ids, BOUNDARY]
        bounds.append((start, len(tokens)))
        topics += [(start + a, start + b, value) for a, b, value in doc.topics]
    return Flat(
        np.array(tokens, np.int64),
        np.array([value for doc in docs for value in doc.mask], np.uint8),
        np.array([value for doc in docs for value in doc.weights], np.float32),
        np.repeat(np.arange(len(docs)), [stop - start for start, stop in bounds]),
        bounds,
        topics,
    )


def rows(values: np.ndarray, starts: Sequence[int], length: int) -> np.ndarray:
    """The windows of a flat array as rows."""
    return np.array([values[start : start + length] for start in starts], values.dtype).reshape(-1, length)
