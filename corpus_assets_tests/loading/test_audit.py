import json

import h5py
import numpy as np
import pytest

from corpus_assets import ByteTokenizer, PackedRecord, load_index
from corpus_assets.config import parse_corpus
from corpus_assets.formats.spans import span_table
from corpus_assets.loading.audit import audit_corpus
from corpus_assets.shards.build import build_shard
from corpus_assets.shards.index import write_index
from corpus_assets.shards.manifest import observe_inputs
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


class Words:
    """An own format: each token says how far it is from its word's end; words are annotated, the last one first."""

    name = "words"
    fields = {"left": "uint16"}  # noqa: RUF012
    spans = ("word",)
    fingerprint = "words-1"
    first = 0

    def pack(self, record, tokenizer):
        words = [tokenizer.encode(word) for word in record["words"]]
        left = [place + self.first for word in words for place in range(len(word) - 1, -1, -1)]
        ends = np.cumsum([len(word) for word in words]).tolist()
        places = [
            (end - len(word), end, number) for number, (word, end) in enumerate(zip(words, ends, strict=True))
        ]
        ids = np.array([token for word in words for token in word], np.int64)
        return PackedRecord(ids, {"left": np.array([*left, 0])}, {"word": span_table(reversed(places))})


class OtherWords(Words):
    first = 1


class FussyWords(Words):
    def pack(self, record, tokenizer):
        raise ValueError(f"no {record['words']} for {tokenizer.name} today")


OWN = f"{__name__}:Words"
CHAT = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]
SEGMENTS = [{"text": "2+2=", "train": False}, {"text": "4", "train": True}]
NOTES = [{"start": 1, "end": 3, "value": {"a": 1}}, {"start": 0, "end": 2, "value": "b"}]
ROWS = [
    {
        "chat": CHAT,
        "segments": SEGMENTS,
        "t": "abcd",
        "words": ["ab", "c"],
        "q": 0.1,
        "p": 2,
        "n": NOTES,
        "m": [],
    },
    {"chat": [], "segments": [], "t": "abc", "words": [], "q": 3, "p": 4, "n": NOTES[:1], "m": []},
]
BESIDE = {"fields": {"weight": {"from": "q"}}, "spans": {"note": {"from": "n"}}}
SHAPES = {
    "chat": {"format": "chat", "text_field": "chat"},
    "segments": {"format": "segments", "text_field": "segments"},
    "records": {"text_field": "t", **BESIDE},
    "own": {"format": OWN, "fields": {"weight": {"from": "q"}}},
}


def build_records(tmp_path, rows=ROWS, **options):
    """A corpus of records, and its config."""
    (tmp_path / "input").mkdir()
    (tmp_path / "input/a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = config_for(tmp_path, **options)
    manifest = observe_inputs(config)
    for file in manifest.files:
        build_shard(file, config, ByteTokenizer())
    write_index(config.root, manifest.keys)
    return config


def messages_of(config):
    return [finding.message for finding in audit_corpus(config, load_index(config.root))]


@pytest.mark.parametrize("options", [{}, {"compression": "zstd"}, {"max_document_tokens": 2}])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_format_is_encoded_anew(tmp_path, shape, options):
    config = build_records(tmp_path, [*ROWS, *ROWS], **SHAPES[shape], **options)
    assert messages_of(config) == []


@pytest.mark.parametrize(
    ("shape", "changed", "differing"),
    [
        ("chat", {"train_roles": ["user"]}, "loss_mask"),
        ("chat", {"template": "{content}"}, "ids, loss_mask"),
        ("records", {"fields": {"weight": {"from": "p"}}}, "weight"),
        ("records", {"spans": {"note": {"from": "m"}}}, "note"),
        ("records", {"max_document_tokens": 3}, "ids, weight"),
        ("own", {"format": f"{__name__}:OtherWords"}, "left"),
    ],
)
def test_what_a_record_does_not_give_is_named(tmp_path, shape, changed, differing):
    build_records(tmp_path, **SHAPES[shape])
    config = config_for(tmp_path, **{**SHAPES[shape], **changed})
    first = messages_of(config)[0]
    assert first == f"a.jsonl: row 0 of a.jsonl gives other {differing} than the shard holds"


def test_a_record_that_is_rejected_now_is_found(tmp_path):
    build_records(tmp_path, **SHAPES["own"])
    config = config_for(tmp_path, **{**SHAPES["own"], "format": f"{__name__}:FussyWords"})
    assert messages_of(config)[1].endswith(
        "row 1 of a.jsonl is rejected now: format_failed: ValueError: no [] for byte today"
    )


def test_a_shard_of_other_columns_is_one_finding(tmp_path):
    build_records(tmp_path, **SHAPES["records"])
    assert messages_of(config_for(tmp_path, text_field="t")) == [
        "a.jsonl: it holds fields {weight: float32} and spans ['note'], its format makes fields {} and spans []"
    ]


def test_a_damaged_or_missing_file_is_a_finding(build, tmp_path):
    index = build({"a.jsonl": ["abc"], "b.jsonl": ["x"]})
    (index.root / index.shards[0].path).rename(tmp_path / "away.h5")
    with (index.root / index.shards[1].path).open("ab") as file:
        file.write(b"x")
    missing, longer = messages_of(config_for(tmp_path))
    assert "No such file" in missing
    assert longer.startswith("b.jsonl: its file is ")


def test_roles_that_no_message_has_are_named_with_those_that_there_are(tmp_path):
    config = build_records(tmp_path, **SHAPES["chat"], train_roles=["asistant", "bot"])
    (message,) = messages_of(config)
    assert message.endswith(
        "tokens, so nothing is trained on; train_roles are asistant, bot; the records have assistant, user"
    )
