"""A project served by a real `dagster dev`: webserver, daemon and code server, on a free loopback port."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import dagster as dg
import yaml
from dagster._core.execution.backfill import BulkActionStatus
from dagster._core.execution.plan.objects import StepFailureData

from corpus_assets.cli.init import WORKSPACE_YAML
from corpus_assets.config import CorpusConfig, load_config
from corpus_assets.defs.failures import FailureSummary
from corpus_assets.defs.home import TEMPLATE, open_instance

T = TypeVar("T")
NOTES = "failures.jsonl"
LOCATION = yaml.safe_load(WORKSPACE_YAML)["load_from"][0]["python_module"]["location_name"]

LAUNCH = """
mutation($params: ExecutionParams!) {
  launchRun(executionParams: $params) {
    __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message }
  }
}
"""
BACKFILL = """
mutation($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message }
  }
}
"""
RE_EXECUTE = """
mutation($params: ReexecutionParams) {
  reexecutePartitionBackfill(reexecutionParams: $params) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message }
  }
}
"""
ENDED = {BulkActionStatus.COMPLETED_SUCCESS, BulkActionStatus.COMPLETED_FAILED, BulkActionStatus.FAILED}


class RunTimes(NamedTuple):
    """Seconds since the epoch."""

    start: float
    end: float


@dataclass(frozen=True, kw_only=True)
class ServedProject:
    """A running project; `instance` reads the same records that the UI shows."""

    folder: Path
    home: Path
    url: str
    instance: dg.DagsterInstance
    log: Path

    @property
    def corpora(self) -> dict[str, CorpusConfig]:
        return load_config(self.folder / "data" / "corpora.yaml")

    @property
    def failures(self) -> list[dict[str, Any]]:
        """What the notifier was told so far."""
        notes = self.home / NOTES
        return [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []

    def graphql(self, query: str, **variables: Any) -> dict[str, Any]:
        """What the UI itself asks; errors of the server are errors here."""
        request = urllib.request.Request(
            f"{self.url}/graphql",
            data=json.dumps({"query": query, "variables": variables}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            answer = json.load(response)
        assert "errors" not in answer, answer["errors"]
        return answer["data"]

    def launch(
        self,
        job: str,
        *,
        tags: dict[str, str] | None = None,
        assets: Sequence[str] = (),
        location: str = LOCATION,
    ) -> str:
        """Launch a run through the API that the UI's buttons use; returns its id."""
        selector: dict[str, Any] = {
            "repositoryLocationName": location,
            "repositoryName": "__repository__",
            "pipelineName": job,
        }
        if assets:
            selector["assetSelection"] = [{"path": asset.split("/")} for asset in assets]
        pairs = [{"key": key, "value": value} for key, value in (tags or {}).items()]
        answer = self.graphql(
            LAUNCH,
            params={"selector": selector, "mode": "default", "executionMetadata": {"tags": pairs}},
        )["launchRun"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return str(answer["run"]["runId"])

    def backfill(self, assets: Sequence[str]) -> str:
        """Launch a backfill of all partitions, as the UI's dialog does; returns its id."""
        keys = [{"path": asset.split("/")} for asset in assets]
        answer = self.graphql(BACKFILL, params={"assetSelection": keys, "allPartitions": True})
        return str(answer["launchPartitionBackfill"]["backfillId"])

    def re_execute_from_failure(self, backfill_id: str) -> str:
        """What the entry in the menu of a backfill does; returns the id of the new one."""
        answer = self.graphql(RE_EXECUTE, params={"parentRunId": backfill_id, "strategy": "FROM_FAILURE"})
        return str(answer["reexecutePartitionBackfill"]["backfillId"])

    def wait_for_backfill(self, backfill_id: str) -> BulkActionStatus:
        """How a backfill ended."""
        return self.wait_for(
            lambda: (
                (found := self.instance.get_backfill(backfill_id)) and found.status in ENDED and found.status
            ),
            seconds=300,
        )

    def set_pool_limit(self, pool: str, limit: int) -> None:
        """What Deployment > Concurrency does."""
        self.graphql(
            "mutation($pool: String!, $limit: Int!) { setConcurrencyLimit(concurrencyKey: $pool, limit: $limit) }",
            pool=pool,
            limit=limit,
        )

    def wait_for_end(self, run_id: str) -> dg.DagsterRunStatus:
        """How a run ended."""
        return self.wait_for(
            lambda: (run := self.instance.get_run_by_id(run_id)) and run.is_finished and run.status
        )

    def run_times(self, run_id: str) -> "RunTimes":
        """When an ended run was at work."""
        record = self.instance.get_run_record_by_id(run_id)
        return RunTimes(start=record.start_time, end=record.end_time)

    def step_failure(self, run_id: str) -> StepFailureData:
        """Why the only failed step of a run failed."""
        events = [entry.dagster_event for entry in self.instance.all_logs(run_id)]
        (failure,) = [event for event in events if event is not None and event.is_step_failure]
        return failure.step_failure_data

    def wait_for(self, what: Callable[[], T | None], *, seconds: float = 120) -> T:
        """Ask until the answer is true; fails with the end of the server's log."""
        deadline = time.monotonic() + seconds
        while not (answer := what()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds} s; the log ends:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.25)
        return answer


def write_project(folder: Path, corpora: dict[str, dict[str, Any]]) -> Path:
    """corpora.yaml, and what `corpus init` writes beside it; returns DAGSTER_HOME."""
    home = folder / "data" / "dagster_home"
    home.mkdir(parents=True)
    (folder / "workspace.yaml").write_text(WORKSPACE_YAML)
    (folder / "data" / "corpora.yaml").write_text(yaml.safe_dump({"corpora": corpora}))
    (home / "dagster.yaml").write_bytes(TEMPLATE.read_bytes())
    return home


@contextmanager
def serve(folder: Path, home: Path) -> Iterator[ServedProject]:
    """Serve the project that is in `folder`."""
    url = f"http://127.0.0.1:{_free_port()}"
    log = folder / "dagster.log"
    with open_instance(home) as instance, _dagster_dev(folder, home, url, log) as process:
        project = ServedProject(folder=folder, home=home, url=url, instance=instance, log=log)
        project.wait_for(lambda: process.poll() is not None or _answers(project), seconds=90)
        assert process.poll() is None, log.read_text()
        yield project


@contextmanager
def _dagster_dev(folder: Path, home: Path, url: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    host, port = url.removeprefix("http://").split(":")
    environment = {**os.environ, "DAGSTER_HOME": str(home), "CORPUS_NOTIFIER": f"{__name__}:write_down"}
    environment.pop("CORPUS_CONFIG", None)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "dagster", "dev", "-w", "workspace.yaml", "-h", host, "-p", port],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the session that was started above, nothing else
            process.wait()


def write_down(summary: FailureSummary) -> None:
    """The notifier of the served project: a line of JSON for each failed run."""
    with (Path(os.environ["DAGSTER_HOME"]) / NOTES).open("a") as notes:
        notes.write(json.dumps({"corpus": summary.corpus, "partitions": summary.partitions}) + "\n")


def _answers(project: ServedProject) -> bool:
    """Whether the code location is loaded and the daemon is alive."""
    try:
        found = project.graphql(
            "{ repositoriesOrError { ... on RepositoryConnection { nodes { name } } }"
            "  instance { daemonHealth { allDaemonStatuses { daemonType healthy required } } } }"
        )
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False
    daemons = found["instance"]["daemonHealth"]["allDaemonStatuses"]
    return bool(found["repositoriesOrError"].get("nodes")) and all(
        daemon["healthy"] for daemon in daemons if daemon["required"]
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
