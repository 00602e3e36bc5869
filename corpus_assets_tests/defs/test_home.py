"""DAGSTER_HOME: the shipped settings are ones that Dagster takes, and a person's own copy is left alone."""

import os
import subprocess
import sys

import dagster as dg
import pytest
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import TickStatus

from corpus_assets.defs.home import TEMPLATE, dagster_home, open_instance
from corpus_assets.errors import ConfigError


def test_a_project_gets_the_shipped_settings(tmp_path, monkeypatch):
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    home = dagster_home(tmp_path)
    assert home == tmp_path / "data" / "dagster_home"
    assert (home / "dagster.yaml").read_bytes() == TEMPLATE.read_bytes()


def test_settings_that_are_there_stay(tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "mine"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    assert dagster_home(tmp_path) == tmp_path / "mine"
    assert (tmp_path / "mine" / "dagster.yaml").read_text() == "telemetry: {enabled: false}\n"


def test_what_the_shipped_settings_switch_on(instance):
    assert instance.run_monitoring_enabled
    assert not instance.telemetry_enabled
    assert not instance.nux_enabled
    assert instance.get_concurrency_config().run_queue_config.max_concurrent_runs == 4
    assert instance.global_op_concurrency_default_limit == 1
    kept = instance.get_tick_retention_settings(InstigatorType.SENSOR)
    assert kept[TickStatus.SKIPPED] == 2
    assert 0 < instance.get_tick_retention_settings(InstigatorType.SCHEDULE)[TickStatus.SUCCESS] <= 365


@pytest.mark.parametrize("settings", ["run_monitoring: {enabeld: true}", "storage: {postgres: {}}"])
def test_wrong_settings_are_one_message(tmp_path, settings):
    (tmp_path / "dagster.yaml").write_text(settings)
    with pytest.raises(ConfigError, match=r"dagster\.yaml: "), open_instance(tmp_path):
        pass


def test_records_that_are_no_database_are_one_message(tmp_path):
    (tmp_path / "dagster.yaml").write_bytes(TEMPLATE.read_bytes())
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "runs.db").write_bytes(b"not a database" * 100)
    with pytest.raises(ConfigError, match=r"dagster\.yaml: .*not a database"), open_instance(tmp_path):
        pass


def test_many_processes_may_open_a_new_home_at_once(tmp_path):
    """Without a lock, two of them make the same databases and leave a mark that Dagster chokes on."""
    script = (
        "import sys, warnings; warnings.simplefilter('ignore')\n"
        "from pathlib import Path\n"
        "from corpus_assets.defs.home import dagster_home, open_instance\n"
        "with open_instance(dagster_home(Path(sys.argv[1]))) as instance: instance.get_runs(limit=1)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
    command = [sys.executable, "-c", script, str(tmp_path)]
    processes = [
        subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(4)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors


def test_a_home_that_cannot_be_made_is_named(tmp_path, monkeypatch):
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    (tmp_path / "data").write_text("a file")
    with pytest.raises(ConfigError, match="dagster_home"):
        dagster_home(tmp_path)


def test_records_stay_when_the_instance_is_opened_again(tmp_path, monkeypatch):
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    home = dagster_home(tmp_path)
    with open_instance(home) as first:
        assert isinstance(first, dg.DagsterInstance)
        first.add_dynamic_partitions("set", ["key"])
    with open_instance(home) as second:
        assert second.get_dynamic_partitions("set") == ["key"]
