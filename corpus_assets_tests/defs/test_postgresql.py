"""Dagster's records in a real PostgreSQL server, written by two building processes at the same time."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.home import TEMPLATE, open_instance
from corpus_assets.defs.launch import build_corpus
from corpus_assets.defs.partitions import partition_states
from corpus_assets_tests.defs.conftest import break_input, toy_config, write_input

KEYS = [f"s{number:02}.jsonl" for number in range(20)]
BUILD = """
import json, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
from corpus_assets.defs.home import open_instance
from corpus_assets.defs.launch import build_corpus
from corpus_assets_tests.defs.conftest import toy_config
folder, keys = Path(sys.argv[1]), sys.argv[2].split(",")
with open_instance(folder / "dagster_home") as instance:
    config = toy_config(folder, partitions_per_run=5)
    print(json.dumps(build_corpus(instance, config, keys=keys).failed))
"""


@pytest.fixture(scope="module")
def server():
    """Port of a PostgreSQL server that this test starts, as a user that is not root, and stops."""
    binaries = (
        next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"))), None)
        or Path(shutil.which("initdb")).parent
    )
    user = "postgres" if os.getuid() == 0 else None  # the server refuses to run as root
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        data, port = Path(folder) / "data", _free_port()
        data.mkdir(mode=0o700)
        if user is not None:
            shutil.chown(folder, user)
            shutil.chown(data, user)
        initdb = [binaries / "initdb", "-D", data, "-U", "dagster", "--auth=trust", "--no-sync", "-E", "UTF8"]
        subprocess.run(initdb, check=True, user=user, cwd=folder, capture_output=True)
        settings = [
            "-c",
            "fsync=off",
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            f"unix_socket_directories={folder}",
        ]
        with _process([binaries / "postgres", "-D", data, "-p", str(port), *settings], user=user, cwd=folder):
            ready = [binaries / "pg_isready", "-h", "127.0.0.1", "-p", str(port), "-t", "30"]
            while subprocess.run(ready, check=False, capture_output=True).returncode:
                pass
            yield port


@pytest.fixture
def home(tmp_path, server):
    """DAGSTER_HOME as the comment in the shipped dagster.yaml says."""
    settings = yaml.safe_load(_uncommented(TEMPLATE.read_text()))
    database = settings["storage"]["postgres"]["postgres_db"]
    database |= {
        "port": server,
        "username": "dagster",
        "password": "",
        "db_name": "postgres",
        "hostname": "127.0.0.1",
    }
    folder = tmp_path / "dagster_home"
    folder.mkdir()
    (folder / "dagster.yaml").write_text(yaml.safe_dump(settings))
    return folder


def test_two_processes_build_one_corpus_at_the_same_time(home, tmp_path):
    config = toy_config(tmp_path)
    for key in KEYS:
        write_input(Path(config.input) / key, documents=3)
    break_input(Path(config.input) / KEYS[7])
    failed = {}
    processes = [_build(tmp_path, keys) for keys in (KEYS[:10], KEYS[10:])]
    for process in processes:
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        failed |= json.loads(output)
    assert list(failed) == [KEYS[7]]
    with open_instance(home) as instance:
        states = partition_states(instance, Corpus(config))
        assert sorted(states.keys) == KEYS
        assert states.missing == states.failed == {KEYS[7]}
        assert _overlap(instance)
        write_input(Path(config.input) / KEYS[7], documents=3)
        report = build_corpus(instance, config, failed_only=True)
        assert report.ok
        assert list(report.planned) == [KEYS[7]]


def _build(folder, keys):
    return subprocess.Popen(
        [sys.executable, "-c", BUILD, str(folder), ",".join(keys)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _overlap(instance):
    """Whether runs of the two processes were under way at the same moment."""
    records = instance.get_run_records(limit=10)
    spans = [
        (record.dagster_run.tags["corpus_assets/process"], record.start_time, record.end_time)
        for record in records
    ]
    return any(
        one[0] != other[0] and one[1] < other[2] and other[1] < one[2] for one in spans for other in spans
    )


def _uncommented(template):
    """The shipped settings with their PostgreSQL lines switched on."""
    lines = template.splitlines()
    first = lines.index("# storage:")
    last = next(place for place in range(first, len(lines)) if not lines[place].startswith("#"))
    return "\n".join([*lines[:first], *(line[2:] for line in lines[first:last]), *lines[last:]])


@contextmanager
def _process(command, **options):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown
        process.wait(timeout=30)


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
