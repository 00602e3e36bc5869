"""A failed run is one readable message, and reaches the user's notifier."""

import shutil

import dagster as dg
import pytest

from corpus_assets.defs.factory import corpus_definitions
from corpus_assets.defs.failure_sensor import configured_notifier
from corpus_assets.errors import ConfigError
from corpus_assets_tests.defs.conftest import break_input

heard = []


def notifier(summary):
    """What CORPUS_NOTIFIER names in a test below."""
    heard.append(summary)


def failed_run(built):
    break_input(built.input("b.jsonl"))
    break_input(built.input("d.jsonl"))
    job = corpus_definitions(built.config).resolve_job_def("toy_build")
    tags = {"dagster/asset_partition_range_start": "a.jsonl", "dagster/asset_partition_range_end": "d.jsonl"}
    return job.execute_in_process(instance=built.instance, tags=tags, raise_on_error=False)


def sense(built, result, notify=None):
    sensor = corpus_definitions(built.config, notify=notify).resolve_sensor_def("toy_failures")
    event = next(event for event in result.all_events if event.event_type is dg.DagsterEventType.RUN_FAILURE)
    context = dg.build_run_status_sensor_context(
        sensor_name="toy_failures",
        dagster_event=event,
        dagster_instance=built.instance,
        dagster_run=result.dagster_run,
        partition_key=None,
    )
    sensor(context.for_run_failure())


def test_the_summary_names_partitions_and_reasons(built, caplog):
    summaries = []
    sense(built, failed_run(built), summaries.append)
    (summary,) = summaries
    assert summary.corpus == "toy"
    assert sorted(summary.partitions) == ["b.jsonl", "d.jsonl"]
    assert summary.partitions["b.jsonl"].startswith("b.jsonl: none of 5 rows is a document (5 × ")
    lines = summary.message.splitlines()
    assert lines[0] == f"toy: run {summary.run_id} of toy_build failed"
    assert lines[1] == "toy__token_shards: 2 of 4 partitions failed"
    assert [line.split(":")[0] for line in lines[2:]] == ["b.jsonl", "d.jsonl"]
    assert summary.message in caplog.text


def test_what_stops_a_whole_step_is_said_with_its_place(built):
    """The error names the folder; the operating system's, behind it, does not."""
    scratch = built.config.root / ".building"
    shutil.rmtree(scratch)
    scratch.touch()
    summaries = []
    sense(built, failed_run(built), summaries.append)
    line = summaries[0].message.splitlines()[1]
    assert line.endswith(f": {scratch}: File exists, expected a folder that can be written")


def test_the_notifier_of_the_environment_is_called(built, monkeypatch):
    monkeypatch.setenv("CORPUS_NOTIFIER", f"{__name__}:notifier")
    heard.clear()
    sense(built, failed_run(built))
    assert [sorted(summary.partitions) for summary in heard] == [["b.jsonl", "d.jsonl"]]


def test_a_failure_of_another_corpus_is_not_ours(built):
    summaries = []
    result = failed_run(built)
    other = built.config.model_copy(update={"name": "other"})
    sense(type(built)(built.instance, built.config), result, summaries.append)
    sensor = corpus_definitions(other, notify=summaries.append).resolve_sensor_def("other_failures")
    event = next(event for event in result.all_events if event.event_type is dg.DagsterEventType.RUN_FAILURE)
    context = dg.build_run_status_sensor_context(
        sensor_name="other_failures",
        dagster_event=event,
        dagster_instance=built.instance,
        dagster_run=result.dagster_run,
        partition_key=None,
    )
    sensor(context.for_run_failure())
    assert len(summaries) == 1


@pytest.mark.parametrize("name", ["no_such_module:f", f"{__name__}:no_such_function", "plain", ":f"])
def test_a_notifier_that_cannot_be_found_is_named(monkeypatch, name):
    monkeypatch.setenv("CORPUS_NOTIFIER", name)
    with pytest.raises(ConfigError, match=f"CORPUS_NOTIFIER: found '{name}'"):
        configured_notifier()


def test_without_a_notifier_there_is_none(monkeypatch):
    monkeypatch.delenv("CORPUS_NOTIFIER", raising=False)
    assert configured_notifier() is None
