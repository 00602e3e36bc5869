"""`corpus ui`: the Dagster UI, its daemon and its code server on this project, until Ctrl-C."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, Self

import click

from corpus_assets.cli.help import CommandWithExamples

if TYPE_CHECKING:
    from corpus_assets.cli.project import Project

HOST = "127.0.0.1"
FIRST_PORT = 3000
_PORTS_TRIED = 100
_START_SECONDS = 120.0
_STOP_SECONDS = 70.0  # Dagster gives its own processes 60 s
_LOOK_SECONDS = 0.1
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command(
    cls=CommandWithExamples,
    short_help="Open the Dagster UI on this project.",
    examples=(("corpus ui", "the first free port from 3000 on"), ("corpus ui --port 8080", "this port")),
    exit_codes=(("0", "stopped by Ctrl-C or SIGTERM"), ("2", "it cannot run, the message says why")),
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help=f"Of the web server. Default: {FIRST_PORT} or the next that is free.",
)
@click.option("--verbose", is_flag=True, help="Show what Dagster logs, not only its warnings.")
@click.pass_obj
def command(config_file: str | None, *, port: int | None, verbose: bool) -> None:
    """Start the Dagster UI with its daemon, so that schedules and sensors run; Ctrl-C stops all of it.

    It shows the corpora of corpora.yaml and every build of theirs, those of `corpus build` included. It
    listens on 127.0.0.1 only. Its records are in data/dagster_home of the project, or in $DAGSTER_HOME.
    """
    from corpus_assets.cli.console import note, say
    from corpus_assets.cli.project import Project
    from corpus_assets.defs.home import dagster_home

    project = Project.load(config_file)
    home = dagster_home(project.folder)
    port = free_port() if port is None else _only_if_free(port)
    environment = {**os.environ, "DAGSTER_HOME": str(home), "CORPUS_CONFIG": str(project.config_file)}
    note(f"starting Dagster with its records in {home} …")
    arguments = _dagster_dev(project, port, verbose=verbose)
    with _Ending() as ending, _running(arguments, project, environment) as dagster:
        _wait_until_up(dagster, port, ending)
        if not ending.asked_for:
            say(f"Dagster UI: http://{HOST}:{port}  (Ctrl-C stops it)")
        while not ending.asked_for and dagster.poll() is None:
            time.sleep(_LOOK_SECONDS)
        if not ending.asked_for:
            _refuse_end(dagster.returncode)
        note("stopping …")


def free_port(first: int = FIRST_PORT) -> int:
    """The first port from `first` on that nobody listens on.

    Raises:
        ConfigError: there is none among the next hundred.
    """
    from corpus_assets.errors import ConfigError

    for port in range(first, first + _PORTS_TRIED):
        if _is_free(port):
            return port
    raise ConfigError(f"no free port among {first} to {first + _PORTS_TRIED - 1}; name one with --port")


def _only_if_free(port: int) -> int:
    from corpus_assets.errors import ConfigError

    if not _is_free(port):
        raise ConfigError(
            f"port {port} is in use; name another with --port, or none for the next that is free"
        )
    return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _dagster_dev(project: Project, port: int, *, verbose: bool) -> list[str]:
    what = (
        ["-w", str(project.workspace)] if project.workspace.is_file() else ["-m", "corpus_assets.definitions"]
    )
    level = "info" if verbose else "warning"
    listen = ["--host", HOST, "--port", str(port)]
    # `dg dev`, which the warning recommends, comes with a package that this one does not need.
    quiet = "ignore:Function `dev_command` is superseded"
    return [sys.executable, "-W", quiet, "-m", "dagster", "dev", *what, *listen, "--log-level", level]


@contextmanager
def _running(
    arguments: Sequence[str], project: Project, environment: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """The process while the block runs; afterwards neither it nor a child of it is left."""
    # In a session of its own: Ctrl-C reaches this command alone, which then ends Dagster once, in order.
    process = subprocess.Popen(arguments, cwd=project.folder, env=environment, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _kill_session(process.pid)


def _kill_session(leader: int) -> None:
    """End what a process that died on its own left behind."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


class _Ending:
    """Remembers that this process was asked to end, so that Dagster is ended first, whatever was going on.

    A context manager. Its handlers raise nothing: an exception between starting a process and knowing of it
    would leave that process behind.
    """

    def __init__(self) -> None:
        self.asked_for = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._ask) for number in _ENDING}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: object) -> None:  # noqa: ARG002
        self.asked_for = True


def _wait_until_up(process: subprocess.Popen[bytes], port: int, ending: _Ending) -> None:
    """Return once the web server answers or the end is asked for.

    Raises:
        CorpusError: Dagster ended instead, or does not answer for two minutes.
    """
    from urllib.request import ProxyHandler, build_opener

    from corpus_assets.errors import CorpusError

    opener = build_opener(ProxyHandler({}))  # a proxy has no way to 127.0.0.1
    give_up = time.monotonic() + _START_SECONDS
    while not ending.asked_for:
        if process.poll() is not None:
            _refuse_end(process.returncode)
        try:
            with opener.open(f"http://{HOST}:{port}/server_info", timeout=1):
                return
        except OSError:
            if time.monotonic() > give_up:
                raise CorpusError(
                    f"Dagster does not answer on port {port} after {_START_SECONDS:.0f} s"
                ) from None
            time.sleep(_LOOK_SECONDS)


def _refuse_end(status: int) -> NoReturn:
    from corpus_assets.errors import CorpusError

    raise CorpusError(
        f"`dagster dev` ended by itself with exit status {status}; --verbose shows what it logs"
    )
