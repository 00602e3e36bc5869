"""ParquetSource: the same ledger and the same reasons as JSON Lines."""

import hashlib
import tracemalloc

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpus_assets.errors import InputUnreadableError
from corpus_assets.sources import open_source
from corpus_assets.sources.parquet import ParquetSource


@pytest.fixture
def write(tmp_path):
    def write_table(table: pa.Table, **options):
        path = tmp_path / "in.parquet"
        pq.write_table(table, path, **options)
        return path

    return write_table


def read(path, **options):
    rejects = []
    source = open_source(str(path), on_reject=rejects.append, **options)
    documents = [(document.row, document.text) for document in source]
    return documents, source, rejects


def test_rows_keep_their_numbers_over_row_groups(write):
    path = write(pa.table({"text": ["a", None, "é", ""], "id": [1, 2, 3, 4]}), row_group_size=2)
    documents, source, rejects = read(path)
    assert documents == [(0, "a"), (2, "é"), (3, "")]
    assert [(r.row, r.reason, r.raw) for r in rejects] == [(1, "null_text", b'{"text":null}')]
    assert (source.counts.rows, source.counts.documents, source.counts.blank) == (4, 3, 0)
    assert source.bytes_read == path.stat().st_size
    assert source.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (pa.array([7]), "text_not_a_string"),
        (pa.array([b"bytes"]), "text_not_a_string"),
        (pa.array([["a"]]), "text_not_a_string"),
        (pa.array([None]), "null_text"),
        (pa.array([None], pa.int64()), "null_text"),
        (pa.array([b"\xff"]).view(pa.string()), "bad_utf8"),
        (pa.array(["x" * 101]), "line_too_long"),
    ],
)
@pytest.mark.parametrize("keep_records", [False, True])
def test_a_row_without_text_has_its_reason(write, column, reason, keep_records):
    documents, source, rejects = read(
        write(pa.table({"text": column})), max_line_bytes=100, keep_records=keep_records
    )
    assert documents == []
    assert [reject.reason for reject in rejects] == [reason]
    assert source.counts.rejected == {reason: 1}


def test_one_bad_string_costs_itself_alone(write):
    column = pa.array([b"a", b"\xff\xfe", None, b"x" * 101, b"b"]).view(pa.string())
    documents, _, rejects = read(write(pa.table({"text": column})), max_line_bytes=100)
    assert documents == [(0, "a"), (4, "b")]
    assert [(r.row, r.reason) for r in rejects] == [(1, "bad_utf8"), (2, "null_text"), (3, "line_too_long")]
    assert rejects[0].raw == b"\xff\xfe"


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_every_kind_of_string_is_text(write, kind):
    documents, _, rejects = read(write(pa.table({"text": pa.array(["a", None, "a"]).cast(kind)})))
    assert documents == [(0, "a"), (2, "a")]
    assert [reject.reason for reject in rejects] == ["null_text"]


def test_a_missing_column_rejects_every_row(write):
    documents, source, rejects = read(write(pa.table({"body": ["a", "b"]})))
    assert documents == []
    assert source.counts.rejected == {"missing_text": 2}
    assert [reject.row for reject in rejects] == [0, 1]


def test_a_dotted_field_reaches_into_structs(write):
    rows = [{"b": {"c": "x"}}, {"b": None}, None, {"b": {"c": None}}]
    documents, _, rejects = read(write(pa.table({"a": rows})), text_field="a.b.c")
    assert documents == [(0, "x")]
    assert [(r.row, r.reason) for r in rejects] == [
        (1, "missing_text"),
        (2, "missing_text"),
        (3, "null_text"),
    ]
    for field in ("a.x", "a.b.c.d", "z.b"):
        assert read(write(pa.table({"a": rows})), text_field=field)[1].counts.rejected == {"missing_text": 4}


def test_a_column_called_like_the_dotted_field_wins(write):
    path = write(pa.table({"a": [{"b": "nested"}], "a.b": ["literal"]}))
    assert read(path, text_field="a.b")[0] == [(0, "literal")]


def test_records_travel_with_their_texts(write):
    other = pa.array([b"fine", b"\xff"]).view(pa.string())
    path = write(pa.table({"text": ["a", "b"], "id": [1, 2], "other": other}))
    rejects = []
    source = ParquetSource(str(path), keep_records=True, on_reject=rejects.append)
    (batch,) = source.batches()
    assert batch.records == [{"text": "a", "id": 1, "other": "fine"}]
    assert [(r.row, r.reason, r.raw) for r in rejects] == [(1, "bad_utf8", b"b")]
    assert read(path)[0] == [(0, "a"), (1, "b")]  # unread columns do not matter


def test_a_file_without_rows_is_an_empty_source(write):
    documents, source, _ = read(write(pa.table({"text": pa.array([], pa.string())})))
    assert documents == []
    assert source.counts.rows == 0
    assert len(source.sha256) == 64


@pytest.mark.parametrize("kept", [0, 1, 4, 0.5, -1, -4, -8])
def test_a_file_cut_anywhere_is_named(write, kept):
    path = write(pa.table({"text": ["some text"] * 1000}))
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept) if isinstance(kept, float) else kept])
    with pytest.raises(InputUnreadableError, match=r"in\.parquet: cannot be read as Parquet at row 0"):
        read(path)


def test_flipped_bytes_give_documents_or_an_error_of_this_package(write):
    path = write(pa.table({"text": [f"text {i}" * 20 for i in range(200)]}), row_group_size=50)
    data = bytearray(path.read_bytes())
    generator = np.random.default_rng(5)
    refused = 0
    for position in generator.integers(0, len(data), 150):
        data[position] ^= 0x55
        path.write_bytes(data)
        try:
            counts = read(path)[1].counts
        except InputUnreadableError:
            refused += 1
        else:
            assert counts.rows == counts.documents + counts.rejected.total()
        data[position] ^= 0x55
    assert refused > 20


def test_one_row_group_is_streamed(write):
    path = write(pa.table({"text": ["x" * 1000 + str(i) for i in range(40_000)]}), compression="none")
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    peak, sizes, progress = 0, [], []
    source = ParquetSource(str(path), batch_bytes=1_000_000)
    for batch in source.batches():
        sizes.append(len(batch.texts))
        progress.append(source.bytes_read)
        peak = max(peak, pa.total_allocated_bytes() - before)
    python_peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(sizes) == 40_000
    assert max(sizes) < 1100
    assert progress == sorted(progress)
    assert progress[5] < 0.5 * path.stat().st_size
    assert peak < 12_000_000
    assert python_peak < 8_000_000


def test_parquet_opens_through_fsspec():
    with fsspec.open("memory://parquet/in.pq", "wb") as file:
        pq.write_table(pa.table({"text": ["far"]}), file)
    documents, source, _ = read("memory://parquet/in.pq")
    assert documents == [(0, "far")]
    assert len(source.sha256) == 64
