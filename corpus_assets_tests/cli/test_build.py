from __future__ import annotations

import gzip
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import get_args

from corpus_assets import load_index
from corpus_assets.cli.build import COMPRESSIONS
from corpus_assets.cli.project import Project
from corpus_assets.config import Compression
from corpus_assets.shards.corpus import STALE_OPTIONS, stale_keys
from corpus_assets.shards.manifest import load_manifest
from corpus_assets.shards.release import load_release

CORPUS = Path(sys.executable).with_name("corpus")


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


def test_an_interrupted_build_says_so_and_the_next_one_goes_on(builder):
    builder.configure()
    builder.write_input("a.jsonl", "ab")
    with subprocess.Popen(
        [CORPUS, "build"],
        cwd=builder.folder,
        stderr=subprocess.PIPE,
        text=True,
        # A suite that runs in the background of a shell hands down that interrupts are ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    ) as process:
        assert process.stderr is not None
        while "building 1 shard" not in (line := process.stderr.readline()):
            assert line
        process.send_signal(signal.SIGINT)
        shown = process.stderr.read()
    assert process.returncode == 130
    assert shown.endswith(
        "c: the shards that are built are kept; the next build goes on from there\ninterrupted\n"
    )
    assert builder("build").exit_code == 0


def test_a_corpus_of_which_nothing_is_trained_on_is_refused_with_the_roles_that_there_are(builder):
    builder.configure(format="chat", text_field="messages", train_roles=["asistant"])
    path = builder.folder / "data/c/input/a.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text('{"messages": [{"role": "assistant", "content": "4"}]}\n')
    result = builder("build")
    assert result.exit_code == 2
    assert "\n  digests_match: failed: 1 of 1 shards differ" in result.stderr
    assert result.stderr.endswith("trained on; train_roles are asistant; the records have assistant\n")
    for corpus in ("c", str(builder.root)):
        validated = builder("validate", corpus)
        assert validated.exit_code == 1
        assert validated.stdout.endswith("train_roles are asistant; the records have assistant\n")


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


def test_the_summary_tells_what_was_reused_from_what_was_built(builder):
    builder.configure()
    builder.write_input("a.jsonl", "ab")
    builder.write_input("b.jsonl", "cd")
    builder.build_shards()  # not through the graph: Dagster knows nothing of them
    builder.write_input("c.jsonl", "ef")
    assert re.match(r"c: 1 shard built at [\d.,]+ MB/s, 2 reused, 0 failed, \d+ s\n", builder("build").stdout)
    (builder.folder / "data/c/input/c.jsonl").touch()
    again = builder("build", "c", "--shard", "c.jsonl")
    assert re.match(r"c: 0 shards built, 1 reused, 0 failed, \d+ s\n", again.stdout)
