"""The disk fills up under a step: one line that says so and where, instead of what HDF5 makes of it."""

import json
import resource
import subprocess
import sys

import pytest

from corpus_assets_tests.conftest import write_jsonl

MATERIALIZE = """
import json, sys
from pathlib import Path
import dagster as dg
from corpus_assets.config import parse_corpus
from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.throughput import loader_throughput_asset

entry = {"input": "input", "root": "corpus", "window_size": 256}
config = parse_corpus("c", entry, base=Path(sys.argv[1]), where="test")
result = dg.materialize([loader_throughput_asset(Corpus(config))], raise_on_error=False)
(failure,) = [event.step_failure_data for event in result.all_events if event.is_step_failure]
print(json.dumps(failure.user_failure_data.description if failure.user_failure_data else str(failure.error)))
"""


def small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))


@pytest.fixture
def corpus(build, tmp_path):
    write_jsonl(tmp_path / "input" / "a.jsonl", ["some words"] * 500)
    return build({}).root


def run(program: str, folder) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        preexec_fn=small_files,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_measurement_of_throughput_says_in_one_line_that_the_disk_is_full(corpus, tmp_path):
    ended = run(MATERIALIZE, tmp_path)
    assert ended.returncode == 0, ended.stderr
    message = json.loads(ended.stdout.splitlines()[-1])
    assert message == f"File too large ({corpus})"
    assert list((corpus / ".building").iterdir()) == []
