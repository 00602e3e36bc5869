"""JSONLSource: every row is a document, blank or a reject, whatever the bytes are."""

import gzip
import hashlib
import tracemalloc

import fsspec
import orjson
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from corpus_assets.errors import InputUnreadableError
from corpus_assets.sources import open_source
from corpus_assets.sources.document import Document
from corpus_assets.sources.jsonl import JSONLSource


def read(path, **options):
    """(row, text) of every document, the source, and (row, reason) of every reject."""
    rejects = []
    source = JSONLSource(str(path), on_reject=rejects.append, **options)
    documents = [(document.row, document.text) for document in source]
    return documents, source, [(reject.row, reject.reason) for reject in rejects]


@pytest.fixture
def write(tmp_path):
    def write_file(data: bytes, name: str = "in.jsonl"):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write_file


def test_documents_carry_their_rows_and_the_ledger_balances(write):
    data = b'{"text": "one"}\n\n{"text": 2}\r\n  \n{"text": "two"}'
    path = write(data)
    documents, source, rejects = read(path)
    assert documents == [(0, "one"), (4, "two")]
    assert rejects == [(2, "text_not_a_string")]
    assert (source.counts.rows, source.counts.documents, source.counts.blank) == (5, 2, 2)
    assert source.counts.rejected == {"text_not_a_string": 1}
    assert source.bytes_read == len(data)
    assert source.sha256 == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": "\xff\xfe"}', "bad_utf8"),
        (b"\xff\xfe", "bad_utf8"),
        (b'{"text": "cut', "bad_json"),
        (b"[" * 100_000, "bad_json"),
        (b"\x00", "bad_json"),
        (b'["text"]', "not_an_object"),
        (b'"text"', "not_an_object"),
        (b"null", "not_an_object"),
        (b"{}", "missing_text"),
        (b'{"Text": "a"}', "missing_text"),
        (b'{"text": null}', "null_text"),
        (b'{"text": 7}', "text_not_a_string"),
        (b'{"text": ["a"]}', "text_not_a_string"),
        (b'{"text": NaN}', "text_not_a_string"),
        (b'{"text": "\\ud800"}', "lone_surrogate"),
        (b'{"text": "' + b"x" * 200_000 + b'"}', "line_too_long"),
    ],
)
@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_one_bad_line_costs_itself_alone(write, line, reason, place):
    good = [b'{"text": "a"}', b'{"text": "b"}']
    at = {"first": 0, "middle": 1, "last": 2}[place]
    path = write(b"\n".join([*good[:at], line, *good[at:]]))
    documents, source, rejects = read(path, max_line_bytes=150_000)
    assert [text for _, text in documents] == ["a", "b"]
    assert rejects == [(at, reason)]
    assert source.counts.rejected == {reason: 1}


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'{"text": "a", "score": NaN}', "a"),
        (b'{"text": "a", "score": -Infinity}', "a"),
        (b'{"text": "a", "id": 123456789012345678901234567890}', "a"),
        (b'{"text": "a", "other": "\\ud800"}', "a"),
        (b'{"text": "a", "text": "b"}', "b"),
        (b'{"text": "nul \\u0000 in it"}', "nul \x00 in it"),
        (b'{"text": ""}', ""),
        (b'\t {"text": "\\ud83d\\ude00"}\r', "\U0001f600"),
        (b'\xef\xbb\xbf{"text": "a"}', "a"),  # the second file of `cat a.jsonl b.jsonl`
    ],
)
def test_what_json_allows_is_a_document(write, line, text):
    documents, _, rejects = read(write(b'{"text": "before"}\n' + line + b"\n"))
    assert documents == [(0, "before"), (1, text)]
    assert rejects == []


def test_byte_order_mark_at_the_start_loses_nothing(write):
    documents, source, _ = read(write(b'\xef\xbb\xbf{"text": "a"}\n{"text": "b"}\n'))
    assert documents == [(0, "a"), (1, "b")]
    assert source.counts.rows == 2


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_utf16_is_named(write, codec):
    with pytest.raises(InputUnreadableError, match=r"in\.jsonl: found UTF-16"):
        read(write('{"text": "a"}\n'.encode(codec)))


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf"])
def test_a_file_of_nothing_is_an_empty_source(write, data):
    documents, source, _ = read(write(data))
    assert documents == []
    assert source.counts.rows == 0
    assert source.sha256 == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"a": {"b": "nested"}}, "nested"),
        ({"a.b": "literal", "a": {"b": "nested"}}, "literal"),
        ({"a": {"b": None}}, "null_text"),
        ({"a": None}, "missing_text"),
        ({"a": "b"}, "missing_text"),
        ({"a": {"b": {}}}, "text_not_a_string"),
    ],
)
def test_a_dotted_field_reaches_into_objects(write, record, expected):
    documents, _, rejects = read(write(orjson.dumps(record)), text_field="a.b")
    assert [text for _, text in documents] + [reason for _, reason in rejects] == [expected]


def test_records_travel_with_their_texts(write):
    path = write(b'{"text": "a", "id": 1}\nbad\n{"text": "b", "id": 2}\n')
    (batch,) = JSONLSource(str(path), keep_records=True).batches()
    assert batch.records == [{"text": "a", "id": 1}, {"text": "b", "id": 2}]
    assert batch.rows == [0, 2]
    source = JSONLSource(str(write(b'{"text": "a", "id": 1}\n')), keep_records=True)
    assert list(source) == [Document(0, "a", {"text": "a", "id": 1})]


