from __future__ import annotations

import json

import h5py

from corpus_assets import load_index


def change_token(root, number: int, place: int) -> None:
    """Another id at a token of a shard, as a broken encoder would have written it."""
    with h5py.File(root / load_index(root).shards[number].path, "r+") as file:
        file["tokens"][place] = 200


def test_an_honest_corpus_is_exit_code_0(built):
    result = built("audit", "c")
    assert result.exit_code == 0, result.output
    fingerprint = load_index(built.root).fingerprint[:16]
    assert result.stdout == (
        f"c: 3 documents of 2 shards encoded anew: nothing differs, generation {fingerprint}\n"
    )
    assert result.stderr == "c: encoding 3 of 3 documents anew …\n"


def test_a_wrong_document_is_exit_code_1_with_its_row_and_tokens(built):
    change_token(built.root, 0, 3)
    result = built("audit", "c")
    assert result.exit_code == 1
    assert result.stdout == (
        "c: 1 finding, 3 documents of 2 shards in the sample\n"
        "  retokenise: a.jsonl: row 1 of a.jsonl gives other ids than the shard holds\n"
    )
    report = json.loads(built("audit", "c", "--json").stdout)
    assert (report["ok"], report["document_count"], report["seed"]) == (False, 3, 0)
    assert report["findings"][0]["token_range"] == [3, 5]


def test_the_sample_is_as_large_as_asked_for_and_drawn_by_the_seed(shell):
    shell.configure()
    shell.write_input("a.jsonl", *(f"{number:03}" for number in range(100)))
    shell.build_shards()
    change_token(shell.root, 0, 40)
    exits = {shell("audit", "c", "--documents", "50", "--seed", str(seed)).exit_code for seed in range(8)}
    assert exits == {0, 1}
    assert "100 documents of 1 shard" in shell("audit", "c", "--documents", "100").stdout


def test_a_changed_input_is_a_finding(built):
    built.write_input("a.jsonl", "other")
    result = built("audit", "c")
    assert result.exit_code == 1
    assert "its input a.jsonl has changed since it was built" in result.stdout


def test_what_cannot_be_audited_is_exit_code_2(built):
    built.configure(tokenizer="gpt2")
    (built.root / "shards.json").rename(built.folder / "kept.json")
    assert "expected the shards.json of a built corpus" in built.refused("audit", "c")
    (built.folder / "kept.json").rename(built.root / "shards.json")
    built.configure(boundary_token="<end>")
    assert built.refused("audit", "c")


def test_another_tokenizer_is_said_once_and_other_options_are_a_warning(built):
    from corpus_assets_tests.cli.test_bad_input import word_tokenizer

    words = word_tokenizer(built.folder / "words.json", a=0, end=1)
    built.configure(tokenizer=str(words), boundary_token="end")
    assert "the tokenizer changed; build the corpus first" in built.refused("audit", "c")
    built.configure(max_document_tokens=3)
    result = built("audit", "c")
    assert "2 shards of c were built with other options than corpora.yaml says now" in result.stderr
    assert (result.exit_code, "row 0 of b.jsonl" in result.stdout) == (1, True)
