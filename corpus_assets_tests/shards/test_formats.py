"""Shards of formats: what is packed is what stands in the file, and rejects go the usual way."""

import json
from pathlib import Path

import h5py
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corpus_assets import load_index, validate_corpus, write_corpus, write_shard
from corpus_assets.config import parse_corpus
from corpus_assets.errors import ConfigError, IndexMismatchError, InputError
from corpus_assets.formats import record_format
from corpus_assets.shards import layout
from corpus_assets.shards.build import build_shard
from corpus_assets.shards.corpus import STALE_OPTIONS, stale_keys
from corpus_assets.shards.index import current_shard, publish_record, write_index
from corpus_assets.shards.manifest import observe_inputs
from corpus_assets.shards.space import required_bytes
from corpus_assets.shards.standalone import tokenize_jsonl_path
from corpus_assets.sources.document import Document
from corpus_assets.tokenizers import load_tokenizer

SEGMENTS = [
    {"segments": [{"text": "ab", "train": False}, {"text": "c", "train": True}], "w": 0.5, "notes": []},
    {"segments": [], "w": 2, "notes": []},
    {
        "segments": [{"text": "é", "train": True}],
        "w": 1,
        "notes": [{"start": 0, "end": 1, "value": {"lang": "fr"}}],
    },
]
OPTIONS = {
    "format": "segments",
    "text_field": "segments",
    "fields": {"weight": {"from": "w"}},
    "spans": {"notes": {"from": "notes"}},
}
TOKENS = [98, 99, 100, 0, 0, 196, 170, 0]


def write_records(path: Path, records) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(json.dumps(record).encode() + b"\n" for record in records))
    return path


def columns(path: Path) -> dict[str, list]:
    with layout.open_file(path) as file:
        return {
            name: layout.read(item, 0, len(item)).tolist() for name, item in layout.datasets(file).items()
        }


def expect_segments(path: Path) -> None:
    found = columns(path)
    assert found["tokens"] == TOKENS
    assert found["document_ends"] == [4, 5, 8]
    assert found["fields/loss_mask"] == [0, 0, 1, 1, 0, 1, 1, 1]
    assert found["fields/weight"] == [0.5] * 4 + [2] + [1] * 3
    assert (found["spans/notes/starts"], found["spans/notes/stops"]) == ([5], [7])
    assert bytes(found["spans/notes/values"]) == b'{"lang":"fr"}'


def test_a_corpus_of_segments_by_hand(tmp_path):
    write_records(tmp_path / "in" / "a.jsonl", SEGMENTS)
    index = write_corpus(tmp_path / "in", tmp_path / "out", workers=1, **OPTIONS)
    (shard,) = index.shards
    expect_segments(tmp_path / "out" / shard.path)
    assert shard.format == "segments"
    assert shard.fields == {"loss_mask": "uint8", "weight": "float32"}
    assert shard.spans == ("notes",)
    assert load_index(tmp_path / "out") == index
    assert validate_corpus(tmp_path / "out").ok
    with h5py.File(tmp_path / "out" / shard.path, "r") as file:
        assert file.attrs["format"] == "segments"


def test_parquet_gives_what_json_lines_give(tmp_path):
    pq.write_table(pa.Table.from_pylist(SEGMENTS), tmp_path / "a.parquet")
    index = write_corpus([tmp_path / "a.parquet"], tmp_path / "out", workers=1, **OPTIONS)
    expect_segments(tmp_path / "out" / index.shards[0].path)


def test_one_file_and_one_stream_give_the_same(tmp_path):
    made = record_format(**OPTIONS)
    info = tokenize_jsonl_path(
        write_records(tmp_path / "a.jsonl", SEGMENTS), tmp_path / "file.h5", format=made
    )
    expect_segments(tmp_path / "file.h5")
    assert info.format == "segments"
    write_shard(SEGMENTS, tmp_path / "stream.h5", format=made)
    expect_segments(tmp_path / "stream.h5")
    documents = [Document(row + 5, "", record) for row, record in enumerate(SEGMENTS)]
    write_shard(documents, tmp_path / "rows.h5", format=made)
    assert columns(tmp_path / "rows.h5")["document_rows"] == [5, 6, 7]


