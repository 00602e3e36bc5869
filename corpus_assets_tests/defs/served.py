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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import dagster as dg
import yaml

from corpus_assets.config import CorpusConfig, load_config
from corpus_assets.defs.home import TEMPLATE, open_instance

T = TypeVar("T")
WORKSPACE = {
    "load_from": [{"python_module": {"module_name": "corpus_assets.definitions", "location_name": "corpora"}}]
}


@dataclass(frozen=True, kw_only=True)
class ServedProject:
    """A running project; `instance` reads the same records that the UI shows."""

    folder: Path
    url: str
    instance: dg.DagsterInstance
    log: Path

    @property
    def corpora(self) -> dict[str, CorpusConfig]:
        return load_config(self.folder / "data" / "corpora.yaml")

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

    def wait_for(self, what: Callable[[], T | None], *, seconds: float = 120) -> T:
        """Ask until the answer is true; fails with the end of the server's log."""
        deadline = time.monotonic() + seconds
        while not (answer := what()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds} s; the log ends:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.25)
        return answer


def write_project(folder: Path, corpora: dict[str, dict[str, Any]]) -> Path:
    """corpora.yaml, workspace.yaml and DAGSTER_HOME of a project; returns DAGSTER_HOME."""
    home = folder / "data" / "dagster_home"
    home.mkdir(parents=True)
    (folder / "workspace.yaml").write_text(yaml.safe_dump(WORKSPACE))
    (folder / "data" / "corpora.yaml").write_text(yaml.safe_dump({"corpora": corpora}))
    (home / "dagster.yaml").write_bytes(TEMPLATE.read_bytes())
    return home


@contextmanager
def served(folder: Path, corpora: dict[str, dict[str, Any]]) -> Iterator[ServedProject]:
    """Serve a new project in `folder` while the block runs."""
    home, port = write_project(folder, corpora), _free_port()
    log = folder / "dagster.log"
    environment = {**os.environ, "DAGSTER_HOME": str(home)}
    environment.pop("CORPUS_CONFIG", None)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "dagster",
                "dev",
                "-w",
                "workspace.yaml",
                "-h",
                "127.0.0.1",
                "-p",
                str(port),
            ],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        with open_instance(home) as instance:
            project = ServedProject(folder=folder, url=f"http://127.0.0.1:{port}", instance=instance, log=log)
            project.wait_for(lambda: process.poll() is not None or _answers(project), seconds=90)
            assert process.poll() is None, log.read_text()
            yield project
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the session that was started above, nothing else
            process.wait()


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
