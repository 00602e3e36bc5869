"""Which process executes a run that no launcher watches, and whether it is still there."""

import os
import socket
from pathlib import Path

import dagster as dg

PROCESS_TAG = "corpus_assets/process"


def this_process() -> str:
    """Host, pid and start of this process; the start tells a reused pid apart."""
    return f"{socket.gethostname()}:{os.getpid()}:{_start_of(os.getpid())}"


def mark_process(context: dg.AssetExecutionContext) -> None:
    """Record on the run that this process executes it; not where each step has a process of its own."""
    if context.job_def.executor_def.name == dg.in_process_executor.name:
        context.instance.add_run_tags(context.run.run_id, {PROCESS_TAG: this_process()})


def fail_abandoned_runs(instance: dg.DagsterInstance) -> list[str]:
    """Mark runs as failed whose process on this machine is gone; returns their ids.

    Dagster's own monitoring asks the code server about a worker. It hears nothing where that was killed too,
    or where the `corpus` command executed the run; the run would stay "started" for ever, and its
    partitions "in progress".
    """
    failed = []
    for run in instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])):
        host, pid, start = (run.tags.get(PROCESS_TAG, "") + "::").split(":")[:3]
        if host == socket.gethostname() and pid.isdecimal() and _start_of(int(pid)) != start:
            instance.report_run_failed(run, f"process {pid} on {host} is gone")
            failed.append(run.run_id)
    return failed


def _start_of(pid: int) -> str:
    """Start time of a running process in clock ticks; empty if none runs, `?` where it cannot be told."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return "" if Path("/proc/self/stat").exists() else "?"
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else fields[18]
