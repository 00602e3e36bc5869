"""What an input is called and what stands in it never steers a terminal, an editor or the UI."""

from __future__ import annotations

import json
import os
import re

import orjson
import pytest

from corpus_assets import load_index, validate_corpus, write_corpus
from corpus_assets.config import parse_corpus
from corpus_assets.errors import InputError
from corpus_assets.shards.index import write_index
from corpus_assets.shards.manifest import observe_inputs
from corpus_assets.shards.pipeline import ShardedTokenizationPipeline
from corpus_assets.shards.quarantine import Quarantine
from corpus_assets.sources.document import Reject
from corpus_assets_tests.conftest import write_jsonl

CLEAR = "\x1b[2J\x1b]0;owned\x07"
HOSTILE_NAMES = [
    f"{CLEAR}.jsonl",
    "two\nlines: all shards are sound.jsonl",
    "<img src=x onerror=alert(1)>.jsonl",
    "[link](javascript:alert(1)) **bold** `code`.jsonl",
    "\u202egnp.jsonl",
    "a...jsonl",
    "-rf.jsonl",
    "$(reboot);`reboot`.jsonl",
    "a" * 200 + ".jsonl",
    "é" * 120 + ".jsonl",
]
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def test_inputs_with_hostile_names_are_built_and_named_by_plain_keys(tmp_path):
    for name in HOSTILE_NAMES:
        write_jsonl(tmp_path / "input" / name, [name])
    index = write_corpus(tmp_path / "input", tmp_path / "corpus", workers=2)
    assert {shard.input_name for shard in index.shards} == set(HOSTILE_NAMES)
    assert all(re.fullmatch(r"[A-Za-z0-9._-]{1,180}", shard.key) for shard in index.shards)
    assert load_index(tmp_path / "corpus") == index
    assert validate_corpus(tmp_path / "corpus").ok
    inside = (tmp_path / "corpus").resolve()
    assert all((inside / shard.path).resolve().is_relative_to(inside) for shard in index.shards)


def test_errors_of_hostile_inputs_are_one_line_each(tmp_path):
    for name in HOSTILE_NAMES:
        write_jsonl(tmp_path / "input" / name, []).write_text('{"x": 1}\n')
    with pytest.raises(InputError) as caught:
        write_corpus(tmp_path / "input", tmp_path / "corpus", workers=2)
    head, *lines = str(caught.value).split("\n")
    assert head == f"{len(HOSTILE_NAMES)} of {len(HOSTILE_NAMES)} input shards failed:"
    assert len(lines) == len(HOSTILE_NAMES)
    assert all(line.isprintable() for line in lines)


def test_a_finding_that_names_an_input_is_one_line(tmp_path):
    write_jsonl(tmp_path / "input" / "a.jsonl", ["x"])
    write_corpus(tmp_path / "input", tmp_path / "corpus", workers=1)
    write_jsonl(tmp_path / "input" / f"{CLEAR}\n.jsonl", ["x"])
    observe_inputs(config_of(tmp_path))
    (finding,) = validate_corpus(tmp_path / "corpus").findings
    assert "is not in shards.json" in finding.message
    assert finding.message.isprintable()


def config_of(tmp_path):
    return parse_corpus("c", {"input": "input", "root": "corpus"}, base=tmp_path, where="test")


def test_a_name_that_is_not_utf8_fails_its_partition_alone(tmp_path):
    write_jsonl(tmp_path / "input" / "a.jsonl", ["x"])
    (tmp_path / "input" / "\\xff.jsonl").write_text('{"text": "the escape itself"}\n')
    with open(os.fsencode(tmp_path / "input") + b"/\xff.jsonl", "w") as file:
        file.write('{"text": "x"}\n')
    manifest = observe_inputs(config_of(tmp_path))
    assert len(set(manifest.keys)) == 3
    outcomes = list(ShardedTokenizationPipeline(config_of(tmp_path), workers=1).run(manifest.files))
    errors = [outcome.error for outcome in outcomes if outcome.error]
    assert errors == ["\\xff.jsonl: its name is not UTF-8, expected another name"]
    write_index(tmp_path / "corpus", [outcome.key for outcome in outcomes if outcome.info])


@pytest.mark.parametrize(
    "text",
    [
        CLEAR,
        "\x7f\x9b2J",
        "\u202eevil\u2066\u200b\ufeff",
        "\u2028line\u2029",
        "<script>alert(1)</script>",
        "\ud800",
        "back\\slash\\u202e",
    ],
)
def test_quarantine_holds_every_byte_and_nothing_that_is_obeyed(tmp_path, text):
    raw = text.encode("utf-8", "surrogatepass")
    shown = text.encode("utf-8", "backslashreplace").decode()
    with Quarantine(tmp_path / "q.jsonl", scratch=tmp_path, name="a.jsonl") as quarantine:
        quarantine.add(Reject(7, "bad_json", shown, raw))
    content = (tmp_path / "q.jsonl").read_bytes()
    assert content.count(b"\n") == 1
    assert not OBEYED.search(content.decode())
    line = orjson.loads(content)
    assert line["detail"] == shown
    if "\ud800" not in text:
        assert line["raw"].encode() == raw
    assert json.loads(content)["row"] == 7
