"""Lease and release files that are empty, cut, garbage or no files: said in one line, and nothing stands still for ever."""

import os
import shutil

import pytest

from corpus_assets.shards.index import load_index
from corpus_assets.shards.lease import LeaseHeldError, clear_stale, held_leases, lease, lease_folder
from corpus_assets.shards.release import Evidence, write_release

SPOILS = {
    "empty": lambda _: b"",
    "half": lambda content: content[: len(content) // 2],
    "garbage": lambda _: b"\xff\0\x1b[2J",
    "nested": lambda _: b"[" * 100_000,
    "other types": lambda content: content.replace(b'"pid": ', b'"pid": "a\\u0000", "p": ').replace(
        b'"created":', b'"c":'
    ),
}


@pytest.fixture
def built(shell):
    shell.configure()
    shell.write_input("a.jsonl", "words")
    shell.build_shards()
    index = load_index(shell.root)
    write_release(index, [Evidence(check="c", passed=True, detail="d")], created="2026-01-01T00:00:00+00:00")
    return shell


@pytest.mark.parametrize("spoil", SPOILS)
def test_a_lease_of_which_the_owner_cannot_be_read_is_held_until_it_is_old(built, tmp_path, spoil):
    with lease(built.root, "a.jsonl"):
        shutil.copytree(lease_folder(built.root, "a.jsonl"), tmp_path / "kept")
    folder = lease_folder(built.root, "a.jsonl")
    shutil.move(tmp_path / "kept", folder)
    owner = folder / "owner.json"
    owner.write_bytes(SPOILS[spoil](owner.read_bytes()))
    assert "a.jsonl by an unknown owner (refreshed 0 s ago)" in built("status", "c").stdout
    with (
        pytest.raises(LeaseHeldError, match=r"a\.jsonl: being built by another builder"),
        lease(built.root, "a.jsonl"),
    ):
        raise AssertionError("never here")
    os.utime(owner, (1, 1))
    with lease(built.root, "a.jsonl"):
        assert held_leases(built.root)[0].owner.pid == os.getpid()
    assert clear_stale(built.root, stale_after=-1) == []


def test_a_pipe_in_place_of_the_owner_blocks_nobody(built):
    folder = lease_folder(built.root, "a.jsonl")
    folder.mkdir()
    os.mkfifo(folder / "owner.json")
    assert held_leases(built.root)[0].owner is None


def test_a_builder_whose_lease_is_spoiled_meanwhile_still_publishes(built):
    """Its folder is there: nobody has taken it over."""
    with lease(built.root, "a.jsonl") as drafts:
        (lease_folder(built.root, "a.jsonl") / "owner.json").write_bytes(b"")
        assert drafts.is_dir()
    assert clear_stale(built.root, stale_after=-1) == [lease_folder(built.root, "a.jsonl")]


@pytest.mark.parametrize("spoil", SPOILS)
def test_a_release_that_cannot_be_read_is_told_in_one_line_by_whoever_asks(built, spoil):
    path = built.root / "release.json"
    path.write_bytes(SPOILS[spoil](path.read_bytes()))
    status = built("status", "c")
    assert f"{path}: damaged" in status.output.replace("\n            ", " ")
    assert "Traceback" not in status.output
    (record,) = (path for path in (built.root / "releases").glob("*.json") if "." not in path.stem)
    record.write_bytes(path.read_bytes())
    message = built.refused("gc", "c", "--dry-run")
    assert f"{record}: damaged" in message
    assert "\n" not in message
