from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from corpus_assets import load_index
from corpus_assets.cli.build import COMPRESSIONS
from corpus_assets.cli.project import Project
from corpus_assets.config import Compression
from corpus_assets.shards.corpus import STALE_OPTIONS, stale_keys
from corpus_assets.shards.manifest import load_manifest
from corpus_assets.shards.release import load_release

CORPUS = Path(sys.executable).with_name("corpus")


def word_tokenizer(path: Path, **vocabulary: int) -> Path:
    """A tokenizer.json that knows a few words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=next(iter(vocabulary))))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(path))
    return path


def test_a_build_is_released_from_any_subfolder_and_a_second_one_runs_nothing(shell, monkeypatch):
    shell.configure()
    shell.write_input("a.jsonl", "ab", "c")
    shell.write_input("b c.jsonl", "d")
    monkeypatch.chdir(shell.folder / "data/c")
    first = shell("build")
    assert first.exit_code == 0, first.output
    index = load_index(shell.root)
    assert [shard.input_name for shard in index.shards] == ["a.jsonl", "b c.jsonl"]
    assert load_release(shell.root, index.fingerprint).token_count == 7
    assert "5 of 5" in first.stdout
    assert (shell.folder / "data/dagster_home/dagster.yaml").is_file()
    second = shell("build", "c")
    assert second.exit_code == 0
    assert "nothing was run" in second.stdout


def test_one_broken_input_stops_no_other_and_is_built_once_mended(builder):
    builder.configure()
    builder.write_input("a.jsonl", "ab")
    broken = builder.folder / "data/c/input/b.jsonl.gz"
    broken.write_bytes(gzip.compress(b'{"text": "cd"}\n')[:-6])
    message = builder.refused("build")
    assert message.startswith("c: 1 of 2 input shards failed:\n  b.jsonl.gz: ")
    assert message.endswith("once they are mended: corpus build c --failed")
    assert [path.name[:8] for path in (builder.root / "shards").glob("*.h5")] == ["a.jsonl-"]
    status = json.loads(builder("status", "--json").stdout)["corpora"][0]
    assert status["counts"] == {"built": 1, "missing": 0, "stale": 0, "failed": 1}
    assert "gzip" in status["shards"][1]["reason"]

    broken.write_bytes(gzip.compress(b'{"text": "cd"}\n'))
    assert "touched" in builder("status").stdout
    mended = builder("build", "--failed")
    assert mended.exit_code == 0, mended.output
    assert load_index(builder.root).token_count == 6


def test_one_shard_of_several_is_built_alone_and_the_rest_is_named(builder):
    builder.configure()
    builder.write_input("a.jsonl", "ab")
    builder.write_input("b.jsonl", "cd")
    result = builder("build", "c", "--shard", "b.jsonl")
    assert result.exit_code == 0, result.output
    assert "c: not released: 1 other input shard not up to date" in result.stderr
    assert [path.name[:8] for path in (builder.root / "shards").glob("*.h5")] == ["b.jsonl-"]
    assert "no input shard 'c.jsonl' among 2; near: " in builder.refused("build", "c", "--shard", "c.jsonl")


def test_options_of_one_build_are_announced_and_stale_afterwards(builder):
    builder.configure()
    builder.write_input("a.jsonl", "abcdef")
    result = builder("build", "--compression", "gzip", "--max-document-tokens", "3")
    assert result.exit_code == 0, result.output
    assert "c is built with compression: gzip, max_document_tokens: 3" in result.stderr
    assert "but corpora.yaml says compression: none, max_document_tokens: null" in result.stderr
    assert "these shards are stale" in result.stderr
    index = load_index(builder.root)
    assert (index.shards[0].compression, index.token_count) == ("gzip", 4)
    assert index.ledger.truncated_documents == 1
    config, manifest = Project.load(None).corpus("c"), load_manifest(builder.root)
    assert manifest is not None
    assert stale_keys(config, manifest) == {"a.jsonl": STALE_OPTIONS}

    builder.configure(compression="gzip", max_document_tokens=3)
    kept = builder("build", "--compression", "gzip")
    assert "stale" not in kept.stderr
    assert "nothing was run" in kept.stdout


def test_a_build_takes_every_compression_that_corpora_yaml_takes():
    assert get_args(Compression) == COMPRESSIONS


def test_several_corpora_are_built_and_one_that_cannot_be_stops_no_other(builder):
    config = builder.configure()
    builder.write_input("a.jsonl", "ab")
    entry = "  d:\n    input: data/nowhere\n    root: data/d/corpus\n"
    config.write_text(config.read_text() + entry)
    message = builder.refused("build")
    assert (
        message
        == f"d: {builder.folder}/data/nowhere: no such file or folder, expected a folder of input files"
    )
    assert load_release(builder.root).document_count == 1
    assert "--shard needs the NAME of a corpus: c, d" in builder.refused("build", "--shard", "a.jsonl")


BAD = {
    "a key with a typo": ({"tokenzier": "byte"}, "corpus c:\n  tokenzier: unknown key, expected one of: "),
    "a value of the wrong kind": ({"window_size": 0}, "corpus c:\n  window_size: found 0: "),
    "a missing folder": ({"input": "nowhere"}, "/nowhere: no such file or folder"),
    "an empty folder": ({"input": "empty"}, "/empty: holds no input"),
    "a tokenizer file that is not there": ({"tokenizer": "./none.json"}, "/none.json: cannot be read"),
    "a tokenizer file that is not one": (
        {"tokenizer": "data/corpora.yaml.json"},
        "corpora.yaml.json: is not JSON",
    ),
    "an encoding that does not exist": ({"tokenizer": "gpt9"}, "gpt9: unknown tokenizer"),
    "a boundary outside the vocabulary": (
        {"tokenizer": "words.json", "boundary_token": "<end>"},
        "boundary token '<end>' is not in the vocabulary",
    ),
    "a vocabulary without an end of text": ({"tokenizer": "words.json"}, "words.json: "),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_ends_in_one_message(shell, what):
    options, message = BAD[what]
    shell.configure(**options)
    shell.write_input("a.jsonl", "ab")
    (shell.folder / "empty").mkdir()
    (shell.folder / "data/corpora.yaml.json").write_text("corpora:\n")
    word_tokenizer(shell.folder / "words.json", a=0, b=1)
    assert message in shell.refused("build")


def test_bad_input_ends_in_one_message_in_a_shell_of_its_own(shell):
    config = shell.configure(input="nowhere")
    environment = {**os.environ, "CORPUS_CONFIG": str(config)}
    process = subprocess.run(
        [CORPUS, "build"], cwd="/", env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 2
    assert process.stdout == ""
    assert process.stderr == (
        "c: looking at the inputs …\n"
        f"Error: c: {shell.folder}/nowhere: no such file or folder, expected a folder of input files\n"
    )


def test_a_corpora_yaml_that_cannot_be_read_is_named(shell):
    assert "no such file, neither here nor in a folder above" in shell.refused("build")
    assert shell.refused("--config", "x.yaml", "build").endswith(
        "x.yaml: No such file or directory; expected a corpora.yaml"
    )
    shell.configure().write_text("corpora: [")
    assert "data/corpora.yaml: not YAML" in shell.refused("build")


def test_an_unknown_corpus_is_answered_with_those_there_are(shell):
    config = shell.configure()
    config.write_text(config.read_text().replace("  c:", "  stdlib:"))
    message = shell.refused("build", "stdlb")
    assert message == f"{config}: no corpus 'stdlb'; did you mean 'stdlib'? It has: stdlib"
