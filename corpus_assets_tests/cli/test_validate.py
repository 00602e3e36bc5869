from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from corpus_assets import load_index

CORPUS = Path(sys.executable).with_name("corpus")


def flip_byte(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def damage_first_token_of(root: Path, number: int) -> str:
    """Flip a bit of the first token of a shard; returns its key."""
    shard = load_index(root).shards[number]
    flip_byte(root / shard.path, shard.extents["tokens"])
    return shard.key


def test_a_sound_corpus_is_exit_code_0_by_name_path_and_index(built):
    for corpus in ("c", "./data/c/corpus", "data/c/corpus/shards.json", str(built.root)):
        result = built("validate", corpus)
        assert result.exit_code == 0, result.output
        assert "sound: 2 shards, 20 B of tokens hashed" in result.stdout
    assert "sound: 2 shards (quick: no token was read)" in built("validate", "c", "--quick").stdout


def test_a_flipped_bit_is_exit_code_1_and_names_exactly_that_shard(built):
    assert damage_first_token_of(built.root, 1) == "b.jsonl"
    process = subprocess.run([CORPUS, "validate", "c"], capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert "1 finding, 1 of 2 shards, 20 B of tokens hashed" in process.stdout
    assert "b.jsonl: digest: " in process.stdout
    assert "damaged between tokens 0 and 5" in process.stdout
    assert "a.jsonl" not in process.stdout
    assert built("validate", "c", "--quick").exit_code == 0  # reads no token


def test_json_is_all_there_is_on_stdout(built):
    damage_first_token_of(built.root, 0)
    result = built("validate", "c", "--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["ok"], report["failed_shards"]) == (1, False, ["a.jsonl"])
    assert (report["shard_count"], report["token_bytes"]) == (2, 20)
    assert report["findings"][0]["token_range"] == [0, 5]
    assert report["fingerprint"] == load_index(built.root).fingerprint


def test_a_cut_index_is_a_finding(built):
    index = built.root / "shards.json"
    index.write_bytes(index.read_bytes()[:-10])
    result = built("validate", "c")
    assert result.exit_code == 1
    assert "index: index: " in result.stdout


@pytest.mark.parametrize(
    ("corpus", "message"),
    [
        ("d", "data/corpora.yaml: no corpus 'd'; it has: c"),
        ("./nowhere", "nowhere: no such file, expected the index of a built corpus"),
        ("data", "data/shards.json: no such file, expected the index of a built corpus"),
    ],
)
def test_what_cannot_be_validated_is_exit_code_2(built, corpus, message):
    assert message in built.refused("validate", corpus)


def test_a_single_shard_is_no_corpus(built):
    shard = next((built.root / "shards").glob("a*.h5"))
    assert "use `corpus inspect`" in built.refused("validate", str(shard))


def test_a_folder_can_be_validated_outside_any_project(built, monkeypatch):
    moved = built.folder / "moved"
    os.rename(built.root, moved)
    (built.folder / "data/corpora.yaml").unlink()
    assert built("validate", "moved").exit_code == 0
