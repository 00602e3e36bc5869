import shutil

import pytest

from corpus_assets import load_index, validate_corpus
from corpus_assets.config import parse_corpus
from corpus_assets.errors import DiskSpaceError
from corpus_assets.shards.manifest import observe_inputs
from corpus_assets.shards.repair import repair_corpus
from corpus_assets.shards.space import require_space, required_bytes
from corpus_assets_tests.conftest import write_jsonl


def config_for(tmp_path, **options):
    return parse_corpus("c", {"input": "input", "root": "corpus", **options}, base=tmp_path, where="test")


def test_exactly_the_damaged_shards_are_rebuilt_with_equal_digests(build, tmp_path):
    index = build({"a.jsonl": ["x" * 99], "b.jsonl": ["y" * 99], "c.jsonl": ["z"]})
    first, second, third = index.shards
    raw = bytearray((index.root / first.path).read_bytes())
    raw[first.extents["tokens"]] ^= 1
    (index.root / first.path).write_bytes(raw)
    (index.root / second.path).unlink()
    untouched = (index.root / third.path).stat().st_mtime_ns
    repairs = repair_corpus(config_for(tmp_path), workers=1)
    assert [(repair.key, repair.error) for repair in repairs] == [("a.jsonl", None), ("b.jsonl", None)]
    assert validate_corpus(index.root).ok
    assert load_index(index.root) == index
    assert (index.root / third.path).stat().st_mtime_ns == untouched


def test_a_shard_whose_input_changed_is_not_repaired_into_something_else(build, tmp_path):
    index = build({"a.jsonl": ["x"], "b.jsonl": ["y"]})
    (index.root / index.shards[0].path).unlink()
    (index.root / index.shards[1].path).unlink()
    write_jsonl(tmp_path / "input" / "a.jsonl", ["other"])
    (tmp_path / "input" / "b.jsonl").unlink()
    errors = [repair.error for repair in repair_corpus(config_for(tmp_path), workers=1)]
    assert errors == [
        "a.jsonl: its input has changed since; build the corpus",
        "b.jsonl: its input is gone",
    ]


def test_a_shard_built_with_other_options_does_not_take_the_place_of_the_recorded_one(build, tmp_path):
    index = build({"a.jsonl": ["x" * 50]})
    (index.root / index.shards[0].path).unlink()
    (repair,) = repair_corpus(config_for(tmp_path, max_document_tokens=5), workers=1)
    assert "nothing is published" in repair.error
    assert load_index(index.root) == index
    assert not list(index.root.rglob("*.h5"))
    (repair,) = repair_corpus(config_for(tmp_path), workers=1)
    assert repair.error is None
    assert validate_corpus(index.root).ok


def test_a_build_that_cannot_fit_is_refused_before_it_starts(build, tmp_path):
    build({"a.jsonl": ["x"]})
    config = config_for(tmp_path)
    (file,) = observe_inputs(config).files
    assert required_bytes(config, [file]) == 2 * file.size
    free = shutil.disk_usage(tmp_path).free
    from dataclasses import replace

    with pytest.raises(DiskSpaceError, match=r"[GM]B free, expected about .* GB for 1 input shards"):
        require_space(config, [replace(file, size=free)])
