from __future__ import annotations

from corpus_assets import load_index
from corpus_assets_tests.cli.test_validate import damage_first_token_of


def test_a_damaged_shard_is_repaired_to_the_recorded_digest(built):
    before = load_index(built.root)
    assert built("repair", "c").stdout == "c: no shard is damaged\n"
    damage_first_token_of(built.root, 1)
    result = built("repair", "c")
    assert result.exit_code == 0, result.output
    assert result.stdout == "b.jsonl: repaired, its digests are the recorded ones\nc: 1 shard repaired\n"
    assert built("validate", "c").exit_code == 0
    assert load_index(built.root) == before


def test_a_shard_whose_input_has_changed_cannot_be_repaired(built):
    damage_first_token_of(built.root, 0)
    built.write_input("a.jsonl", "other")
    message = built.refused("repair", "c")
    assert message == ("1 of 1 shard not repaired:\n  a.jsonl: its input has changed since; build the corpus")


def test_gc_names_what_it_would_remove_and_then_removes_it(built):
    forgotten = built.root / "shards/old.jsonl-0123456789abcdef.h5"
    forgotten.write_bytes(b"x" * 1234)
    dry = built("gc", "--dry-run")
    assert "shards/old.jsonl-0123456789abcdef.h5" in dry.stdout
    assert "no index, release or reader refers to it" in dry.stdout
    assert dry.stdout.endswith("c: 1 file, 1.23 kB, would be removed\n")
    assert forgotten.exists()
    assert built("gc", "c").stdout.endswith("c: 1 file, 1.23 kB, removed\n")
    assert not forgotten.exists()
    assert built("validate", "c").exit_code == 0