def test_a_stream_takes_a_format_by_name_and_refuses_what_does_not_fit(tmp_path):
    info = write_shard([{"text": [{"text": "a", "train": True}]}], tmp_path / "a.h5", format="segments")
    assert (info.token_count, info.fields) == (2, {"loss_mask": "uint8"})
    with pytest.raises(InputError, match=r"b\.h5: row 1: missing_text: no field text"):
        write_shard([{"text": []}, {}], tmp_path / "b.h5", format="segments")
    assert not (tmp_path / "b.h5").exists()
    with pytest.raises(ValueError, match="found a record among texts"):
        write_shard([{"text": "a"}], tmp_path / "b.h5")
    with pytest.raises(ValueError, match="found str among records"):
        write_shard(["a"], tmp_path / "b.h5", format="segments")


def test_rejects_of_a_format_are_counted_and_kept(tmp_path):
    path = write_records(tmp_path / "in" / "a.jsonl", SEGMENTS * 40)
    with path.open("ab") as file:
        file.write(b'\n[1]\n{"segments": 3}\n{"segments": [], "w": "x", "notes": []}\n')
        file.write(b'{"segments": [{"text": "\\ud800", "train": true}], "w": 1, "notes": []}\n')
    index = write_corpus(tmp_path / "in", tmp_path / "out", workers=1, max_reject_fraction=0.05, **OPTIONS)
    ledger = index.ledger
    assert ledger.balances
    assert (ledger.rows, ledger.documents, ledger.blank) == (125, 120, 1)
    assert ledger.rejected == {"bad_field": 1, "lone_surrogate": 1, "missing_field": 1, "not_an_object": 1}
    (quarantine,) = (tmp_path / "out" / "quarantine").iterdir()
    lines = [orjson.loads(line) for line in quarantine.read_bytes().splitlines()]
    by_row = {line["row"]: line for line in lines}
    assert sorted(by_row) == [121, 122, 123, 124]
    assert json.loads(by_row[122]["raw"]) == {"segments": 3}
    assert by_row[123]["detail"] == "w: found str, expected a number"
    assert json.loads(by_row[124]["raw"])["segments"][0]["text"] == "\ud800"
    with pytest.raises(InputError, match=r"4 of 125 rows rejected \(1 × bad_field, 1 × lone_surrogate"):
        write_corpus(tmp_path / "in", tmp_path / "strict", workers=1, **OPTIONS)


def test_no_document_at_all_fails_the_partition(tmp_path):
    write_records(tmp_path / "in" / "a.jsonl", [{"messages": []}] * 3)
    with pytest.raises(InputError, match=r"none of 3 rows is a document \(3 × missing_text\)"):
        write_corpus(tmp_path / "in", tmp_path / "out", workers=1, format="chat")


def test_careful_mode_announces_records_and_leaves_out_those_it_is_told_to(tmp_path):
    write_records(tmp_path / "in" / "a.jsonl", SEGMENTS)
    config = parse_corpus("c", {"input": "in", "root": "out", **OPTIONS}, base=tmp_path, where="test")
    (file,) = observe_inputs(config).files
    rows: list[int | None] = []
    config = config.model_copy(update={"max_reject_fraction": 0.5})
    info, _ = build_shard(
        file, config, load_tokenizer("byte"), on_document=rows.append, refuse_rows={1: "tokenizer_crash"}
    )
    assert rows == [0, 2, None]
    assert info.ledger.rejected == {"tokenizer_crash": 1}
    assert columns(tmp_path / "out" / info.path)["tokens"] == [*TOKENS[:4], *TOKENS[5:]]


