"""`kill -9` at every step while rejects are kept, exported and fed back: each is whole or not there."""

from pathlib import Path

import pytest
import yaml

from corpus_assets import load_index, validate_corpus
from corpus_assets.shards.index import current_shard
from corpus_assets.shards.quarantine import quarantine_path
from corpus_assets.shards.records import ShardInfo
from corpus_assets.sources.discover import list_inputs
from corpus_assets_tests.shards.test_crash_upkeep import assert_no_leftovers, killed_at_every_step

GOOD, HALF, NUMBER = b'{"text": "good"}\n', b'{"text": "half\n', b'{"text": 7}\n'

BUILD = """
from corpus_assets.shards import build
from corpus_assets.shards.index import write_index
from corpus_assets.shards.manifest import observe_inputs
from corpus_assets.tokenizers import ByteTokenizer
entry = {"input": "input", "root": "corpus", "workers": 1, "max_reject_fraction": 0.9}
config = parse_corpus("c", entry, base=folder, where="test")
for file in observe_inputs(config).files:
    build.build_shard(file, config, ByteTokenizer())
write_index(config.root, observe_inputs(config).keys)
"""
EXPORT = """
from corpus_assets.cli import main
main.main(["--config", str(folder / "corpora.yaml"), "rejects", "c", "--export", str(folder / "input" / "mended.jsonl")])
"""


@pytest.fixture
def rejected(build, tmp_path):
    """The index of a corpus with one document and two rejects."""
    entry = {"input": "input", "root": "corpus", "workers": 1, "max_reject_fraction": 0.9}
    (tmp_path / "corpora.yaml").write_text(yaml.safe_dump({"corpora": {"c": entry}}), encoding="utf-8")
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "a.jsonl").write_bytes(GOOD + HALF + NUMBER)
    return build({}, max_reject_fraction=0.9)


def test_an_export_that_is_killed_leaves_no_half_input(rejected, tmp_path):
    target = tmp_path / "input" / "mended.jsonl"

    def check(*, finished: bool) -> None:
        names = [item.name for item in list_inputs(str(tmp_path / "input"))]
        assert names == ["a.jsonl", "mended.jsonl"] or (names == ["a.jsonl"] and not finished)
        assert not target.exists() or target.read_bytes() == HALF + NUMBER

    assert killed_at_every_step(tmp_path, EXPORT, check, lambda: target.unlink(missing_ok=True)) >= 3


def test_a_killed_build_of_mended_rows_keeps_the_rejects_of_every_shard_that_is_current(rejected, tmp_path):
    """One row is mended, the other not: it is in quarantine again, as a row of the new input."""
    (tmp_path / "input" / "mended.jsonl").write_bytes(HALF.replace(b"half", b'whole"}') + NUMBER)
    seen = set()

    def check(*, finished: bool) -> None:
        assert load_index(rejected.root).ledger.balances
        shards = [current_shard(rejected.root, key) for key in ("a.jsonl", "mended.jsonl")]
        counts = [shard and rejects_in_quarantine(rejected.root, shard) for shard in shards]
        seen.add((*counts, load_index(rejected.root).document_count))
        assert not finished or validate_corpus(rejected.root).ok

    assert killed_at_every_step(tmp_path, BUILD, check) > 10
    assert seen == {(2, None, 1), (2, 1, 1), (2, 1, 2)}
    assert_no_leftovers(rejected.root)


def rejects_in_quarantine(root: Path, shard: ShardInfo) -> int:
    """As many as the shard counts."""
    lines = quarantine_path(root, shard.key, shard.build).read_bytes().splitlines()
    assert len(lines) == shard.ledger.rejected_count
    return len(lines)
