"""A small corpus, a real persistent Dagster instance, and what tests ask of both."""

import json
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.assets.graph.base_asset_graph import BaseAssetGraph
from dagster._core.execution.backfill import PartitionBackfill
from dagster._time import get_current_timestamp

from corpus_assets.benchmarks import throughput
from corpus_assets.config import CorpusConfig, parse_corpus
from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.factory import corpus_definitions
from corpus_assets.defs.home import TEMPLATE, open_instance
from corpus_assets.defs.launch import build_corpus

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


def add_backfill(
    instance: dg.DagsterInstance, graph: BaseAssetGraph, asset: dg.AssetKey, keys: Sequence[str]
) -> PartitionBackfill:
    """A backfill of these partitions that no daemon has taken up yet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Dagster's own
        backfill = PartitionBackfill.from_asset_partitions(
            backfill_id="toys",
            asset_graph=graph,
            partition_names=list(keys),
            asset_selection=[asset],
            backfill_timestamp=get_current_timestamp(),
            tags={},
            dynamic_partitions_store=instance,
            all_partitions=False,
            title=None,
            description=None,
            run_config=None,
        )
    instance.add_backfill(backfill)
    return backfill


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
        "window_size": 256,
        "workers": 1,
        "training": {"steps": 5, "batch_size": 2},
    }
    return parse_corpus(name, entry | options, base=folder, where="test")


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """In memory where the system has such a folder: SQLite syncs every event, which a busy disk makes slow."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def _short_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    """One short round instead of several: what the rates are is the benchmark's own tests' matter."""
    monkeypatch.setattr(throughput, "_ROUND_SECONDS", 0.0005)
    monkeypatch.setattr(throughput, "DEFAULT_REPEATS", 1)


@dataclass(frozen=True)
class Built:
    """A corpus that was built and released, and the instance that remembers it."""

    instance: dg.DagsterInstance
    config: CorpusConfig

    @property
    def corpus(self) -> Corpus:
        return Corpus(self.config)

    def input(self, name: str) -> Path:
        return Path(self.config.input) / name

    def open_backfill(self, *keys: str) -> PartitionBackfill:
        """A backfill of these partitions that no daemon has taken up yet."""
        graph = corpus_definitions(self.config).resolve_asset_graph()
        return add_backfill(self.instance, graph, self.corpus.key("token_shards"), keys)


@pytest.fixture
def config(tmp_path: Path) -> CorpusConfig:
    """A corpus of four input shards, a.jsonl to d.jsonl; nothing is built."""
    return _toy_inputs(tmp_path)


@pytest.fixture
def instance(tmp_path: Path, _empty_home: Path) -> Iterator[dg.DagsterInstance]:
    """A persistent instance with the shipped settings."""
    shutil.copytree(_empty_home, tmp_path / "dagster_home")
    with open_instance(tmp_path / "dagster_home") as opened:
        yield opened


@pytest.fixture
def built(tmp_path: Path, _built_project: Path) -> Iterator[Built]:
    """The corpus of `config`, built and released; a copy of its own for each test."""
    shutil.copytree(_built_project, tmp_path, dirs_exist_ok=True)
    with open_instance(tmp_path / "dagster_home") as opened:
        yield Built(opened, toy_config(tmp_path))


@pytest.fixture(scope="session")
def _empty_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A DAGSTER_HOME whose databases exist: making them takes longer than most tests."""
    home = tmp_path_factory.mktemp("home")
    (home / "dagster.yaml").write_bytes(TEMPLATE.read_bytes())
    with open_instance(home) as opened:
        opened.get_runs(limit=1)
        opened.get_dynamic_partitions("none")
    return home


@pytest.fixture(scope="session")
def _built_project(tmp_path_factory: pytest.TempPathFactory, _empty_home: Path) -> Path:
    folder = tmp_path_factory.mktemp("built")
    shutil.copytree(_empty_home, folder / "dagster_home")
    with warnings.catch_warnings(), open_instance(folder / "dagster_home") as opened:
        warnings.simplefilter("ignore")
        assert build_corpus(opened, _toy_inputs(folder)).ok
    return folder


def _toy_inputs(folder: Path) -> CorpusConfig:
    config = toy_config(folder)
    for letter in "abcd":
        write_input(Path(config.input) / f"{letter}.jsonl")
    return config