def test_long_documents_are_cut_with_what_is_aligned_to_them(tmp_path):
    write_records(tmp_path / "in" / "a.jsonl", SEGMENTS)
    index = write_corpus(tmp_path / "in", tmp_path / "out", workers=1, max_document_tokens=1, **OPTIONS)
    found = columns(tmp_path / "out" / index.shards[0].path)
    assert found["tokens"] == [98, 0, 0, 196, 0]
    assert found["fields/loss_mask"] == [0, 1, 0, 1, 1]
    assert (found["spans/notes/starts"], found["spans/notes/stops"]) == ([3], [4])
    assert index.ledger.truncated_tokens == 3


def test_a_shard_of_texts_alone_has_nothing_of_formats_in_its_file(tmp_path):
    info = write_shard(["a", "", "é"], tmp_path / "a.h5", chunk_size=1024)
    assert (info.format, info.fields, info.spans, info.column_sha256) == ("text", {}, (), "")
    assert sorted(columns(tmp_path / "a.h5")) == ["document_ends", "document_rows", "token_crc32", "tokens"]
    with h5py.File(tmp_path / "a.h5", "r") as file:
        assert "format" not in file.attrs


def test_a_text_with_fields_has_the_ids_of_a_text_without(tmp_path):
    texts = [f"text {number} é" for number in range(50)]
    write_records(tmp_path / "in" / "a.jsonl", [{"text": text, "w": 1} for text in texts])
    plain = write_corpus(tmp_path / "in", tmp_path / "plain", workers=1)
    weighted = write_corpus(
        tmp_path / "in", tmp_path / "weighted", workers=1, fields={"w": {"from": "w", "dtype": "uint8"}}
    )
    assert weighted.shards[0].sha256 == plain.shards[0].sha256
    assert weighted.shards[0].format == plain.shards[0].format == "text"
    assert weighted.fingerprint != plain.fingerprint


def test_shards_of_two_formats_are_no_corpus(tmp_path):
    for name in ("a.jsonl", "b.jsonl", "c.jsonl"):
        write_records(tmp_path / "in" / name, [{"text": []}])
    write_corpus(tmp_path / "in", tmp_path / "out", workers=1, format="segments")
    write_records(tmp_path / "other" / "c.jsonl", [{"text": []}])
    write_corpus(tmp_path / "other", tmp_path / "chat", workers=1, format="chat")
    odd = current_shard(tmp_path / "chat", "c.jsonl")
    (tmp_path / "out" / odd.path).write_bytes((tmp_path / "chat" / odd.path).read_bytes())
    publish_record(tmp_path / "out", odd, scratch=tmp_path)
    with pytest.raises(
        IndexMismatchError, match=r"format of c\.jsonl is not that of the other 2 shards, segments"
    ):
        write_index(tmp_path / "out", ["a.jsonl", "b.jsonl", "c.jsonl"])


