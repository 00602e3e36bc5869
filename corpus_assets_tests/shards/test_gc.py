import json
import os
import time
from pathlib import Path

import pytest

from corpus_assets import load_index, validate_corpus
from corpus_assets.errors import IndexMismatchError, NotReleasedError
from corpus_assets.shards.gc import find_garbage, remove_garbage
from corpus_assets.shards.lease import lease
from corpus_assets.shards.readers import ReaderMark, paths_being_read
from corpus_assets.shards.release import Evidence, generation_path, load_release, write_release

PASSED = [Evidence(check="digests_match", passed=True, detail="3 shards")]


def release(index, day: int):
    return write_release(index, PASSED, created=f"2026-01-{day:02}T00:00:00+00:00")


def names(garbage) -> list[str]:
    return [item.path.name for item in garbage]


def test_a_fresh_corpus_holds_no_garbage(build):
    assert find_garbage(build({"a.jsonl": ["x"]}).root) == []


def test_a_replaced_shard_goes_and_the_current_generation_stays(build):
    old = build({"a.jsonl": ["x"], "b.jsonl": ["y"]})
    new = build({"a.jsonl": ["changed"]})
    garbage = find_garbage(new.root)
    assert names(garbage) == [Path(old.shards[0].path).name]
    remove_garbage(new.root, garbage)
    assert validate_corpus(new.root).ok
    assert find_garbage(new.root) == []


def test_what_a_release_refers_to_stays_until_the_release_goes(build):
    old = build({"a.jsonl": ["x"]})
    release(old, 1)
    new = build({"a.jsonl": ["changed"]})
    release(new, 2)
    assert find_garbage(new.root) == []
    assert load_index(generation_path(new.root, old.fingerprint)).shards == old.shards
    garbage = find_garbage(new.root, keep_releases=1)
    assert names(garbage) == [
        f"{old.fingerprint}.json",
        f"{old.fingerprint}.shards.json",
        Path(old.shards[0].path).name,
    ]
    remove_garbage(new.root, garbage)
    assert load_release(new.root).fingerprint == new.fingerprint
    with pytest.raises(NotReleasedError, match=f"the latest release is {new.fingerprint}"):
        load_release(new.root, old.fingerprint)


def test_what_a_live_reader_has_open_stays(build):
    old = build({"a.jsonl": ["x"]})
    mark = ReaderMark(old)
    new = build({"a.jsonl": ["changed"]})
    assert find_garbage(new.root) == []
    mark.remove()
    assert len(find_garbage(new.root)) == 1


def test_a_mark_of_a_dead_reader_does_not_hold_anything(build):
    index = build({"a.jsonl": ["x"]})
    ReaderMark(index)
    (mark,) = (index.root / ".readers").iterdir()
    mark.write_text(mark.read_text().replace('"process_start": "', '"process_start": "1'))
    assert paths_being_read(index.root) == set()
    assert not mark.exists()


def mark_of(root: Path) -> Path:
    (mark,) = (root / ".readers").glob("*.json")
    return mark


def move_to_another_machine(mark: Path) -> None:
    content = json.loads(mark.read_text())
    mark.write_text(json.dumps(content | {"machine": "another"}))


def test_a_reader_that_was_paused_keeps_its_files(build):
    index = build({"a.jsonl": ["x"]})
    ReaderMark(index)
    os.utime(mark_of(index.root), (0, 0))
    assert paths_being_read(index.root) == {index.shards[0].path}


def test_a_reader_elsewhere_counts_by_the_clock_of_the_file_system(build, monkeypatch):
    index = build({"a.jsonl": ["x"]})
    ReaderMark(index)
    mark = mark_of(index.root)
    move_to_another_machine(mark)
    now = time.time()
    for jump in (-100_000, 100_000):
        monkeypatch.setattr(time, "time", lambda jump=jump: now + jump)
        assert paths_being_read(index.root) == {index.shards[0].path}
    os.utime(mark, (now - 1000, now - 1000))
    assert paths_being_read(index.root) == set()


def test_a_mark_that_went_while_its_reader_was_paused_comes_back(build):
    index = build({"a.jsonl": ["x"]})
    reader = ReaderMark(index, stale_after=0.05)
    mark_of(index.root).unlink()
    deadline = time.monotonic() + 20
    while not paths_being_read(index.root):
        assert time.monotonic() < deadline
    reader.remove()
    assert not list((index.root / ".readers").iterdir())


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b"\xff", b"[" * 200_000],
    ids=["empty", "list", "object", "no text", "deep"],  # an id is part of the environment, which has a limit
)
def test_a_damaged_mark_stops_gc_until_it_is_old(build, content):
    index = build({"a.jsonl": ["x"]})
    ReaderMark(index)
    mark = mark_of(index.root)
    mark.write_bytes(content)
    with pytest.raises(IndexMismatchError, match="not the mark of a reader"):
        find_garbage(index.root)
    os.utime(mark, (0, 0))
    assert find_garbage(index.root) == []
    assert not mark.exists()


def test_a_shard_that_a_builder_holds_stays(build):
    old = build({"a.jsonl": ["x"]})
    new = build({"a.jsonl": ["changed"]})
    with lease(new.root, "a.jsonl"):
        assert find_garbage(new.root) == []
    assert names(find_garbage(new.root)) == [Path(old.shards[0].path).name]


def test_the_record_of_a_removed_input_goes_when_the_index_has_dropped_it(build, tmp_path):
    index = build({"a.jsonl": ["x"], "b.jsonl": ["y"]})
    (tmp_path / "input" / "b.jsonl").unlink()
    build({"a.jsonl": ["x"]})
    assert names(find_garbage(index.root)) == [Path(index.shards[1].path).name, "b.jsonl.json"]


def test_a_release_without_evidence_or_with_a_failure_is_refused(build):
    index = build({"a.jsonl": ["x"]})
    with pytest.raises(NotReleasedError, match="no check was evaluated"):
        write_release(index, [], created="2026-01-01T00:00:00+00:00")
    failed = Evidence(check="digests_match", passed=False, detail="1 of 1 shards differs")
    with pytest.raises(NotReleasedError, match="digests_match: 1 of 1 shards differs"):
        write_release(index, [failed], created="2026-01-01T00:00:00+00:00")
    assert not (index.root / "release.json").exists()
