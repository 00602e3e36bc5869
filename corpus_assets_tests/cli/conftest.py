"""A project in a temporary folder, and the `corpus` command run in it."""

from __future__ import annotations

import shutil
from inspect import signature
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from corpus_assets.cli import main
from corpus_assets_tests.conftest import write_jsonl


def command_runner() -> CliRunner:
    """Keeps stdout and stderr apart: click before 8.2 must be told to, later ones cannot be."""
    can_mix = "mix_stderr" in signature(CliRunner).parameters
    return CliRunner(mix_stderr=False) if can_mix else CliRunner()


class Shell:
    """Runs `corpus` in a project folder, as a shell would but in this process.

    Attributes:
        folder: of the project.
        root: of its corpus `c`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "data/c/corpus"

    def configure(self, **options: object) -> Path:
        """Write a corpora.yaml with one corpus, `c`; returns its path."""
        entry = {"input": "data/c/input", "root": "data/c/corpus", "workers": 1, **options}
        path = self.folder / "data/corpora.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump({"corpora": {"c": entry}}), encoding="utf-8")
        (self.folder / "workspace.yaml").touch()
        return path

    def write_input(self, name: str, *texts: str) -> Path:
        """An input shard of `c`."""
        return write_jsonl(self.folder / "data/c/input" / name, texts)

    def build_shards(self) -> None:
        """Build what is not up to date without the graph, which takes seconds; index it if nothing failed."""
        from corpus_assets.cli.project import Project
        from corpus_assets.shards.index import write_index
        from corpus_assets.shards.manifest import observe_inputs
        from corpus_assets.shards.pipeline import ShardedTokenizationPipeline

        config = Project.load(None).corpus("c")
        manifest = observe_inputs(config)
        outcomes = list(ShardedTokenizationPipeline(config).run(manifest.files))
        if all(outcome.info for outcome in outcomes):
            write_index(config.root, manifest.keys)

    def __call__(self, *arguments: str) -> Result:
        return command_runner().invoke(main, arguments, catch_exceptions=False)

    def refused(self, *arguments: str) -> str:
        """The message of a command that must end with exit code 2, without a traceback."""
        result = self(*arguments)
        assert result.exit_code == 2, result.output
        assert "Traceback" not in result.output
        head, found, message = result.stderr.rpartition("Error: ")
        assert found, result.stderr
        assert "Error: " not in head, "more than one message"
        return message.strip()


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """`shell("build", "--force")` in an empty project folder, which is the working folder."""
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.delenv("CORPUS_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path)


@pytest.fixture
def built(shell: Shell) -> Shell:
    """A shell in a project whose corpus has two shards, built without the graph: 3 + 2 and 5 tokens."""
    shell.configure()
    shell.write_input("a.jsonl", "ab", "c")
    shell.write_input("b.jsonl", "defg")
    shell.build_shards()
    return shell


@pytest.fixture(scope="session")
def fresh_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A DAGSTER_HOME whose databases are made and empty, which takes Dagster a second."""
    from corpus_assets.cli.graph import open_instance
    from corpus_assets.cli.project import Project

    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DAGSTER_HOME", raising=False)
        project = Project(config_file=folder / "corpora.yaml", folder=folder, corpora={})
        with open_instance(project):
            return project.dagster_home


@pytest.fixture
def builder(shell: Shell, fresh_home: Path) -> Shell:
    """A shell in an empty project that has a Dagster home already."""
    shutil.copytree(fresh_home, shell.folder / "data/dagster_home")
    return shell
