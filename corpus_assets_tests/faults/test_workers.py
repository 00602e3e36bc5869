"""Documents that kill, hang or bring down the worker that packs them cost themselves and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from corpus_assets.config import parse_corpus
from corpus_assets.shards.manifest import observe_inputs
from corpus_assets.shards.pipeline import ShardedTokenizationPipeline
from corpus_assets_tests.conftest import write_jsonl

TRAPS = """
import ctypes, os, signal, sys, time
import numpy as np
from corpus_assets.formats.protocol import PackedRecord

class Trapped:
    name = "trapped"
    fields = {}
    spans = ()
    fingerprint = "1"

    def pack(self, record, tokenizer):
        match record["text"]:
            case "abort": os.abort()
            case "kill": os.kill(os.getpid(), signal.SIGKILL)
            case "segfault": ctypes.string_at(0)
            case "exit": sys.exit("the end")
            case "os exit": os._exit(0)
            case "hang": time.sleep(1000)
            case "sigint": raise KeyboardInterrupt
            case "recursion": self.pack(record, tokenizer)
            case "memory": bytearray(2**62)
            case "later": self.__class__.later = True
            case "die now" if getattr(self, "later", False): os.abort()
        return PackedRecord(np.array(tokenizer.encode(record["text"])))
"""


@pytest.fixture
def outcomes(tmp_path, monkeypatch):
    """`outcomes({"a.jsonl": texts, …})` → the outcomes of a build by the format above."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "traps.py").write_text(TRAPS)
    monkeypatch.syspath_prepend(tmp_path / "modules")
    monkeypatch.delitem(sys.modules, "traps", raising=False)

    def build(inputs, **options):
        for name, texts in inputs.items():
            write_jsonl(tmp_path / "input" / name, texts)
        options = {"format": "traps:Trapped", "max_reject_fraction": 0.5, "document_timeout": 3.0} | options
        config = parse_corpus(
            "c", {"input": "input", "root": "corpus", **options}, base=tmp_path, where="test"
        )
        pipeline = ShardedTokenizationPipeline(config, workers=2)
        found = {outcome.key: outcome for outcome in pipeline.run(observe_inputs(config).files)}
        assert not list((tmp_path / "corpus" / ".building").iterdir())
        return found

    return build


def quarantined(tmp_path: Path, key: str) -> list[dict]:
    (path,) = (tmp_path / "corpus" / "quarantine").glob(f"{key}-*")
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def test_every_way_to_die_is_the_reject_of_its_row_alone(outcomes, tmp_path):
    deaths = ["abort", "kill", "segfault", "exit", "os exit", "sigint"]
    texts = [text for death in deaths for text in ("before", death, "behind")]
    found = outcomes({"a.jsonl": texts, "b.jsonl": ["whole"]})
    assert found["b.jsonl"].error is None
    assert found["a.jsonl"].error is None
    ledger = found["a.jsonl"].info.ledger
    assert (ledger.rows, ledger.documents, ledger.rejected) == (18, 12, {"tokenizer_crash": 6})
    rejects = quarantined(tmp_path, "a.jsonl")
    assert [line["row"] for line in rejects] == [1, 4, 7, 10, 13, 16]
    assert [orjson.loads(line["raw"])["text"] for line in rejects] == deaths


def test_a_record_that_hangs_is_given_up_after_its_time(outcomes, tmp_path):
    found = outcomes({"a.jsonl": ["before", "hang", "behind"]}, document_timeout=1.0)
    assert found["a.jsonl"].info.ledger.rejected == {"tokenizer_timeout": 1}
    (line,) = quarantined(tmp_path, "a.jsonl")
    assert (line["row"], line["reason"]) == (1, "tokenizer_timeout")


def test_endless_recursion_is_an_error_of_the_row_and_no_memory_one_of_the_partition(outcomes, tmp_path):
    found = outcomes({"a.jsonl": ["a", "recursion"], "b.jsonl": ["memory"], "c.jsonl": ["c"]})
    assert found["a.jsonl"].info.ledger.rejected == {"format_failed": 1}
    assert found["b.jsonl"].error == "b.jsonl: unexpected MemoryError: "
    assert found["c.jsonl"].error is None


def test_more_deadly_rows_than_can_be_bad_luck_fail_the_partition(outcomes, monkeypatch):
    monkeypatch.setattr("corpus_assets.shards.pipeline.MAX_REFUSED_ROWS", 2)
    found = outcomes({"a.jsonl": ["fine"] * 3 + ["os exit"] * 4, "b.jsonl": ["b"]})
    assert found["a.jsonl"].error == "a.jsonl: the worker process ended at row 5: exit status 0"
    assert found["b.jsonl"].error is None


