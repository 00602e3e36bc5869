import json
import os
import signal
from pathlib import Path

import h5py
import orjson
import pytest

from corpus_assets import load_index, write_corpus
from corpus_assets.config import parse_corpus
from corpus_assets.errors import ConfigError, IndexMismatchError, InputError, MissingShardsError
from corpus_assets.shards.corpus import stale_keys
from corpus_assets.shards.index import write_index
from corpus_assets.shards.manifest import observe_inputs
from corpus_assets.shards.pipeline import ShardedTokenizationPipeline
from corpus_assets_tests.conftest import write_jsonl


def config_for(tmp_path: Path, **options):
    return parse_corpus("c", {"input": "input", "root": "corpus", **options}, base=tmp_path, where="test")


def test_a_corpus_is_its_documents_in_key_order(build):
    index = build({"b.jsonl": ["c"], "a.jsonl": ["ab", ""], "c/d.jsonl": ["d"]})
    assert [shard.key for shard in index.shards] == ["a.jsonl", "b.jsonl", "c__2Fd.jsonl"]
    assert [shard.global_start for shard in index.shards] == [0, 4, 6]
    assert (index.token_count, index.document_count) == (8, 4)
    assert load_index(index.root) == index
    with h5py.File(index.root / index.shards[0].path, "r") as file:
        assert file["tokens"][:].tolist() == [98, 99, 0, 0]
    assert list(index.to_frame()["token_count"]) == [4, 2, 2]


def test_a_rebuild_of_the_same_inputs_changes_no_file(build, tmp_path):
    first = build({"a.jsonl": ["x"], "b.jsonl": ["y"]})
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "corpus").rglob("*.h5")}
    outcomes = []
    second = write_corpus(tmp_path / "input", tmp_path / "corpus", on_outcome=outcomes.append)
    assert second == first
    assert all(outcome.reused for outcome in outcomes)
    assert stamps == {path: path.stat().st_mtime_ns for path in (tmp_path / "corpus").rglob("*.h5")}


def test_one_corrupt_input_among_ten_stops_no_other_and_is_named(tmp_path):
    for number in range(10):
        write_jsonl(tmp_path / "input" / f"{number}.jsonl", [f"text {number}"])
    (tmp_path / "input" / "4.jsonl").write_text("not json\n" * 9)
    with pytest.raises(InputError, match=r"1 of 10 input shards failed:\n  4\.jsonl: none of 9 rows"):
        write_corpus(tmp_path / "input", tmp_path / "corpus", workers=2)
    assert len(list((tmp_path / "corpus" / "shards").glob("*.h5"))) == 9
    manifest = observe_inputs(config_for(tmp_path))
    with pytest.raises(MissingShardsError, match=r"1 of 10 input shards have no token shard: 4\.jsonl"):
        write_index(tmp_path / "corpus", manifest.keys)
    assert not (tmp_path / "corpus" / "shards.json").exists()


def test_rejects_are_counted_by_reason_and_kept_with_their_bytes(tmp_path):
    path = write_jsonl(tmp_path / "input" / "a.jsonl", ["fine"] * 97)
    with path.open("ab") as file:
        file.write(b'{"text": null}\n\n{"text": 3}\n{"text": "\xff"}\n')
    index = write_corpus(tmp_path / "input", tmp_path / "corpus", max_reject_fraction=0.05)
    ledger = index.ledger
    assert (ledger.rows, ledger.documents, ledger.blank, ledger.rejected_count) == (101, 97, 1, 3)
    assert ledger.rejected == {"null_text": 1, "text_not_a_string": 1, "bad_utf8": 1}
    (quarantine,) = (tmp_path / "corpus" / "quarantine").iterdir()
    lines = [orjson.loads(line) for line in quarantine.read_bytes().splitlines()]
    assert [line["row"] for line in lines] == [97, 99, 100]
    assert lines[0]["raw"] == '{"text": null}'
    assert "raw_base64" in lines[2]
    with pytest.raises(
        InputError, match=r"3 of 101 rows rejected .* where max_reject_fraction allows 1\.00%"
    ):
        write_corpus(tmp_path / "input", tmp_path / "strict")


def test_only_what_changed_is_stale(build, tmp_path):
    build({"a.jsonl": ["x"], "b.jsonl": ["y"]})
    config = config_for(tmp_path)
    assert stale_keys(config, observe_inputs(config)) == {}
    os.utime(tmp_path / "input" / "a.jsonl", (1, 1))
    assert stale_keys(config, observe_inputs(config)) == {}
    write_jsonl(tmp_path / "input" / "b.jsonl", ["z"])
    write_jsonl(tmp_path / "input" / "new.jsonl", ["n"])
    assert stale_keys(config, observe_inputs(config)) == {
        "b.jsonl": "the input changed",
        "new.jsonl": "missing",
    }
    config = config_for(tmp_path, max_document_tokens=3)
    assert set(stale_keys(config, observe_inputs(config)).values()) == {
        "the options changed",
        "the input changed",
        "missing",
    }


