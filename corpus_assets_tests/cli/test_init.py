from __future__ import annotations

import pytest
import yaml

from corpus_assets.cli.build import COMPRESSIONS
from corpus_assets.cli.init import CORPORA_YAML
from corpus_assets.cli.project import Project
from corpus_assets.config import (
    CorpusConfig,
    ScheduleConfig,
    StatisticsConfig,
    TrainingConfig,
    load_config,
    parse_corpus,
)
from corpus_assets.defs.home import dagster_home

WRITTEN = ["data/corpora.yaml", "data/dagster_home/dagster.yaml", "workspace.yaml"]


def files_below(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_the_project_can_be_used_from_any_folder_of_it(shell, monkeypatch):
    assert shell("init", "mine").exit_code == 0
    assert files_below(shell.folder / "mine") == WRITTEN
    (shell.folder / "mine/data/deep/er").mkdir(parents=True)
    monkeypatch.chdir(shell.folder / "mine/data/deep/er")
    project = Project.load(None)
    assert project.folder == shell.folder / "mine"
    assert project.corpus("stdlib").root == shell.folder / "mine/data/stdlib/corpus"
    assert project.workspace.is_file()
    assert shell("status").stdout.startswith("stdlib: ")


def test_nothing_is_overwritten(shell):
    (shell.folder / "workspace.yaml").write_text("mine")
    message = shell.refused("init", ".")
    assert message == "workspace.yaml: there already; expected a folder without it, nothing written"
    assert files_below(shell.folder) == ["workspace.yaml"]


def example() -> dict:
    """The commented entry of the written corpora.yaml."""
    lines = CORPORA_YAML.partition("# mine:\n")[2].splitlines()
    return yaml.safe_load("\n".join(line.removeprefix("  #") for line in lines))


def test_the_commented_example_names_every_key_with_its_default(tmp_path):
    entry = example()
    assert set(entry) == set(CorpusConfig.model_fields) - {"name"}
    for section, model in (
        ("schedule", ScheduleConfig),
        ("statistics", StatisticsConfig),
        ("training", TrainingConfig),
    ):
        assert set(entry[section]) == set(model.model_fields)
    least = parse_corpus("mine", {key: entry[key] for key in ("input", "root")}, base=tmp_path, where="here")
    assert parse_corpus("mine", entry, base=tmp_path, where="here") == least


def test_the_commented_example_names_every_compression():
    (line,) = (line for line in CORPORA_YAML.splitlines() if "compression: " in line)
    assert line.partition("# none")[2].split(" | ")[1:] == list(COMPRESSIONS[1:])


def test_a_new_project_has_the_corpus_of_the_demo(shell):
    shell("init", "mine")
    assert list(load_config(shell.folder / "mine/data/corpora.yaml")) == ["stdlib"]


@pytest.mark.parametrize("named", [None, "elsewhere", "~/elsewhere"])
def test_the_commands_and_the_graph_mean_the_same_dagster_home(shell, monkeypatch, named):
    monkeypatch.setenv("HOME", str(shell.folder))
    if named is not None:
        monkeypatch.setenv("DAGSTER_HOME", named)
    shell.configure()
    project = Project.load(None)
    assert dagster_home(project.folder) == project.dagster_home
