"""What this project relies on in Dagster's daemon: its own loops, a turn at a time, over a real code server.

No code of the project runs in these tests.
"""

import datetime
import logging
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.test_utils import freeze_time
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import PythonFileTarget
from dagster._daemon.backfill import execute_backfill_iteration
from dagster._daemon.controller import create_daemon_grpc_server_registry
from dagster._daemon.sensor import execute_sensor_iteration
from dagster._scheduler.scheduler import launch_scheduled_runs

from corpus_assets_tests.defs.conftest import add_backfill

LOG = logging.getLogger(__name__)
MIDNIGHT = datetime.datetime(2024, 3, 1, tzinfo=datetime.UTC)
CODE = """
import dagster as dg

@dg.asset
def shards():
    pass

@dg.asset(partitions_def=dg.DynamicPartitionsDefinition(name="keys"))
def parts():
    pass

job = dg.define_asset_job("build", "shards")

@dg.sensor(job=job, minimum_interval_seconds=60, default_status=dg.DefaultSensorStatus.RUNNING)
def watch():
    yield dg.RunRequest(run_key="the same state")

@dg.schedule(job=job, cron_schedule="0 0 * * *", default_status=dg.DefaultScheduleStatus.RUNNING)
def nightly():
    return [dg.RunRequest(run_key="a"), dg.RunRequest(run_key="b")]

definitions = dg.Definitions(assets=[shards, parts], jobs=[job], sensors=[watch], schedules=[nightly])
"""


@pytest.fixture
def workspace(instance, tmp_path):
    """A code location that asks for the same runs at every tick; its runs are queued, and stay so."""
    file = tmp_path / "asks.py"
    file.write_text(CODE)
    target = PythonFileTarget(str(file), attribute=None, working_directory=str(Path.cwd()), location_name="l")
    with (
        create_daemon_grpc_server_registry(instance) as servers,
        WorkspaceProcessContext(instance, target, grpc_server_registry=servers) as context,
    ):
        yield context
    servers.wait_for_processes()


def sensor_turn(workspace, minutes):
    with freeze_time(MIDNIGHT + datetime.timedelta(minutes=minutes)):
        list(execute_sensor_iteration(workspace, LOG, None, None))


@pytest.mark.parametrize("ended", [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE])
def test_a_sensor_is_never_given_a_second_run_of_one_key_however_the_first_ended(workspace, instance, ended):
    """So the key of a run that is worth another try holds something that changes."""
    sensor_turn(workspace, 1)
    (run,) = instance.get_runs()
    instance.handle_new_event(_status_event(run, ended))
    sensor_turn(workspace, 3)
    assert [again.run_id for again in instance.get_runs()] == [run.run_id]
    assert instance.get_run_by_id(run.run_id).status is ended


def test_a_tick_that_broke_off_half_way_launches_only_what_it_had_not(workspace, instance):
    broken_off = {"nightly": {"RUN_LAUNCHED": RuntimeError("the code server went away")}}
    schedule_turn(workspace, hours=-1)  # the schedule begins
    schedule_turn(workspace, hours=0, debug_crash_flags=broken_off)
    (first,) = instance.get_runs()
    schedule_turn(workspace, hours=1)
    second, same = instance.get_runs()
    assert same.run_id == first.run_id
    assert [run.tags["dagster/run_key"] for run in (same, second)] == ["a", "b"]


def schedule_turn(workspace, *, hours, **options):
    now = MIDNIGHT + datetime.timedelta(hours=hours, seconds=1)
    with freeze_time(now):
        list(launch_scheduled_runs(workspace, LOG, now, {}, max_tick_retries=1, **options))


@pytest.mark.parametrize(("deleted", "runs", "status"), [("", 3, "REQUESTED"), ("b", 0, "FAILED")])
def test_a_backfill_is_given_up_when_one_of_its_partitions_is_deleted(
    workspace, instance, deleted, runs, status
):
    """So partitions are not deleted while one is under way."""
    instance.add_dynamic_partitions("keys", ["a", "b", "c"])
    graph = workspace.create_request_context().asset_graph
    add_backfill(instance, graph, dg.AssetKey("parts"), ["a", "b", "c"])
    if deleted:
        instance.delete_dynamic_partition("keys", deleted)
    for _ in range(2):
        list(execute_backfill_iteration(workspace, LOG))
    assert len(instance.get_runs()) == runs
    assert instance.get_backfill("toys").status.value == status


def _status_event(run, status):
    kind = {
        dg.DagsterRunStatus.SUCCESS: dg.DagsterEventType.RUN_SUCCESS,
        dg.DagsterRunStatus.FAILURE: dg.DagsterEventType.RUN_FAILURE,
    }[status]
    return dg.EventLogEntry(
        error_info=None,
        level=logging.INFO,
        user_message="",
        run_id=run.run_id,
        timestamp=MIDNIGHT.timestamp(),
        job_name=run.job_name,
        dagster_event=dg.DagsterEvent(kind.value, run.job_name),
    )
