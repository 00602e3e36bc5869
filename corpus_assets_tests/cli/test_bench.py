from __future__ import annotations

import json

import pytest

from corpus_assets.cli.build import COMPRESSIONS

SMALL = ("--repeats", "1", "--window", "4", "--sample-tokens", "65536")


@pytest.fixture
def figures(built, tmp_path):
    result = built("bench", "--json", "figures.json", *SMALL)
    assert result.exit_code == 0, result.output
    return json.loads((tmp_path / "figures.json").read_text()), result


def test_every_row_stands_beside_what_it_is_compared_with_and_every_stage_shows(built, figures):
    document, result = figures
    assert document["corpus"] == str(built.root)
    assert document["machine"]["cores"] >= 1
    assert {row["group"] for row in document["rows"]} >= {"reading", "loading"}
    for row in document["rows"]:
        assert row["rate"] > 0
        if row["reference"]:
            assert row["ratio"] == pytest.approx(row["rate"] / row["reference_rate"])
        if row["target"] is not None:
            assert row["meets_target"] is (row["ratio"] >= row["target"])
    assert "contiguous copy of mapped pages" in result.stdout
    assert {(row["codec"], row["chunk_size"]) for row in document["codecs"]} == {
        (codec, size) for codec in COMPRESSIONS for size in (4096, 16_384, 65_536)
    }
    codecs = result.stdout.partition("Codecs on this corpus")[2].splitlines()
    rows = [line.split() for line in codecs if line.split() and line.split()[0] in COMPRESSIONS]
    assert [(row[0], row[1]) for row in rows] == [
        (row["codec"], f"{row['chunk_size']:,}") for row in document["codecs"]
    ]
    assert [line for line in result.stderr.splitlines() if " so far" not in line] == [
        "reading the tokens to measure with …",
        "measuring random windows …",
        "measuring loaders …",
        "measuring with a cold page cache …",
        "measuring compressed shards …",
        "measuring codecs …",
        "wrote figures.json",
    ]


@pytest.mark.slow
def test_builds_are_measured_on_request(built):
    result = built("bench", "--building", "--json", "-", *SMALL)
    assert result.exit_code == 0, result.output
    assert "which takes minutes …" in result.stderr
    building = [row for row in json.loads(result.stdout)["rows"] if row["group"] == "building"]
    assert {row["reference"] for row in building} >= {"orjson and byte encoding alone"}


def test_a_corpus_that_is_not_built_cannot_be_measured(shell):
    shell.configure()
    assert "no such file, expected the index of a built corpus" in shell.refused("bench")


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(built):
    assert built.refused("bench", "--json", "nowhere/figures.json").startswith(
        "--json nowhere/figures.json: "
    )
