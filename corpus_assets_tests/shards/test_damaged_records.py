"""inputs.json and shards/<key>.json damaged: a finding, no obstacle to readers, and healed by the next build."""

import os
import re
from pathlib import Path

import pytest

from corpus_assets import MmapTokenStore, load_index, validate_corpus, write_corpus
from corpus_assets.shards.damage import record_validation
from corpus_assets.shards.gc import find_garbage
from corpus_assets.shards.manifest import load_manifest
from corpus_assets.shards.release import Evidence, write_release

RECORD = "shards/a.jsonl.json"


def change_a_digest(content: bytes) -> bytes:
    """One digit, so that the file is read as before, but says something else."""
    name = b"fingerprint" if b'"signature"' in content else b"sha256"
    return re.sub(
        rb'("%s": ")(.)' % name,
        lambda match: match[1] + (b"0" if match[2] != b"0" else b"1"),
        content,
        count=1,
    )


DAMAGES = {
    "empty": lambda _: b"",
    "half": lambda content: content[: len(content) // 2],
    "digit": change_a_digest,
}


@pytest.fixture
def index(build):
    index = build({"a.jsonl": ["one", "two"], "b.jsonl": ["three"]})
    write_release(index, [Evidence(check="c", passed=True, detail="d")], created="2026-01-01T00:00:00+00:00")
    return index


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    ("name", "expected"), [("inputs.json", ("inputs", None)), (RECORD, ("record", "a.jsonl"))]
)
def test_a_damaged_record_is_a_finding_readers_do_not_mind_and_a_build_heals(
    index, tmp_path, name, expected, damage
):
    path = index.root / name
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    report = validate_corpus(index.root)
    assert [(finding.check, finding.shard) for finding in report.findings] == [expected]
    assert str(path) in report.findings[0].message
    record_validation(index.root, report)
    with MmapTokenStore(index.root, require_release=True) as store:
        assert len(store) == index.token_count
    assert write_corpus(tmp_path / "input", index.root, workers=1) == index
    assert validate_corpus(index.root).ok


def test_gc_takes_nothing_for_gone_where_the_inputs_are_not_known(index):
    (index.root / "inputs.json").write_bytes(b"")
    (index.root / "shards.json").unlink()
    for path in (index.root / "releases").iterdir():
        path.unlink()
    assert find_garbage(index.root) == []
    assert load_manifest(index.root) is None


def test_a_pipe_in_place_of_the_inputs_is_a_finding(index):
    path = Path(index.root / "inputs.json")
    path.unlink()
    os.mkfifo(path)
    (finding,) = validate_corpus(load_index(index.root).root).findings
    assert finding.message.startswith(f"{path}: not a regular file, expected")


def test_records_without_a_checksum_are_read_as_before(index, tmp_path):
    """Earlier versions wrote none."""
    for path in (index.root / RECORD, index.root / "inputs.json"):
        text = re.sub(r',\n  "checksum": "\w+"', "", path.read_text(encoding="utf-8"))
        assert "checksum" not in text
        path.write_text(text.replace('{\n  "files": [', "[").removesuffix("\n}") if "files" in text else text)
    assert validate_corpus(index.root).ok
    reused = []
    write_corpus(
        tmp_path / "input", index.root, workers=1, on_outcome=lambda outcome: reused.append(outcome.reused)
    )
    assert reused == [True, True]
