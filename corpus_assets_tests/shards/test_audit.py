import h5py

from corpus_assets import load_index
from corpus_assets.config import parse_corpus
from corpus_assets.shards.audit import audit_corpus
from corpus_assets_tests.conftest import write_jsonl


def config_for(tmp_path, **options):
    return parse_corpus("c", {"input": "input", "root": "corpus", **options}, base=tmp_path, where="test")


def test_an_honest_corpus_gives_the_same_ids_again(build, tmp_path):
    build(
        {"a.jsonl": [f"text {n}" for n in range(30)], "b.jsonl": ["", "long text " * 9]},
        max_document_tokens=20,
    )
    config = config_for(tmp_path, max_document_tokens=20)
    assert audit_corpus(config, load_index(config.root), documents_per_shard=30) == []


def test_tokens_that_do_not_come_from_their_row_are_found(build, tmp_path):
    """What no digest can see: the shard is whole, but it is not what its input says."""
    index = build({"a.jsonl": ["abc", "def"], "b.jsonl": ["x"]})
    with h5py.File(index.root / index.shards[0].path, "r+") as file:
        file["tokens"][5] = 200
    (finding,) = audit_corpus(config_for(tmp_path), index)
    assert (finding.shard, finding.check, finding.token_range) == ("a.jsonl", "retokenise", (4, 8))
    assert "row 1 of a.jsonl" in finding.message


def test_a_changed_or_missing_input_cannot_be_audited_and_says_so(build, tmp_path):
    index = build({"a.jsonl": ["abc"], "b.jsonl": ["x"]})
    write_jsonl(tmp_path / "input" / "a.jsonl", ["other"])
    (tmp_path / "input" / "b.jsonl").rename(tmp_path / "input" / "c.jsonl")
    messages = [finding.message for finding in audit_corpus(config_for(tmp_path), index)]
    assert messages == [
        "a.jsonl: its input a.jsonl has changed since it was built",
        "b.jsonl: its input b.jsonl is gone, so it cannot be audited",
    ]


def test_the_sample_is_drawn_by_the_seed(build, tmp_path):
    index = build({"a.jsonl": [f"{n:03}" for n in range(100)]})
    with h5py.File(index.root / index.shards[0].path, "r+") as file:
        file["tokens"][40:44] = [1, 2, 3, 0]
    found = [
        bool(audit_corpus(config_for(tmp_path), index, documents_per_shard=50, seed=seed))
        for seed in range(8)
    ]
    assert {True, False} == set(found)
