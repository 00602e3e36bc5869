"""`kill -9` at every step of what looks after a corpus: repair, gc, recode and observation need no repair themselves."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from corpus_assets import load_index, validate_corpus, write_corpus
from corpus_assets.config import parse_corpus
from corpus_assets.shards.lease import clear_stale
from corpus_assets.shards.manifest import load_manifest, observe_inputs
from corpus_assets.shards.release import Evidence, load_release, write_release
from corpus_assets_tests.conftest import write_jsonl

# One process that kills itself at its n-th step towards the disk: what is synced, renamed, made or removed.
STEPS = """
import os, pathlib, signal, sys
from pathlib import Path
from corpus_assets.config import parse_corpus

left = int(sys.argv[2])
def counted(call):
    def step(*args, **kwargs):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **kwargs)
    return step
for name in ("fsync", "replace", "mkdir", "unlink", "rename", "rmdir"):
    setattr(os, name, counted(getattr(os, name)))
os.utime = counted(os.utime)

folder = Path(sys.argv[1])
config = parse_corpus(
    "c", {"input": "input", "root": "corpus", "chunk_size": 1024, "workers": 1}, base=folder, where="test"
)
"""

GC = """
from corpus_assets.shards.gc import find_garbage, remove_garbage
remove_garbage(config.root, find_garbage(config.root, keep_releases=1))
"""
OBSERVE = """
from corpus_assets.shards.manifest import observe_inputs
observe_inputs(config)
"""
RECODE = """
from corpus_assets.shards.recode import recode_corpus
recode_corpus(config.index_path, folder / "copy", compression="zstd")
"""
# The builds of a repair run in processes of their own, which a kill of this one ends.
REPAIR = """
from corpus_assets.shards import build
from corpus_assets.shards.manifest import observe_inputs
from corpus_assets.shards.index import load_index
from corpus_assets.tokenizers import ByteTokenizer
recorded = {shard.key: shard for shard in load_index(config.root).shards}
for file in observe_inputs(config).files:
    build.build_shard(file, config, ByteTokenizer(), force=True, expected=recorded[file.key])
"""


def config_of(folder: Path):
    return parse_corpus(
        "c", {"input": "input", "root": "corpus", "chunk_size": 1024, "workers": 1}, base=folder, where="test"
    )


def released(folder: Path, text: str):
    for name in ("a", "b"):
        write_jsonl(folder / "input" / f"{name}.jsonl", [f"{text} {name} {number}" for number in range(300)])
    index = write_corpus(folder / "input", folder / "corpus", workers=1, chunk_size=1024)
    evidence = [Evidence(check="c", passed=True, detail="d")]
    write_release(index, evidence, created=f"2026-01-0{len(text)}T00:00:00+00:00")
    return index


@pytest.fixture
def index(tmp_path):
    """The present index; an earlier release and its shards are there too."""
    released(tmp_path, "x")
    return released(tmp_path, "xy")


def killed_at_every_step(folder: Path, work: str, check, prepare=lambda: None) -> int:
    """Run `work` until a run ends by itself, killing the n-th at its n-th step; how many were killed."""
    for step in range(300):
        prepare()
        command = [sys.executable, "-c", STEPS + work, str(folder), str(step)]
        status = subprocess.run(command, check=False).returncode
        check(finished=status == 0)
        if status == 0:
            return step
        assert status == -signal.SIGKILL
    raise AssertionError("it never ended")


def assert_no_leftovers(root: Path) -> None:
    clear_stale(root, stale_after=0)
    assert list((root / ".building").iterdir()) == []


def test_gc_that_is_killed_removes_nothing_that_is_needed(index, tmp_path):
    def check(*, finished: bool) -> None:
        report = validate_corpus(index.root)
        assert report.ok, report.findings
        assert load_index(index.root) == index
        assert load_release(index.root).fingerprint == index.fingerprint

    assert killed_at_every_step(tmp_path, GC, check) >= 2
    assert len(list((index.root / "shards").glob("*.h5"))) == 2
    assert len(list((index.root / "releases").iterdir())) == 2


def test_observation_that_is_killed_leaves_the_old_inputs_or_the_new(index, tmp_path):
    old = load_manifest(index.root)
    write_jsonl(tmp_path / "input" / "c.jsonl", ["third"])
    seen = set()

    def check(*, finished: bool) -> None:
        found = load_manifest(index.root)
        seen.add(len(found.files))
        assert found == old or found.keys == ["a.jsonl", "b.jsonl", "c.jsonl"]

    assert killed_at_every_step(tmp_path, OBSERVE, check) >= 3
    assert seen == {2, 3}
    assert_no_leftovers(index.root)


def test_a_repair_that_is_killed_leaves_a_shard_damaged_or_whole(index, tmp_path):
    shard = index.shards[0]
    path = index.root / shard.path

    def prepare() -> None:
        """One damaged byte; a file of its own, since a shard is never written in place."""
        content = bytearray(path.read_bytes())
        content[shard.data_offset] ^= 1
        (tmp_path / "damaged").write_bytes(content)
        os.replace(tmp_path / "damaged", path)

    def check(*, finished: bool) -> None:
        report = validate_corpus(index.root)
        assert report.failed_shards in ([], ["a.jsonl"])
        assert report.ok or not finished
        assert load_index(index.root) == index
        if report.ok:
            repaired.add(finished)

    def damage_if_whole() -> None:
        if validate_corpus(index.root).ok:
            prepare()

    repaired: set[bool] = set()
    assert killed_at_every_step(tmp_path, REPAIR, check, damage_if_whole) > 8
    assert True in repaired
    assert_no_leftovers(index.root)


def test_a_recode_that_is_killed_goes_on_and_leaves_its_source_alone(index, tmp_path):
    copy = tmp_path / "copy"

    def check(*, finished: bool) -> None:
        assert validate_corpus(index.root).ok
        assert load_index(index.root) == index
        if finished or (copy / "shards.json").exists():
            assert validate_corpus(copy).ok
            assert load_index(copy).fingerprint == index.fingerprint

    assert killed_at_every_step(tmp_path, RECODE, check) > 5
    assert observe_inputs(config_of(tmp_path)).keys == ["a.jsonl", "b.jsonl"]
    assert_no_leftovers(copy)
