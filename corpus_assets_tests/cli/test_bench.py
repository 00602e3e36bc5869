from __future__ import annotations

import json

import pytest

SMALL = ("--repeats", "1", "--window", "4", "--sample-tokens", "65536")


@pytest.fixture
def figures(built, tmp_path):
    result = built("bench", "--json", "figures.json", *SMALL)
    assert result.exit_code == 0, result.output
    return json.loads((tmp_path / "figures.json").read_text()), result.stdout


def test_every_row_stands_beside_what_it_is_compared_with(built, figures):
    document, shown = figures
    assert document["corpus"] == str(built.root)
    assert document["machine"]["cores"] >= 1
    assert {row["group"] for row in document["rows"]} >= {"reading", "loading"}
    for row in document["rows"]:
        assert row["rate"] > 0
        if row["reference"]:
            assert row["ratio"] == pytest.approx(row["rate"] / row["reference_rate"])
        if row["target"] is not None:
            assert row["meets_target"] is (row["ratio"] >= row["target"])
    assert "contiguous copy in memory" in shown


def test_a_corpus_that_is_not_built_cannot_be_measured(shell):
    shell.configure()
    assert "no such file, expected the index of a built corpus" in shell.refused("bench")


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(built):
    assert built.refused("bench", "--json", "nowhere/figures.json").startswith(
        "--json nowhere/figures.json: "
    )