OWN = """
import numpy as np
from corpus_assets.formats.protocol import PackedRecord

class Reversed:
    name = "reversed"
    fields = {"position": "uint16"}
    spans = ()
    fingerprint = "VERSION"

    def pack(self, record, tokenizer):
        ids = np.array(tokenizer.encode(record["text"][::-1]), dtype=np.int64)
        return PackedRecord(ids, {"position": np.arange(len(ids) + 1)})
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """`own(version)` writes the module of an own format and forgets an earlier one."""
    folder = tmp_path / "code"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)

    def write(version: str) -> str:
        import importlib
        import sys

        source = OWN.replace("VERSION", version)
        (folder / "reversing.py").write_text(source + "#" * len(version))
        sys.modules.pop("reversing", None)
        importlib.invalidate_caches()
        return "reversing:Reversed"

    yield write
    import sys

    sys.modules.pop("reversing", None)


def test_an_own_format_is_built_in_worker_processes_and_rebuilt_when_it_changes(tmp_path, own):
    write_records(tmp_path / "in" / "a.jsonl", [{"text": "ab"}, {"text": "c"}])
    index = write_corpus(tmp_path / "in", tmp_path / "out", workers=2, format=own("1"))
    (shard,) = index.shards
    found = columns(tmp_path / "out" / shard.path)
    assert found["tokens"] == [99, 98, 0, 100, 0]
    assert found["fields/position"] == [0, 1, 2, 0, 1]
    assert shard.format == "reversed"
    entry = {"input": "in", "root": "out", "format": "reversing:Reversed"}
    config = parse_corpus("corpus", entry, base=tmp_path, where="test")
    assert stale_keys(config, observe_inputs(config)) == {}
    own("22")
    assert stale_keys(config, observe_inputs(config)) == {"a.jsonl": STALE_OPTIONS}
    again = write_corpus(tmp_path / "in", tmp_path / "out", workers=1, format="reversing:Reversed")
    assert again.shards[0].build != shard.build
    assert again.shards[0].sha256 == shard.sha256


def test_an_own_format_that_is_not_there_stops_before_anything_is_built(tmp_path):
    write_records(tmp_path / "in" / "a.jsonl", [{"text": "ab"}])
    with pytest.raises(ConfigError, match="format gone:Format: cannot be loaded"):
        write_corpus(tmp_path / "in", tmp_path / "out", format="gone:Format")
    assert not (tmp_path / "out").exists()


def test_space_is_asked_for_fields_too(tmp_path):
    write_records(tmp_path / "in" / "a.jsonl", SEGMENTS)
    config = parse_corpus("c", {"input": "in", "root": "out", **OPTIONS}, base=tmp_path, where="test")
    (file,) = observe_inputs(config).files
    assert required_bytes(config, [file]) == (2 + 1 + 4) * file.size


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)


@st.composite
def records(draw):
    segments = draw(st.lists(st.fixed_dictionaries({"text": texts, "train": st.booleans()}), max_size=4))
    length = sum(len(segment["text"]) for segment in segments)
    borders = st.tuples(st.integers(0, length), st.integers(0, length))
    ranges = draw(st.lists(borders.map(sorted).filter(lambda pair: pair[0] < pair[1]), max_size=3))
    notes = [{"start": a, "end": b, "value": draw(st.none() | texts | st.integers())} for a, b in ranges]
    return {"segments": segments, "w": draw(st.floats(-8, 8, width=32)), "notes": notes}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(records(), max_size=6), st.sampled_from(["none", "gzip", "zstd-dict", "blosc2"]))
def test_what_is_packed_comes_back_exactly(tmp_path, documents, compression):
    path = tmp_path / "a.h5"
    write_shard(documents, path, format=record_format(**OPTIONS), chunk_size=16, compression=compression)
    ids, mask, weights, starts, stops, values = [], [], [], [], [], []
    for document in documents:
        first = len(ids)
        raw = "".join(segment["text"] for segment in document["segments"])
        for segment in document["segments"]:
            encoded = segment["text"].encode()
            ids += [byte + 1 for byte in encoded]
            mask += [int(segment["train"])] * len(encoded)
        ids.append(0)
        mask.append(int(document["segments"][-1]["train"]) if document["segments"] else 0)
        weights += [document["w"]] * (len(ids) - first)
        for note in sorted(document["notes"], key=lambda note: note["start"]):
            starts.append(first + len(raw[: note["start"]].encode()))
            stops.append(first + len(raw[: note["end"]].encode()))
            values.append(note["value"])
    found = columns(path)
    assert found["tokens"] == ids
    assert found["fields/loss_mask"] == mask
    assert found["fields/weight"] == np.array(weights, np.float32).tolist()
    assert (found["spans/notes/starts"], found["spans/notes/stops"]) == (starts, stops)
    ends = found["spans/notes/value_ends"]
    stored = bytes(found["spans/notes/values"])
    assert [json.loads(stored[a:b]) for a, b in zip([0, *ends], ends, strict=False)] == values
