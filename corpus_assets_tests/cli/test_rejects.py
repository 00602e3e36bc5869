from __future__ import annotations

import json

import pytest

from corpus_assets import MmapTokenStore, load_index
from corpus_assets.sources.lines import RAW_PREFIX_BYTES

BAD = [
    b'{"text": "half',
    b'{"text": "caf\xe9\x1b[2J"}',
    b'{"text": null, "note": "\\u001b[31m"}\r',
    b'{"texts": "wrong key"}',
]
REASONS = {"bad_json": 1, "bad_utf8": 1, "null_text": 1, "missing_text": 1}


@pytest.fixture
def rejected(shell):
    """A corpus of two documents and four rejects in a.jsonl, one document in b.jsonl."""
    shell.configure(max_reject_fraction=0.9)
    shell.write_input("b.jsonl", "defg")
    lines = [b'{"text": "ab"}', *BAD, b"", b'{"text": "c"}']
    (shell.folder / "data/c/input/a.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    shell.build_shards()
    return shell


def test_counts_come_first_then_the_rows_with_nothing_that_a_terminal_obeys(rejected):
    result = rejected("rejects", "c")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("c: 4 rows in quarantine, of 1 input shard\n")
    assert "\x1b" not in result.output
    assert "\r" not in result.output
    for reason in REASONS:
        assert f"{reason} " in result.stdout
    assert '{"text": "caf\\xe9\\x1b[2J"}' in result.stdout
    assert '{"text": null, "note": "\\u001b[31m"}\\r' in result.stdout


def test_rows_can_be_chosen_by_shard_and_reason(rejected):
    assert "c: 1 row in quarantine" in rejected("rejects", "c", "--reason", "bad_json").stdout
    assert "c: 0 rows in quarantine" in rejected("rejects", "c", "--shard", "b.jsonl").stdout
    none = rejected("rejects", "c", "--reason", "bad_yaml")
    assert (none.exit_code, none.stderr) == (0, "no row of c was rejected for 'bad_yaml'\n")
    assert "no input shard 'x.jsonl'" in rejected.refused("rejects", "c", "--shard", "x.jsonl")
    assert "and 3 more; --rows N shows them" in rejected("rejects", "c", "--rows", "1").stdout


def test_json_has_every_row_with_its_bytes(rejected):
    document = json.loads(rejected("rejects", "c", "--json").stdout)
    assert document["rejected"] == REASONS
    assert document["shards"] == [{"key": "a.jsonl", "name": "a.jsonl", "built": True, "rejected": REASONS}]
    assert [(row["row"], row["reason"]) for row in document["rows"]] == [
        (1, "bad_json"),
        (2, "bad_utf8"),
        (3, "null_text"),
        (4, "missing_text"),
    ]
    assert document["rows"][2]["raw"].encode() == BAD[2]
    assert "raw_base64" in document["rows"][1]


def test_exported_rows_are_exactly_what_stood_in_the_input(rejected):
    result = rejected("rejects", "c", "--export", "mended.jsonl")
    assert result.stderr == "wrote 4 rows to mended.jsonl\n"
    assert (rejected.folder / "mended.jsonl").read_bytes() == b"\n".join(BAD) + b"\n"
    assert "there already" in rejected.refused("rejects", "c", "--export", "mended.jsonl")
    assert "folder that exists" in rejected.refused("rejects", "c", "--export", "nowhere/x.jsonl")


def test_rows_are_mended_and_fed_back_and_the_ledger_balances(rejected):
    rejected("rejects", "c", "--export", "mended.jsonl")
    mended = (rejected.folder / "mended.jsonl").read_bytes().splitlines()
    mended[0] += b' a line"}'
    mended[1] = mended[1].replace(b"\xe9\x1b[2J", "é".encode())
    mended[2] = mended[2].replace(b"null", b'"was null"')
    mended[3] = mended[3].replace(b"texts", b"text")
    (rejected.folder / "data/c/input/mended.jsonl").write_bytes(b"\n".join(mended) + b"\n")
    result = rejected("build")
    assert result.exit_code == 0, result.output
    index = load_index(rejected.root)
    ledger = index.ledger
    assert (ledger.rows, ledger.documents, ledger.blank, ledger.rejected) == (12, 7, 1, REASONS)
    assert index.shards[2].ledger.documents == 4
    with MmapTokenStore(rejected.root) as store:
        start = index.shards[2].global_start
        text = bytes((store.get_slice(start, len(store)) - 1).tolist()[:11])
    assert text == b"half a line"
    assert "4 rows in quarantine" in rejected("rejects", "c").stdout  # of a.jsonl, as before


def test_a_build_that_failed_for_its_rejects_shows_them(rejected):
    (rejected.folder / "data/c/input/b.jsonl").write_bytes(b'{"text": 1}\nno\n')
    rejected.build_shards()
    shown = rejected("rejects", "c").stdout
    assert "b.jsonl is not built: its last build failed with 2 rejects" in shown
    assert "c: 6 rows in quarantine, of 2 input shards" in shown
    document = json.loads(rejected("rejects", "c", "--shard", "b.jsonl", "--json").stdout)
    assert document["shards"][0]["built"] is False
    rejected.write_input("b.jsonl", "mended")
    rejected.build_shards()
    assert "c: 4 rows in quarantine, of 1 input shard" in rejected("rejects", "c").stdout


def test_a_row_that_was_not_kept_whole_is_not_exported_and_is_named(shell):
    shell.configure(max_reject_fraction=0.9)
    long = b'{"text": ' + b"x" * 2 * RAW_PREFIX_BYTES
    (shell.folder / "data/c/input").mkdir(parents=True)
    (shell.folder / "data/c/input/a.jsonl").write_bytes(b'{"text": "ab"}\n' + long + b"\nno\n")
    shell.build_shards()
    result = shell("rejects", "c", "--export", "mended.jsonl")
    assert (shell.folder / "mended.jsonl").read_bytes() == b"no\n"
    assert result.stderr == (
        "wrote 1 row to mended.jsonl\n"
        "left out 1 row, to be taken from the input:\n"
        "  row 1 of a.jsonl: only its first 65,536 bytes are kept\n"
    )
    assert "x … (65,536 bytes)" in result.stdout


def test_a_corpus_without_rejects_and_one_that_was_never_built(built):
    assert built("rejects", "c").stdout == "c: 0 rows in quarantine, of 0 input shards\n"
    (built.root / "inputs.json").unlink()
    assert "never built" in built.refused("rejects", "c")


def test_a_damaged_record_of_the_inputs_is_not_taken_for_a_corpus_that_was_never_built(built):
    path = built.root / "inputs.json"
    path.write_bytes(path.read_bytes().replace(b"a.jsonl", b"z.jsonl"))
    assert f"{path}: checksum is " in built.refused("rejects", "c")


def test_a_damaged_quarantine_file_is_named_with_its_line(rejected):
    (file,) = (rejected.root / "quarantine").glob("*.jsonl")
    lines = file.read_bytes().splitlines()
    for damaged in (
        b"{",
        b'{"row": "1"}',
        b'{"row": 1, "reason": "r", "detail": "", "raw_base64": "*"}',
        b"7",
    ):
        file.write_bytes(lines[0] + b"\n" + damaged + b"\n")
        message = rejected.refused("rejects", "c")
        assert message.startswith(f"{file}: line 1 is no quarantined row: ")
