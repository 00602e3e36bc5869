from __future__ import annotations

import json
import os

from corpus_assets import load_index
from corpus_assets.cli.state import UNREAD
from corpus_assets.shards.lease import lease


def state_of_c(shell) -> dict:
    result = shell("status", "c", "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["corpora"][0]


def states(shell) -> dict[str, str]:
    return {shard["key"]: shard["state"] for shard in state_of_c(shell)["shards"]}


def files_below(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_a_corpus_that_was_never_built_has_missing_shards_and_nothing_else(shell):
    shell.configure()
    shell.write_input("a.jsonl", "ab")
    before = files_below(shell.folder)
    state = state_of_c(shell)
    assert state["counts"] == {"built": 0, "missing": 1, "stale": 0, "failed": 0}
    assert state["shards"] == [{"key": "a.jsonl", "name": "a.jsonl", "state": "missing", "reason": None}]
    assert (state["index"], state["release"], state["ledger"]) == (None, None, None)
    assert (state["leases"], state["findings"], state["problems"]) == ([], [], [])
    assert files_below(shell.folder) == before
    assert "training is refused" in shell("status").stdout


def test_a_built_corpus_shows_its_generation_and_its_ledger(built):
    state = state_of_c(built)
    assert state["counts"] == {"built": 2, "missing": 0, "stale": 0, "failed": 0}
    assert state["index"]["fingerprint"] == load_index(built.root).fingerprint
    assert (state["index"]["token_count"], state["index"]["document_count"]) == (10, 3)
    assert state["index"]["pending"] is None
    assert (state["ledger"]["rows"], state["ledger"]["documents"], state["ledger"]["rejected"]) == (3, 3, {})
    assert "3 rows = 3 documents + 0 blank + 0 rejected" in built("status").stdout


def test_a_touched_a_new_and_a_removed_input_each_show(built):
    os.utime(built.folder / "data/c/input/a.jsonl", ns=(1, 1))
    built.write_input("n.jsonl", "new")
    (built.folder / "data/c/input/b.jsonl").unlink()
    state = state_of_c(built)
    assert [(shard["key"], shard["state"], shard["reason"]) for shard in state["shards"]] == [
        ("a.jsonl", "stale", UNREAD),
        ("n.jsonl", "missing", None),
    ]
    assert state["index"]["pending"] == ("1 not in it, 1 in it but gone, 2 not up to date")


def test_another_option_makes_every_shard_stale_and_a_lost_file_one_missing(built):
    built.configure(max_document_tokens=3)
    assert states(built) == {"a.jsonl": "stale", "b.jsonl": "stale"}
    assert "the options changed" in built("status").stdout
    built.configure()
    assert states(built) == {"a.jsonl": "built", "b.jsonl": "built"}
    next((built.root / "shards").glob("b*.h5")).unlink()
    assert states(built) == {"a.jsonl": "built", "b.jsonl": "missing"}


def test_a_lease_shows_with_its_owner(built):
    with lease(built.root, "a.jsonl"):
        (held,) = state_of_c(built)["leases"]
        shown = built("status").stdout
    assert (held["key"], held["owner"]["pid"], held["stale"]) == ("a.jsonl", os.getpid(), False)
    assert f"a.jsonl by process {os.getpid()} on " in shown


def test_what_can_be_told_is_told_and_what_cannot_is_exit_code_2(built):
    built.configure(input="nowhere")
    result = built("status")
    assert result.exit_code == 2
    assert "shards    unknown" in result.stdout
    assert "10 tokens" in result.stdout
    assert (
        result.stderr
        == f"Error: c: {built.folder}/nowhere: no such file or folder, expected a folder of input files\n"
    )


def test_long_lists_are_cut_and_hostile_names_escaped(shell):
    shell.configure()
    for number in range(35):
        shell.write_input(f"{number:02d}\x1b[31m[red].jsonl", "x")
    shown = shell("status").stdout
    assert "00\\x1b[31m[red].jsonl" in shown
    assert "\x1b" not in shown
    assert "and 5 more; --all names them" in shown
    assert "34\\x1b[31m[red].jsonl" not in shown
    assert "34\\x1b[31m[red].jsonl" in shell("status", "--all").stdout
