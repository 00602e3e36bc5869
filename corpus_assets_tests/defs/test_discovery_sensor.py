"""The discovery sensor: new, changed and removed inputs, and what it leaves to others."""

import datetime

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus

from corpus_assets.defs import discovery_sensor
from corpus_assets.defs.factory import corpus_definitions
from corpus_assets.defs.partitions import RANGE_END_TAG, RANGE_START_TAG
from corpus_assets.shards.manifest import load_manifest
from corpus_assets_tests.defs.conftest import write_input


@pytest.fixture
def look(built, monkeypatch):
    """One tick of the sensor, after the copied files of this test were read once."""

    def tick(at=None):
        if at is not None:
            monkeypatch.setattr(discovery_sensor.time, "time", lambda: at)
        sensor = corpus_definitions(built.config).resolve_sensor_def("toy_discovery")
        with dg.build_sensor_context(instance=built.instance) as context:
            return sensor(context)

    tick()
    return tick


def requested(result):
    return {
        type(request).__name__[:3]: list(request.partition_keys)
        for request in result.dynamic_partitions_requests
    }


def test_nothing_new_is_a_skip(look):
    assert look().skip_message == "no change among 4 input shards"


def test_new_removed_and_changed_inputs_are_told_apart(built, look):
    write_input(built.input("e.jsonl"))
    built.input("a.jsonl").unlink()
    write_input(built.input("b.jsonl"), word="other")
    built.input("c.jsonl").touch()
    result = look()
    assert requested(result) == {"Add": ["e.jsonl"], "Del": ["a.jsonl"]}
    assert [event.partition for event in result.asset_events] == ["b.jsonl", "e.jsonl"]


def test_an_observation_carries_the_fingerprint_and_the_original_name(built, look):
    write_input(built.input("sub folder/ä,b.jsonl"))
    (event,) = look().asset_events
    file = load_manifest(built.config.root)[event.partition]
    assert event.metadata["input"].value == file.name == "sub folder/ä,b.jsonl"
    assert event.tags["dagster/data_version"] == file.fingerprint


def test_it_waits_while_the_corpus_is_built_by_any_route(built, look):
    write_input(built.input("e.jsonl"))
    definitions = corpus_definitions(built.config)
    build = definitions.resolve_job_def("toy_build")
    by_ui = built.instance.create_run_for_job(
        definitions.resolve_implicit_global_asset_job_def(),
        asset_selection=frozenset([built.corpus.key("token_shards")]),
        tags={"dagster/partition": "a.jsonl"},
        status=dg.DagsterRunStatus.STARTED,
    )
    assert look().skip_message == "1 runs of this corpus are in progress"
    built.instance.report_run_failed(by_ui)
    by_job = built.instance.create_run_for_job(
        build, tags={**build.tags, "dagster/partition": "a.jsonl"}, status=dg.DagsterRunStatus.STARTED
    )
    assert look().skip_message == "1 runs of this corpus are in progress"
    built.instance.report_run_failed(by_job)
    assert requested(look()) == {"Add": ["e.jsonl"]}


def test_a_run_whose_launch_was_refused_does_not_hold_it_up(built, look):
    """Dagster leaves it behind as not started, for ever."""
    write_input(built.input("e.jsonl"))
    build = corpus_definitions(built.config).resolve_job_def("toy_build")
    with pytest.raises(dg.DagsterInvalidInvocationError):
        built.instance.create_run_for_job(
            build, tags={**build.tags, RANGE_START_TAG: "a.jsonl", RANGE_END_TAG: "nope.jsonl"}
        )
    assert [run.status for run in built.instance.get_runs(limit=1)] == [dg.DagsterRunStatus.NOT_STARTED]
    assert requested(look()) == {"Add": ["e.jsonl"]}


def test_it_waits_between_the_runs_of_a_backfill(built, look):
    """Dagster gives up a backfill whose partition is deleted under it."""
    built.input("d.jsonl").unlink()
    backfill = built.open_backfill("a.jsonl", "d.jsonl")
    assert look().skip_message == "1 backfills of this corpus are in progress"
    built.instance.update_backfill(backfill.with_status(BulkActionStatus.COMPLETED_FAILED))
    assert requested(look()) == {"Del": ["d.jsonl"]}


def test_runs_of_another_corpus_do_not_hold_it_up(built, look):
    write_input(built.input("e.jsonl"))
    other = corpus_definitions(built.config.model_copy(update={"name": "other"})).resolve_job_def(
        "other_release"
    )
    built.instance.create_run_for_job(other, tags=other.tags, status=dg.DagsterRunStatus.STARTED)
    assert requested(look()) == {"Add": ["e.jsonl"]}


def test_much_to_read_is_registered_now_and_read_by_a_run(built, look, monkeypatch):
    monkeypatch.setattr(discovery_sensor, "READ_IN_TICK", 10)
    write_input(built.input("e.jsonl"))
    before = load_manifest(built.config.root)
    noon = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC).timestamp()
    result, again, later = (look(at=noon + minutes * 60) for minutes in (0, 59, 60))
    assert requested(result) == {"Add": ["e.jsonl"]}
    assert load_manifest(built.config.root).files == before.files
    assert result.run_requests[0].run_key == again.run_requests[0].run_key
    assert result.run_requests[0].run_key != later.run_requests[0].run_key
    job = corpus_definitions(built.config).resolve_job_def("toy_observe")
    run = job.execute_in_process(instance=built.instance)
    assert run.success
    assert "e.jsonl" in built.instance.get_dynamic_partitions("toy_input_shards")
    observed = [
        event.asset_observation_data.asset_observation.partition
        for event in run.all_events
        if event.event_type is dg.DagsterEventType.ASSET_OBSERVATION
    ]
    assert observed == ["e.jsonl"]
    assert look().skip_message == "no change among 5 input shards"


def test_many_changes_are_spread_over_ticks(built, look, monkeypatch):
    monkeypatch.setattr(discovery_sensor, "CHANGES_IN_TICK", 3)
    for letter in "abcd":
        write_input(built.input(f"{letter}.jsonl"), word="other")
    first = look().asset_events
    for event in first:
        built.instance.report_runless_asset_event(event)
    second = look().asset_events
    assert [event.partition for event in (*first, *second)] == ["a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl"]


def test_a_missing_input_folder_is_said_in_the_tick(built, look):
    built.input("").rename(built.input("..") / "moved")
    assert "input" in look().skip_message
    assert isinstance(look(), dg.SkipReason)
    assert len(built.instance.get_dynamic_partitions("toy_input_shards")) == 4