def test_a_damaged_record_makes_its_partition_stale_and_a_build_mends_it(build, tmp_path):
    index = build({"a.jsonl": ["x"], "b.jsonl": ["y"]})
    record = index.root / "shards" / "a.jsonl.json"
    record.write_bytes(record.read_bytes()[:50])
    config = config_for(tmp_path)
    assert stale_keys(config, observe_inputs(config)) == {"a.jsonl": "its record is damaged"}
    assert build({}) == index
    assert stale_keys(config, observe_inputs(config)) == {}


def test_a_rebuild_keeps_the_file_that_a_reader_has_open(build, tmp_path):
    old = build({"a.jsonl": ["old text"]})
    with h5py.File(old.root / old.shards[0].path, "r") as reader:
        new = build({"a.jsonl": ["new text, longer"]})
        assert bytes(i - 1 for i in reader["tokens"][:-1].tolist()) == b"old text"
    assert new.shards[0].path != old.shards[0].path
    assert (old.root / old.shards[0].path).exists()


def test_an_input_that_changes_while_it_is_read_fails_its_partition(tmp_path):
    write_jsonl(tmp_path / "input" / "a.jsonl", ["before"])
    config = config_for(tmp_path)
    manifest = observe_inputs(config)
    write_jsonl(tmp_path / "input" / "a.jsonl", ["behind"])  # the same size
    (outcome,) = ShardedTokenizationPipeline(config, workers=1).run(manifest.files)
    assert "it changed; observe it again" in outcome.error
    assert not list((tmp_path / "corpus").rglob("*.h5"))


def test_files_given_one_by_one_are_named_below_their_shared_folder(tmp_path):
    paths = [write_jsonl(tmp_path / "x" / name / "part.jsonl", [name]) for name in ("a", "b")]
    index = write_corpus(paths, tmp_path / "corpus")
    assert [shard.input_name for shard in index.shards] == ["a/part.jsonl", "b/part.jsonl"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda _: b"", "not JSON"),
        (lambda raw: raw[: len(raw) // 2], "not JSON"),
        (lambda raw: raw.replace(b'"token_count": 4', b'"token_count": 5', 1), "it was damaged"),
        (lambda raw: raw.replace(b'"format_version": 1', b'"format_version": 9', 1), "format_version is 9"),
    ],
)
def test_a_damaged_index_is_refused(build, damage, message):
    index = build({"a.jsonl": ["abc"]})
    path = index.root / "shards.json"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(IndexMismatchError, match=message):
        load_index(path)


def test_shards_of_two_tokenizers_are_not_mixed(build, tmp_path):
    index = build({"a.jsonl": ["x"], "b.jsonl": ["y"], "c.jsonl": ["z"]})
    record = index.root / "shards" / "b.jsonl.json"
    content = json.loads(record.read_text())
    content["tokenizer"]["fingerprint"] = "0" * 64
    del content["checksum"]
    record.write_text(json.dumps(content))
    with pytest.raises(
        IndexMismatchError, match=r"tokenizer fingerprint of b\.jsonl is not that of the other 2"
    ):
        write_index(index.root, ["a.jsonl", "b.jsonl", "c.jsonl"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compression": "rar"}, "compression: found 'rar'"),
        ({"windowsize": 3}, "windowsize: unknown key"),
    ],
)
def test_wrong_options_are_named(tmp_path, options, message):
    write_jsonl(tmp_path / "input" / "a.jsonl", ["x"])
    with pytest.raises(ConfigError, match=message):
        write_corpus(tmp_path / "input", tmp_path / "corpus", **options)


def test_a_worker_killed_from_outside_does_not_fail_its_neighbours(tmp_path):
    for number in range(4):
        write_jsonl(tmp_path / "input" / f"{number}.jsonl", ["some text"] * 2000)
    config = config_for(tmp_path)
    killed = []

    def kill_once(progress) -> None:
        if not killed:
            pid = os.getpid()
            killed.extend(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
            for child in killed:
                os.kill(child, signal.SIGKILL)

    outcomes = list(
        ShardedTokenizationPipeline(config, workers=2).run(
            observe_inputs(config).files, on_progress=kill_once
        )
    )
    assert killed
    assert [outcome.error for outcome in outcomes] == [None] * 4
    assert not list((tmp_path / "corpus" / ".building").glob("*.lease"))
