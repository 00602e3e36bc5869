"""Small corpora, built for real."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import settings

from corpus_assets import write_corpus
from corpus_assets.shards.records import ShardIndex

# Machines are noisy: a slow example is no failure.
settings.register_profile("default", deadline=None)
settings.load_profile("default")


def write_jsonl(path: Path, texts: Iterable[str]) -> Path:
    """One input shard with a row for each text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return path


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., ShardIndex]:
    """`build({"a.jsonl": ["text", …], …}, **options)` → the index of a corpus at tmp_path / "corpus"."""

    def build_corpus(inputs: dict[str, list[str]], **options) -> ShardIndex:
        for name, texts in inputs.items():
            write_jsonl(tmp_path / "input" / name, texts)
        return write_corpus(tmp_path / "input", tmp_path / "corpus", workers=1, **options)

    return build_corpus
