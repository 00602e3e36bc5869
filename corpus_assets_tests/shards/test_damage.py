"""A generation that was released and is found damaged is not released any more, until it is whole again."""

import pytest
from click.testing import CliRunner

from corpus_assets import MmapTokenStore, load_index, validate_corpus
from corpus_assets.cli import main
from corpus_assets.errors import NotReleasedError
from corpus_assets.shards.damage import damage_path, record_validation
from corpus_assets.shards.gc import find_garbage, remove_garbage
from corpus_assets.shards.release import Evidence, generation_path, load_release, write_release
from corpus_assets_tests.conftest import write_jsonl

PASSED = [Evidence(check="digests_match", passed=True, detail="d")]


@pytest.fixture
def released(build, tmp_path):
    """The index of a released corpus of two shards, which corpora.yaml calls `c`."""
    index = build({"a.jsonl": ["first"], "b.jsonl": ["second"]})
    write_release(index, PASSED, created="2026-01-01T00:00:00+00:00")
    (tmp_path / "corpora.yaml").write_text("corpora: {c: {input: input, root: corpus}}", encoding="utf-8")
    return index


def run(tmp_path, *arguments):
    return CliRunner().invoke(main, ["--config", str(tmp_path / "corpora.yaml"), *arguments])


def flip(index, key: str = "a.jsonl") -> None:
    """One bit of one token of a shard."""
    (shard,) = [shard for shard in index.shards if shard.key == key]
    with (index.root / shard.path).open("r+b") as file:
        file.seek(shard.data_offset)
        (byte,) = file.read(1)
        file.seek(shard.data_offset)
        file.write(bytes([byte ^ 1]))


def opens(index) -> bool:
    try:
        with MmapTokenStore(index.root, require_release=True):
            return True
    except NotReleasedError:
        return False


def test_damage_revokes_the_release_and_repair_restores_it(released, tmp_path):
    assert opens(released)
    flip(released)
    assert run(tmp_path, "validate", "c").exit_code == 1
    assert not opens(released)
    with pytest.raises(NotReleasedError) as caught:
        load_release(released.root)
    said = str(caught.value)
    assert f"index {released.fingerprint} was released, but is damaged: 1 found at 20" in said
    assert "a.jsonl" in said
    assert "`corpus repair` restores it" in said
    status = run(tmp_path, "status", "c")
    assert status.exit_code == 2
    assert "was released, but is damaged" in status.output
    assert run(tmp_path, "repair", "c").exit_code == 0
    assert opens(released)
    assert load_index(released.root) == released


def test_a_full_validation_clears_what_a_quick_one_does_not(released, tmp_path):
    flip(released)
    assert run(tmp_path, "validate", "c").exit_code == 1
    flip(released)
    assert run(tmp_path, "validate", "c", "--quick").exit_code == 0
    assert not opens(released)
    assert run(tmp_path, "validate", "c").exit_code == 0
    assert opens(released)


def test_a_quick_validation_with_findings_revokes(released, tmp_path):
    (released.root / released.shards[0].path).write_bytes(b"")
    assert run(tmp_path, "validate", "c", "--quick").exit_code == 1
    assert not opens(released)


def test_an_input_that_came_since_damages_nothing(released, tmp_path):
    from corpus_assets.config import load_config
    from corpus_assets.shards.manifest import observe_inputs

    write_jsonl(tmp_path / "input" / "c.jsonl", ["third"])
    observe_inputs(load_config(tmp_path / "corpora.yaml")["c"])
    assert run(tmp_path, "validate", "c").exit_code == 1
    assert opens(released)


def test_only_the_damaged_generation_is_refused(released, build, tmp_path):
    """The released generation before is looked at by its own path, and keeps its release."""
    newer = build({"a.jsonl": ["another"]})
    write_release(newer, PASSED, created="2026-01-02T00:00:00+00:00")
    flip(newer)
    assert run(tmp_path, "validate", "c").exit_code == 1
    assert not opens(newer)
    before = generation_path(released.root, released.fingerprint)
    assert run(tmp_path, "validate", str(before)).exit_code == 0
    with MmapTokenStore(before, require_release=True) as store:
        assert store.fingerprint == released.fingerprint
    # What is damaged can be cleared away like any other release.
    build({"a.jsonl": ["a third"]})
    write_release(load_index(newer.root), PASSED, created="2026-01-03T00:00:00+00:00")
    remove_garbage(newer.root, find_garbage(newer.root, keep_releases=1))
    assert not damage_path(newer.root, newer.fingerprint).exists()


def test_a_mark_of_any_bytes_refuses(released):
    for content in (b"", b"\xff\x00\x1b[2J", b"x" * 10_000_000):
        damage_path(released.root, released.fingerprint).write_bytes(content)
        with pytest.raises(NotReleasedError) as caught:
            load_release(released.root)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 1200


def test_what_cannot_be_recorded_is_logged(released, caplog):
    flip(released)
    for path in (released.root / ".building").glob("*"):
        path.unlink()
    (released.root / ".building").rmdir()
    (released.root / ".building").touch()
    record_validation(released.root, validate_corpus(released.root))
    assert "what the validation found cannot be recorded" in caplog.text