def test_a_reject_keeps_a_bounded_piece_of_its_line(write):
    rejects = []
    long = b'{"text": "' + b"x" * 300_000
    path = write(b"short\n" + long + b"\n" + long + b"y" * 4_000_000)
    list(JSONLSource(str(path), on_reject=rejects.append, max_line_bytes=1_000_000))
    assert [reject.raw for reject in rejects] == [b"short", long[:65536], long[:65536]]
    assert "4300010 bytes, expected at most 1000000" in rejects[2].detail


@pytest.mark.parametrize(("length", "rejected"), [(100, 0), (101, 1)])
def test_a_line_may_be_exactly_as_long_as_allowed(write, length, rejected):
    line = b'{"text": "' + b"x" * (length - 12) + b'"}'
    _, source, _ = read(write(line + b"\n" + b'{"text": ""}'), max_line_bytes=100)
    assert source.counts.rejected.total() == rejected
    assert source.counts.documents == 2 - rejected


def test_a_long_line_is_passed_over_with_flat_memory(tmp_path):
    path = tmp_path / "in.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b'{"text": "a"}\n{"text": "')
        for _ in range(100):
            file.write(b"x" * 1_000_000)
        file.write(b'"}\n{"text": "b"}\n')
    tracemalloc.start()
    documents, _, rejects = read(path, max_line_bytes=1_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert documents == [(0, "a"), (2, "b")]
    assert rejects == [(1, "line_too_long")]
    assert peak < 12_000_000


def test_batches_are_bounded_in_bytes_and_in_documents(write):
    line = orjson.dumps({"text": "x" * 1000}) + b"\n"
    sizes = [len(b.texts) for b in JSONLSource(str(write(line * 5000)), batch_bytes=2_000_000).batches()]
    assert sum(sizes) == 5000
    assert len(sizes) == 3
    tiny = [len(b.texts) for b in JSONLSource(str(write(b'{"text":""}\n' * 400_000))).batches()]
    assert sum(tiny) == 400_000
    assert max(tiny) < 200_000


@pytest.mark.parametrize(
    ("name", "compress"),
    [
        ("in.JSONL", bytes),
        ("in.ndjson", bytes),
        ("in.Json", bytes),
        ("in.jsonl.gz", gzip.compress),
        ("in.JSON.GZ", gzip.compress),
        ("in.ndjson.zst", zstandard.compress),
    ],
)
def test_extensions_in_any_case(write, name, compress):
    source = open_source(str(write(compress(b'{"text": "a"}\n'), name)))
    assert [document.text for document in source] == ["a"]


@pytest.mark.parametrize("name", ["in.txt", "in.jsonl.bz2", "jsonl", "in.gz"])
def test_an_unknown_extension_is_refused_by_name(write, name):
    with pytest.raises(InputUnreadableError, match=rf"{name}: unknown extension, expected one of \.jsonl"):
        open_source(str(write(b"", name)))


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b'[{"text": "a"},\n{"text": "b"}]', "JSON array"),
        (b'\n  [{"text": "a"}, {"text": "b"}]\n', "JSON array"),
        (b'{\n  "text": "a"\n}\n', "over several lines"),
    ],
)
def test_a_json_file_that_is_no_json_lines_is_named(write, data, found):
    with pytest.raises(
        InputUnreadableError, match=rf"in\.json: .*{found}.*expected one JSON object per line"
    ):
        read(write(data, "in.json"))


def test_a_json_file_of_lines_whose_first_is_an_array_keeps_the_others(write):
    documents, _, rejects = read(write(b'[1]\n{"text": "b"}\n', "in.json"))
    assert documents == [(1, "b")]
    assert rejects == [(0, "not_an_object")]


def test_inputs_open_through_fsspec():
    with fsspec.open("memory://corpus/in.jsonl.gz", "wb") as file:
        file.write(gzip.compress(b'{"text": "far"}\n'))
    assert [document.text for document in open_source("memory://corpus/in.jsonl.gz")] == ["far"]
    with pytest.raises(InputUnreadableError, match=r"memory://corpus/gone\.jsonl: cannot be read"):
        list(open_source("memory://corpus/gone.jsonl"))


def test_a_missing_file_a_folder_and_a_second_pass_are_refused(tmp_path, write):
    with pytest.raises(InputUnreadableError, match=r"gone\.jsonl: cannot be read: No such file"):
        read(tmp_path / "gone.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(InputUnreadableError, match="found a folder or a special file"):
        read(tmp_path / "folder.jsonl")
    source = JSONLSource(str(write(b"")))
    list(source)
    with pytest.raises(ValueError, match="already read"):
        list(source)


lines = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"", b" ", b"\r", b"{}", b"\xef\xbb\xbf", b'{"text": null}', b"[", b"\xff\xfe\x00"]),
    st.text(max_size=20).map(lambda text: orjson.dumps({"text": text})),
)


@given(st.lists(lines, max_size=12).map(b"\n".join), st.sampled_from(["in.jsonl", "in.json"]))
def test_any_bytes_balance_or_are_refused_by_name(tmp_path_factory, data, name):
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(data)
    source = JSONLSource(str(path), max_line_bytes=60)
    try:
        rows = [document.row for document in source]
    except InputUnreadableError as error:
        assert str(path) in str(error)  # noqa: PT017 - most inputs must not raise
        return
    counts = source.counts
    assert counts.rows == counts.documents + counts.blank + counts.rejected.total()
    assert counts.documents == len(rows)
    assert rows == sorted(set(rows))
    body = data.removeprefix(b"\xef\xbb\xbf")
    assert counts.rows == body.count(b"\n") + (body != b"" and not body.endswith(b"\n"))
