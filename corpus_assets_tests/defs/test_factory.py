"""The definitions as a whole: two corpora side by side, a component, a user's own asset, a broken file."""

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml

from corpus_assets import CorpusComponent, MmapTokenStore
from corpus_assets.config import CorpusConfig, load_config
from corpus_assets.defs.factory import corpus_definitions
from corpus_assets.defs.launch import build_corpus
from corpus_assets.shards.index import load_index
from corpus_assets_tests.defs.conftest import toy_config, write_input

ASSETS = {
    "input_shards",
    "token_shards",
    "shard_index",
    "shard_digests",
    "corpus_statistics",
    "loader_throughput",
    "training_release",
    "training",
}
PROJECT_DEFINITIONS = """
from pathlib import Path
import dagster as dg

@dg.definitions
def defs():
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)

if __name__ == "__main__":
    graph = defs().resolve_asset_graph()
    for key in graph.get_all_asset_keys():
        print(key.to_user_string())
    print(graph.get(dg.AssetKey(["toy", "input_shards"])).description)
"""


def merged(*configs):
    return dg.Definitions.merge(*map(corpus_definitions, configs))


def test_the_graph_of_a_corpus(config):
    graph = corpus_definitions(config).resolve_asset_graph()
    assert {key.path[1] for key in graph.get_all_asset_keys()} == ASSETS
    assert {key.path[0] for key in graph.get_all_asset_keys()} == {"toy"}
    parents = {
        key.path[1]: sorted(p.path[1] for p in graph.get(key).parent_keys)
        for key in graph.get_all_asset_keys()
    }
    assert parents == {
        "input_shards": [],
        "token_shards": ["input_shards"],
        "shard_index": ["token_shards"],
        "shard_digests": ["shard_index"],
        "corpus_statistics": ["shard_index"],
        "loader_throughput": ["shard_index"],
        "training_release": ["corpus_statistics", "loader_throughput", "shard_digests", "shard_index"],
        "training": ["training_release"],
    }
    assert {key.name for key in graph.asset_check_keys} == {
        "every_input_shard_is_indexed",
        "offsets_are_contiguous",
        "one_tokenizer",
        "ledger_balances",
        "digests_match",
        "enough_documents",
        "boundary_share_is_low",
        "reject_share_is_low",
        "throughput_is_above_floor",
    }


def test_two_corpora_share_no_key_name_pool_or_folder(tmp_path):
    one, two = toy_config(tmp_path, name="one"), toy_config(tmp_path, name="one_build")
    definitions = merged(one, two)
    repository = definitions.get_repository_def()
    graph = definitions.resolve_asset_graph()
    assert len(graph.get_all_asset_keys()) == 2 * len(ASSETS)
    assert len(repository.schedule_defs) == 2
    assert len(repository.sensor_defs) == 6
    pools = {
        name: {asset.pools.pop() for asset in _executables(graph, name) if asset.pools}
        for name in ("one", "one_build")
    }
    assert not pools["one"] & pools["one_build"]


def test_two_corpora_are_built_side_by_side(instance, tmp_path):
    configs = [toy_config(tmp_path, name=name) for name in ("one", "two")]
    for config, count in zip(configs, (1, 2), strict=True):
        for number in range(count):
            write_input(Path(config.input) / f"{number}.jsonl", word=config.name)
    reports = [build_corpus(instance, config) for config in configs]
    assert [len(report.index.shards) for report in reports] == [1, 2]
    assert instance.get_dynamic_partitions("one_input_shards") == ["0.jsonl"]
    assert reports[0].index.fingerprint != reports[1].index.fingerprint


def test_a_users_asset_takes_the_released_corpus_as_an_argument(built):
    @dg.asset(ins={"corpus": dg.AssetIn(key=["toy", "training_release"])})
    def probe(corpus: MmapTokenStore) -> dg.MaterializeResult:
        with corpus:
            return dg.MaterializeResult(
                metadata={"tokens": len(corpus), "first": corpus.get_slice(0, 4).tolist()}
            )

    definitions = dg.Definitions.merge(corpus_definitions(built.config), dg.Definitions(assets=[probe]))
    result = definitions.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=built.instance, asset_selection=[dg.AssetKey("probe")]
    )
    (event,) = result.asset_materializations_for_node("probe")
    assert event.metadata["tokens"].value == load_index(built.config.index_path).token_count
    assert event.metadata["first"].value == [ord(letter) + 1 for letter in "word"]