DIES_BETWEEN = """
import os
from corpus_assets.shards import build
build.refuse_changed = lambda *_: os.abort()
from corpus_assets.shards import worker
worker.serve()
"""


def test_a_death_that_no_document_caused_is_not_blamed_on_one(outcomes, tmp_path, monkeypatch):
    """The worker dies after its last document, each time: the partition fails, no row is rejected."""
    monkeypatch.setattr("corpus_assets.shards.pipeline.COMMAND", DIES_BETWEEN)
    found = outcomes({"a.jsonl": ["one", "two"]})
    assert found["a.jsonl"].error == "a.jsonl: the worker process ended: killed by SIGABRT"
    assert not (tmp_path / "corpus" / "quarantine").exists()


SEALS_SLOWLY = """
import time
from corpus_assets.shards import build
told = build.refuse_changed
build.refuse_changed = lambda *given: (time.sleep(5), told(*given))
from corpus_assets.shards import worker
worker.serve()
"""


def test_sealing_a_shard_may_take_longer_than_a_document_may(outcomes, monkeypatch):
    monkeypatch.setattr("corpus_assets.shards.pipeline.COMMAND", SEALS_SLOWLY)
    found = outcomes({"a.jsonl": ["one"]}, document_timeout=4.0)
    assert found["a.jsonl"].error is None
    assert found["a.jsonl"].info.ledger.rejected == {}


def test_a_worker_that_is_killed_between_two_shards_is_replaced(tmp_path):
    for number in range(3):
        write_jsonl(tmp_path / "input" / f"{number}.jsonl", [f"text {number}"])
    config = parse_corpus("c", {"input": "input", "root": "corpus"}, base=tmp_path, where="test")
    pipeline = ShardedTokenizationPipeline(config, workers=1)
    killed, errors = [], []
    for outcome in pipeline.run(observe_inputs(config).files):
        errors.append(outcome.error)
        for child in children_of(os.getpid()):
            os.kill(child, signal.SIGKILL)
            os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
            killed.append(child)
    assert errors == [None] * 3
    assert len(set(killed)) >= 3


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_tokenizer_that_disappears_fails_partitions_with_its_reason(tmp_path):
    from corpus_assets_tests.cli.test_bad_input import word_tokenizer

    spec = word_tokenizer(tmp_path / "words.json", a=0, b=1)
    write_jsonl(tmp_path / "input" / "a.jsonl", ["a b"])
    config = parse_corpus(
        "c",
        {"input": "input", "root": "corpus", "tokenizer": str(spec), "boundary_token": "b"},
        base=tmp_path,
        where="test",
    )
    files = observe_inputs(config).files
    spec.unlink()
    (outcome,) = ShardedTokenizationPipeline(config, workers=1).run(files)
    assert "words.json: cannot be read" in outcome.error


BUILD = """
import sys
from pathlib import Path
from corpus_assets.config import parse_corpus
from corpus_assets.shards.build import build_shard
from corpus_assets.shards.manifest import observe_inputs
from corpus_assets.tokenizers import ByteTokenizer
config = parse_corpus("c", {"input": "input", "root": "corpus"}, base=Path(sys.argv[1]), where="test")
for file in observe_inputs(config).files:
    print("found" if build_shard(file, config, ByteTokenizer())[1] else "built")
"""


@pytest.mark.parametrize("locking", ["FALSE", "TRUE", "BEST_EFFORT"])
def test_a_partition_has_one_builder_whatever_hdf5_is_told_about_locks(tmp_path, locking):
    """Two processes build the same partition at once: one builds, the other is refused or finds it built."""
    write_jsonl(tmp_path / "input" / "a.jsonl", ["some text"] * 200_000)
    environment = {**os.environ, "HDF5_USE_FILE_LOCKING": locking}
    builders = [
        subprocess.Popen(
            [sys.executable, "-c", BUILD, str(tmp_path)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    results = [builder.communicate() for builder in builders]
    assert sorted(out for out, _ in results if out != "found\n") in (["built\n"], ["", "built\n"])
    assert all(out or "LeaseHeldError: a.jsonl: being built by process" in error for out, error in results)
    assert len(list((tmp_path / "corpus" / "shards").glob("*.h5"))) == 1
