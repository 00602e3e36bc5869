"""Disk full, no permission, a vanished folder, several builders: the old generation stays, nothing is left."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from corpus_assets import load_index, validate_corpus, write_corpus
from corpus_assets.errors import CorpusError
from corpus_assets_tests.conftest import write_jsonl

BUILD = """
import sys
from corpus_assets import write_corpus
from corpus_assets.errors import CorpusError
try:
    built = []
    index = write_corpus(
        sys.argv[1], sys.argv[2], workers=1, on_outcome=lambda o: built.append(o.key) if not o.reused else None
    )
    print(index.fingerprint, *built)
except CorpusError as error:
    sys.exit(str(error))
"""


def command(tmp_path: Path) -> list[str]:
    return [sys.executable, "-c", BUILD, str(tmp_path / "input"), str(tmp_path / "corpus")]


def leftovers(corpus: Path) -> list[Path]:
    return [path for path in (corpus / ".building").rglob("*") if path.is_file()]


def test_a_disk_that_fills_up_fails_the_partition_and_keeps_the_old_generation(build, tmp_path):
    old = build({"a.jsonl": ["small"], "b.jsonl": ["small"]})
    write_jsonl(tmp_path / "input" / "b.jsonl", ["x" * 1000] * 3000)

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    ended = subprocess.run(
        command(tmp_path), preexec_fn=small_files, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "1 of 2 input shards failed:\n  b.jsonl: " in ended.stderr
    assert f"\n  b.jsonl: File too large ({old.root})\n" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert load_index(old.root) == old
    assert validate_corpus(old.root).failed_shards == []
    assert leftovers(old.root) == []


def run_bound_by_permissions(tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """The build by a user who cannot read and write everything, also where root runs the tests."""
    capabilities = "-dac_override,-dac_read_search"
    bound = ["setpriv", f"--bounding-set={capabilities}", f"--inh-caps={capabilities}"]
    prefix = bound if os.getuid() == 0 else []
    return subprocess.run([*prefix, *command(tmp_path)], capture_output=True, text=True, check=False)


def test_an_input_that_may_not_be_read_fails_its_partition_alone(tmp_path):
    for name in ("a.jsonl", "b.jsonl"):
        write_jsonl(tmp_path / "input" / name, ["x"])
    (tmp_path / "input" / "a.jsonl").chmod(0o000)
    ended = run_bound_by_permissions(tmp_path)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert "1 of 2 input shards failed:" in ended.stderr
    assert "a.jsonl: cannot be read: Permission denied" in ended.stderr
    assert [path.name for path in (tmp_path / "corpus" / "shards").glob("*.json")] == ["b.jsonl.json"]


def test_a_root_that_may_not_be_written_is_refused_before_anything_is_built(tmp_path):
    write_jsonl(tmp_path / "input" / "a.jsonl", ["x"])
    (tmp_path / "corpus").mkdir(mode=0o555)
    ended = run_bound_by_permissions(tmp_path)
    assert ended.returncode == 1
    expected = f"{tmp_path}/corpus/.building: Permission denied, expected a folder that can be written"
    assert ended.stderr.strip() == expected


def test_an_old_corpus_can_be_validated_where_nothing_may_be_written(build):
    index = build({"a.jsonl": ["x"]})
    for path in [index.root, *index.root.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    assert validate_corpus(index.root).ok


def test_a_root_that_is_a_file_is_refused(tmp_path):
    write_jsonl(tmp_path / "input" / "a.jsonl", ["x"])
    (tmp_path / "corpus").write_text("not a folder")
    with pytest.raises(CorpusError, match="Not a directory, expected a folder that can be written"):
        write_corpus(tmp_path / "input", tmp_path / "corpus")


def test_several_builders_share_the_work_of_one_corpus(tmp_path):
    names = [f"{number}.jsonl" for number in range(8)]
    for name in names:
        write_jsonl(tmp_path / "input" / name, [f"{name} {row}" * 20 for row in range(3000)])
    builders = [
        subprocess.Popen(command(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    results = [builder.communicate() for builder in builders]
    assert [builder.returncode for builder in builders] == [0, 0, 0], results
    printed = [out.split() for out, _ in results]  # a builder that came late has built nothing
    assert len({fingerprint for fingerprint, *_ in printed}) == 1
    assert sorted(name for _, *built in printed for name in built) == names
    assert validate_corpus(tmp_path / "corpus").ok
    assert leftovers(tmp_path / "corpus") == []