def test_a_users_asset_does_not_get_a_corpus_without_a_release(built):
    fingerprint = load_index(built.config.index_path).fingerprint
    (built.config.root / "releases" / f"{fingerprint}.json").unlink()

    @dg.asset(ins={"corpus": dg.AssetIn(key=["toy", "training_release"])})
    def probe(corpus: MmapTokenStore) -> None:
        raise AssertionError("started")

    definitions = dg.Definitions.merge(corpus_definitions(built.config), dg.Definitions(assets=[probe]))
    result = definitions.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=built.instance, asset_selection=[dg.AssetKey("probe")], raise_on_error=False
    )
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    assert f"expected one for index {fingerprint}" in failure.step_failure_data.error.message


def load_component(tmp_path, *attributes):
    """A project that has never heard of corpora.yaml: a defs.yaml, loaded as `dg dev` loads it."""
    project = tmp_path / "project"
    defs = project / "my_project" / "defs"
    defs.mkdir(parents=True)
    (project / "pyproject.toml").write_text(
        '[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "my_project"\n'
    )
    (project / "my_project" / "__init__.py").touch()
    (defs / "__init__.py").touch()
    (project / "my_project" / "definitions.py").write_text(PROJECT_DEFINITIONS)
    for entry in attributes:
        (defs / entry["name"]).mkdir()
        (defs / entry["name"] / "defs.yaml").write_text(
            yaml.safe_dump({"type": "corpus_assets.CorpusComponent", "attributes": entry})
        )
    return subprocess.run(
        [sys.executable, "-m", "my_project.definitions"],
        cwd=project,
        env={**os.environ, "INPUTS": "texts"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_component_is_a_corpus_in_any_dagster_project(tmp_path):
    attributes = {"name": "toy", "input": "{{ env.INPUTS }}", "root": "out", "window_size": 256}
    finished = load_component(tmp_path, attributes)
    *keys, described = finished.stdout.splitlines()
    assert set(keys) == {f"toy/{asset}" for asset in ASSETS}
    assert described.startswith(f"Input shards of {tmp_path / 'project' / 'texts'};")


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"windowsize": 3}, "attributes.windowsize"),
        ({"training": {"steps": 0}}, "attributes.training.steps"),
        ({"schedule": {"cron": "61 * * * *"}}, "attributes.schedule.cron"),
        ({"input": "{{ env.UNSET }}"}, "corpus toy:\n  input: found None"),
    ],
)
def test_a_wrong_attribute_of_a_component_is_named_with_its_file(tmp_path, wrong, key):
    finished = load_component(tmp_path, {"name": "toy", "input": "in", "root": "out"} | wrong)
    assert finished.returncode == 1
    assert key in finished.stderr
    assert str(tmp_path / "project" / "my_project" / "defs" / "toy") in finished.stderr


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            {"name": "zoo", "input": "other", "root": "out/deep"},
            "corpus zoo: root {project}/out/deep overlaps the root of corpus toy",
        ),
        (
            {"name": "zoo", "input": "same", "root": "same"},
            "corpus zoo: root {project}/same is its input too",
        ),
    ],
)
def test_components_have_folders_of_their_own(tmp_path, entry, message):
    finished = load_component(tmp_path, {"name": "toy", "input": "in", "root": "out"}, entry)
    assert finished.returncode == 1
    assert message.format(project=tmp_path / "project") in finished.stderr


def test_a_components_attributes_are_those_of_corpora_yaml():
    assert CorpusComponent.get_model_cls() is CorpusConfig
    component = CorpusComponent.from_attributes_dict(
        attributes={"name": "toy", "input": "in", "root": "out", "training": {"steps": 7}}
    )
    assert component.config.training.steps == 7
    assert component.config.root.is_absolute()


def test_a_wrong_corpora_yaml_is_one_clear_error(tmp_path):
    file = tmp_path / "corpora.yaml"
    file.write_text("corpora: {toy: {input: in, root: out, windowsize: 3}}")
    finished = subprocess.run(
        [sys.executable, "-c", "import corpus_assets.definitions"],
        env={**os.environ, "CORPUS_CONFIG": str(file)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 1
    assert f"ConfigError: {file}: corpus toy:" in finished.stderr
    assert "windowsize: unknown key" in finished.stderr
    assert len(finished.stderr.splitlines()) < 15
    assert "pydantic" not in finished.stderr


def test_definitions_have_every_corpus_of_the_file(tmp_path, monkeypatch):
    file = tmp_path / "corpora.yaml"
    file.write_text("corpora: {one: {input: a, root: b}, two: {input: c, root: d}}")
    monkeypatch.setenv("CORPUS_CONFIG", str(file))
    from corpus_assets.definitions import load_definitions

    groups = {key.path[0] for key in load_definitions().resolve_asset_graph().get_all_asset_keys()}
    assert groups == set(load_config()) == {"one", "two"}


def _executables(graph, corpus):
    return [graph.get(key) for key in graph.get_all_asset_keys() if key.path[0] == corpus]
