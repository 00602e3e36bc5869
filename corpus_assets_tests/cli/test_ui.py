from __future__ import annotations

import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from corpus_assets.cli.ui import free_port

CORPUS = Path(sys.executable).with_name("corpus")


def session_of(process: subprocess.Popen[str]) -> list[int]:
    """Pids of the living processes that `process` started in a session of their own."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return living_in_session(int(children[0])) if children else []


def living_in_session(session: int) -> list[int]:
    living = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, *fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[2]) == session and state != "Z":
            living.append(int(stat.parent.name))
    return living


def test_the_ui_answers_on_its_port_and_leaves_no_process_behind(builder):
    builder.configure()
    builder.write_input("a.jsonl", "ab")
    (builder.folder / "workspace.yaml").write_text(
        "load_from:\n  - python_module: {module_name: corpus_assets.definitions, location_name: corpora}\n"
    )
    port = free_port(3900)
    with subprocess.Popen(
        [CORPUS, "ui", "--port", str(port)],
        cwd=builder.folder / "data/c",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"Dagster UI: http://127.0.0.1:{port}  (Ctrl-C stops it)\n"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/server_info", timeout=10) as answer:
            assert b"dagster_webserver_version" in answer.read()
        started = session_of(process)
        assert started
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert living_in_session(started[0]) == []
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/server_info", timeout=10)
    assert (builder.folder / "data/dagster_home/dagster.yaml").is_file()


def test_it_can_be_stopped_while_it_is_starting(builder):
    builder.configure()
    command = [CORPUS, "ui", "--port", str(free_port(3900))]
    with subprocess.Popen(command, cwd=builder.folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("starting Dagster with its records in ")
        while not (started := session_of(process)):
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert living_in_session(started[0]) == []


def test_a_port_in_use_is_refused_by_number_and_passed_over_otherwise(shell):
    shell.configure()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert shell.refused("ui", "--port", str(port)).startswith(f"port {port} is in use")
        assert free_port(port) > port


def test_a_corpora_yaml_with_a_typo_ends_before_dagster_starts(shell):
    shell.configure(tokenzier="byte")
    assert "tokenzier: unknown key" in shell.refused("ui")
    assert not (shell.folder / "data/dagster_home").exists()


def test_a_dagster_that_cannot_start_is_exit_code_2(shell):
    shell.configure()
    (shell.folder / "data/dagster_home").mkdir()
    (shell.folder / "data/dagster_home/dagster.yaml").write_text("storage: {nonsense: 1}\n")
    process = subprocess.run([CORPUS, "ui"], cwd=shell.folder, capture_output=True, text=True, check=False)
    assert process.returncode == 2
    assert "ended by itself with exit status" in process.stderr
    assert "Traceback" not in process.stderr.rpartition("Error: ")[2]
