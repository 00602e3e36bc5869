"""Records without a text: every object is a document, whatever is in it."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpus_assets.sources import open_source

LINES = b"""{"messages": [1]}

{"text": 3}
[1]
{
{"a": "\\ud800"}
{}
"""


def read(path, **options):
    rejects = []
    source = open_source(str(path), text_field=None, on_reject=rejects.append, **options)
    documents = [(document.row, document.text, document.record) for document in source]
    counts = source.counts
    assert counts.rows == counts.documents + counts.blank + counts.rejected.total()
    return documents, counts, [(reject.row, reject.reason) for reject in rejects]


def test_lines_that_are_no_objects_are_rejected_and_others_kept_as_they_are(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(LINES)
    documents, counts, rejects = read(tmp_path / "a.jsonl")
    assert documents == [
        (0, "", {"messages": [1]}),
        (2, "", {"text": 3}),
        (5, "", {"a": "\ud800"}),
        (6, "", {}),
    ]
    assert rejects == [(3, "not_an_object"), (4, "bad_json")]
    assert counts.blank == 1


def test_good_lines_take_the_fast_path_to_the_same(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"a": 1}\n{"b": 2}\n')
    documents, counts, rejects = read(tmp_path / "a.jsonl")
    assert documents == [(0, "", {"a": 1}), (1, "", {"b": 2})]
    assert (counts.documents, rejects) == (2, [])


def test_batches_hold_records_and_no_texts(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"a": 1}\n\n{"b": 2}\n')
    (batch,) = open_source(str(tmp_path / "a.jsonl"), text_field=None).batches()
    assert (batch.rows, batch.texts, batch.records) == ([0, 2], [], [{"a": 1}, {"b": 2}])


def test_a_parquet_row_is_a_record_with_none_for_what_is_absent(tmp_path):
    rows = [{"segments": [{"text": "a", "train": True}]}, {"segments": None}, {"segments": [{"text": "b"}]}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    documents, _, rejects = read(tmp_path / "a.parquet")
    assert [record for _, _, record in documents] == [
        rows[0],
        rows[1],
        {"segments": [{"text": "b", "train": None}]},
    ]
    assert rejects == []


def test_a_long_row_is_a_reject_in_every_format(tmp_path):
    rows = [{"a": "short"}, {"a": "x" * 2000}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_bytes(b'{"a": "short"}\n{"a": "%s"}\n' % (b"x" * 2000))
    for name in ("a.parquet", "a.jsonl"):
        documents, _, rejects = read(tmp_path / name, max_line_bytes=1000)
        assert documents == [(0, "", {"a": "short"})]
        assert rejects == [(1, "line_too_long")]


def test_an_empty_field_name_is_refused(tmp_path):
    with pytest.raises(ValueError, match="expected a text_field"):
        open_source(str(tmp_path / "a.jsonl"), text_field="")
