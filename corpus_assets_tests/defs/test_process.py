"""A run whose process is gone does not stay "started" for ever."""

import socket

import dagster as dg
from dagster._core.events import DagsterEvent, DagsterEventType
from dagster._core.events.log import EventLogEntry

from corpus_assets.defs.process import fail_abandoned_runs, this_process


def test_a_run_whose_process_is_gone_is_marked_as_failed(instance):
    definitions = dg.Definitions(jobs=[_never_ending()])
    run = instance.create_run_for_job(
        definitions.resolve_job_def("endless"), tags={"corpus_assets/process": "nowhere:1:1"}
    )
    other = instance.create_run_for_job(
        definitions.resolve_job_def("endless"),
        tags={"corpus_assets/process": f"{socket.gethostname()}:999999999:1"},
    )
    living = instance.create_run_for_job(
        definitions.resolve_job_def("endless"), tags={"corpus_assets/process": this_process()}
    )
    for started in (run, other, living):
        instance.report_engine_event("started", started)
        instance.handle_new_event(_start_event(started))
    assert fail_abandoned_runs(instance) == [other.run_id]
    # Another machine's process cannot be looked up from here; this one's runs.
    assert instance.get_run_by_id(run.run_id).status is dg.DagsterRunStatus.STARTED
    assert instance.get_run_by_id(living.run_id).status is dg.DagsterRunStatus.STARTED
    assert instance.get_run_by_id(other.run_id).status is dg.DagsterRunStatus.FAILURE


def _never_ending():
    @dg.op
    def wait():
        pass

    @dg.job
    def endless():
        wait()

    return endless


def _start_event(run):
    event = DagsterEvent(event_type_value=DagsterEventType.RUN_START.value, job_name=run.job_name)
    return EventLogEntry(
        error_info=None,
        level=20,
        user_message="",
        run_id=run.run_id,
        timestamp=1.0,
        job_name=run.job_name,
        dagster_event=event,
    )
