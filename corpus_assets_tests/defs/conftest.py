"""A small corpus, a real persistent Dagster instance, and what tests ask of both."""

import json
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from corpus_assets.config import CorpusConfig, parse_corpus
from corpus_assets.defs.home import TEMPLATE, open_instance

# Dagster's own, raised deep inside it: it calls what it has deprecated, and marks what it uses as preview.
_DAGSTER_WARNINGS = [
    "ignore:Property `OpDefinition.version` is deprecated:DeprecationWarning",
    "ignore:Function `PipesMessageReader.expected_writer_count` is currently in preview",
    "ignore:AssetExecutionContext.run_id is deprecated:DeprecationWarning",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for warning in _DAGSTER_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(warning))


def write_input(path: Path, *, documents: int = 20, word: str = "word") -> None:
    """An input shard of short documents."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.dumps({"text": f"{word} {row} of {path.name} " * 3}) for row in range(documents)]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def break_input(path: Path) -> None:
    """An input shard without a single document."""
    path.write_text('{"text": null}\n' * 5, encoding="utf-8")


def toy_config(folder: Path, *, name: str = "toy", **options: object) -> CorpusConfig:
    """A corpus under `folder`: inputs in `<name>/input`, shards in `<name>/corpus`."""
    entry = {
        "input": f"{name}/input",
        "root": f"{name}/corpus",
        "window_size": 32,
        "workers": 1,
        "training": {"steps": 5, "batch_size": 2},
    }
    return parse_corpus(name, entry | options, base=folder, where="test")


@pytest.fixture
def config(tmp_path: Path) -> CorpusConfig:
    """A corpus of four input shards, a.jsonl to d.jsonl."""
    config = toy_config(tmp_path)
    for letter in "abcd":
        write_input(Path(config.input) / f"{letter}.jsonl")
    return config


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """A persistent instance with the shipped settings."""
    home = tmp_path / "dagster_home"
    home.mkdir()
    (home / "dagster.yaml").write_bytes(TEMPLATE.read_bytes())
    with open_instance(home) as opened:
        yield opened
