"""`kill -9` at any moment leaves the old state or the new one, and the next build needs no repair."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from corpus_assets import load_index, validate_corpus, write_corpus
from corpus_assets.shards.lease import clear_stale
from corpus_assets_tests.conftest import write_jsonl

BUILD = """
import sys
from corpus_assets import write_corpus
write_corpus(sys.argv[1], sys.argv[2], workers=2, chunk_size=1024)
"""

# One process builds, indexes and releases, and kills itself at its n-th step towards the disk.
STEPS = """
import os, signal, sys
from pathlib import Path
from corpus_assets.config import parse_corpus
from corpus_assets.shards.build import build_shard
from corpus_assets.shards.index import write_index
from corpus_assets.shards.manifest import observe_inputs
from corpus_assets.shards.release import Evidence, write_release
from corpus_assets.tokenizers import ByteTokenizer

left = int(sys.argv[3])
def counted(call):
    def step(*args, **kwargs):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **kwargs)
    return step
os.fsync, os.replace, Path.rename = counted(os.fsync), counted(os.replace), counted(Path.rename)

config = parse_corpus(
    "c", {"input": sys.argv[1], "root": sys.argv[2], "chunk_size": 1024}, base=Path.cwd(), where="test"
)
manifest = observe_inputs(config)
for file in manifest.files:
    build_shard(file, config, ByteTokenizer())
index = write_index(config.root, manifest.keys)
write_release(index, [Evidence(check="c", passed=True, detail="d")], created="2026-01-01T00:00:00+00:00")
"""


def write_version(folder: Path, version: str) -> None:
    for name in ("a", "b", "c"):
        write_jsonl(folder / f"{name}.jsonl", [f"{version} {name} {number}" for number in range(400)])


@pytest.fixture
def versions(tmp_path) -> dict[str, str]:
    """Fingerprints of the corpora of versions `x` and `y`; the corpus itself is at `x`."""
    fingerprints = {}
    for version in ("y", "x"):
        write_version(tmp_path / "input", version)
        index = write_corpus(tmp_path / "input", tmp_path / "corpus", workers=1, chunk_size=1024)
        fingerprints[index.fingerprint] = version
    return fingerprints


def assert_whole(corpus: Path, versions: dict[str, str]) -> None:
    report = validate_corpus(corpus)
    assert report.ok, report.findings
    assert report.fingerprint in versions


@pytest.mark.parametrize("kills", [8, pytest.param(200, marks=pytest.mark.slow)])
def test_a_build_killed_at_random_moments_leaves_a_whole_corpus(tmp_path, versions, kills):
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    moments = random.Random(seed)
    for round_number in range(kills):
        write_version(tmp_path / "input", "xy"[round_number % 2])
        process = subprocess.Popen(
            [sys.executable, "-c", BUILD, str(tmp_path / "input"), str(tmp_path / "corpus")],
            start_new_session=True,
            stderr=subprocess.DEVNULL,
        )
        try:
            process.wait(timeout=moments.uniform(0.2, 1.5))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert_whole(tmp_path / "corpus", versions)
    assert_recovers(tmp_path, versions)


def test_a_build_killed_at_every_publish_step_leaves_a_whole_corpus(tmp_path, versions):
    write_version(tmp_path / "input", "y")
    for step in range(1000):
        command = [sys.executable, "-c", STEPS, str(tmp_path / "input"), str(tmp_path / "corpus"), str(step)]
        status = subprocess.run(command, check=False).returncode
        assert_whole(tmp_path / "corpus", versions)
        if status == 0:
            break
        assert status == -signal.SIGKILL
    assert step > 10
    assert versions[load_index(tmp_path / "corpus").fingerprint] == "y"
    assert_recovers(tmp_path, versions)


def assert_recovers(tmp_path: Path, versions: dict[str, str]) -> None:
    index = write_corpus(tmp_path / "input", tmp_path / "corpus", workers=1, chunk_size=1024)
    assert index.fingerprint in versions
    clear_stale(tmp_path / "corpus", stale_after=0)
    assert list((tmp_path / "corpus" / ".building").iterdir()) == []
