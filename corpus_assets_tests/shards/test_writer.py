import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus_assets.errors import ShardError
from corpus_assets.shards import columns, layout
from corpus_assets.shards.records import Ledger, TokenizerInfo
from corpus_assets.shards.writer import HDF5ShardWriter
from corpus_assets.tokenizers.byte import ByteTokenizer
from corpus_assets.tokenizers.protocol import EncodedDocuments, SpanTable

WIDE = TokenizerInfo(
    name="wide", fingerprint="f" * 64, boundary_id=70_000, max_token_id=70_000, canary_ids=()
)


def tokens_of(path: Path) -> list[int]:
    with layout.open_file(path) as file:
        return layout.read(file["tokens"], 0, len(file["tokens"])).tolist()


def test_every_document_is_followed_by_one_boundary_and_nothing_else(tmp_path):
    with HDF5ShardWriter(tmp_path / "a.h5", window_size=4) as writer:
        writer.add_document([5, 6])
        writer.add_boundary()
        writer.add_document([])
        writer.add_document([7])
        info = writer.close()
    assert tokens_of(tmp_path / "a.h5") == [5, 6, 0, 0, 7, 0]
    with h5py.File(tmp_path / "a.h5", "r") as file:
        assert file["document_ends"][:].tolist() == [3, 4, 6]
        assert file["document_rows"][:].tolist() == [0, 1, 2]
        assert file["tokens"].attrs["token_count"] == 6
        assert file["tokens"].maxshape == (None,)
        assert file.attrs["complete"]
        assert file.attrs["sha256"] == info.sha256
    assert (info.token_count, info.document_count, info.dtype) == (6, 3, "uint16")


def test_a_boundary_needs_an_open_document(tmp_path):
    with HDF5ShardWriter(tmp_path / "a.h5") as writer, pytest.raises(ValueError, match="no document is open"):
        writer.add_boundary()


def test_a_block_that_raises_publishes_nothing_and_leaves_nothing(tmp_path):
    def interrupted() -> None:
        with HDF5ShardWriter(tmp_path / "a.h5") as writer:
            writer.add_document([1])
            raise RuntimeError("the power went")

    with pytest.raises(RuntimeError):
        interrupted()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([257], "id 257, expected 0 to 256"),
        ([-1], "id -1, expected 0 to 256"),
        ([1.5], "expected one row of integers"),
        ([[1], [2]], "expected one row of integers"),
        ([3, 0], "found 1 boundary ids"),
    ],
)
def test_ids_that_do_not_fit_are_refused(tmp_path, ids, message):
    with HDF5ShardWriter(tmp_path / "a.h5") as writer, pytest.raises(ValueError, match=message):
        writer.add_document(ids)


def test_ids_above_65535_take_uint32(tmp_path):
    with HDF5ShardWriter(tmp_path / "a.h5", tokenizer=WIDE) as writer:
        writer.add_document([69_999])
        assert writer.close().dtype == "uint32"
    assert tokens_of(tmp_path / "a.h5") == [69_999, 70_000]


def test_long_documents_are_cut_and_counted(tmp_path):
    encoded = ByteTokenizer().encode_documents(["abcdef", "ab", "", "abc"])
    with HDF5ShardWriter(tmp_path / "bulk.h5", max_document_tokens=2) as writer:
        writer.add_documents(encoded, [0, 1, 2, 3])
        bulk = writer.close()
    with HDF5ShardWriter(tmp_path / "single.h5", max_document_tokens=2) as writer:
        for text in ["abcdef", "ab", "", "abc"]:
            writer.add_document(ByteTokenizer().encode(text))
        single = writer.close()
    assert tokens_of(tmp_path / "bulk.h5") == [98, 99, 0, 98, 99, 0, 0, 98, 99, 0]
    assert bulk.sha256 == single.sha256
    assert (bulk.ledger.truncated_documents, bulk.ledger.truncated_tokens) == (2, 5)
    assert bulk.ledger == single.ledger


def test_a_ledger_that_disagrees_is_refused_and_nothing_published(tmp_path):
    with HDF5ShardWriter(tmp_path / "a.h5") as writer:
        writer.add_document([1])
        with pytest.raises(ShardError, match="the shard has 1 documents"):
            writer.close(ledger=Ledger(rows=2, documents=2))
    assert not (tmp_path / "a.h5").exists()


def test_a_reader_follows_the_growing_shard_in_whole_chunks(tmp_path):
    with HDF5ShardWriter(tmp_path / "a.h5", chunk_size=4) as writer:
        writer.add_document([1, 2, 3, 4, 5])
        writer.add_boundary()
        with h5py.File(writer.growing_path, "r", libver="latest", swmr=True) as follower:
            assert follower["tokens"][:].tolist() == [1, 2, 3, 4]
            assert "complete" not in follower.attrs
            writer.add_document([6, 7, 8])
            writer.add_boundary()
            follower["tokens"].refresh()
            assert follower["tokens"][:].tolist() == [1, 2, 3, 4, 5, 0, 6, 7]


@pytest.mark.parametrize("expected_tokens", [None, 1_000_000])
@pytest.mark.parametrize("chunk_size", [3, 64, 100, 1000, 1024, 65_536])
@pytest.mark.parametrize("token_count", [1, 999, 70_001])
def test_uncompressed_tokens_lie_in_one_run_at_the_recorded_offset(
    tmp_path, chunk_size, token_count, expected_tokens
):
    ids = np.arange(1, token_count, dtype=np.uint16) % 256 + 1
    with HDF5ShardWriter(tmp_path / "a.h5", chunk_size=chunk_size, expected_tokens=expected_tokens) as writer:
        writer.add_document(ids)
        info = writer.close()
    raw = np.memmap(
        tmp_path / "a.h5", dtype="<u2", mode="r", offset=info.extents["tokens"], shape=(info.token_count,)
    )
    assert raw[:-1].tolist() == ids.tolist()
    assert raw[-1] == 0


@pytest.mark.parametrize("compression", ["none", "gzip", "lzf", "zstd", "zstd-dict", "blosc2"])
def test_the_same_content_gives_the_same_bytes_and_reads_back(tmp_path, compression, monkeypatch):
    ids = np.tile(np.arange(1, 200, dtype=np.uint16), 1000)
    for name, bytes_to_start in (("a", 2**30), ("b", 1)):  # whenever the disk is asked to begin
        monkeypatch.setattr(columns, "_BYTES_TO_START", bytes_to_start)
        with HDF5ShardWriter(
            tmp_path / name / "s.h5", compression=compression, chunk_size=10_000, root=tmp_path / name
        ) as writer:
            writer.add_document(ids)
    assert (tmp_path / "a" / "s.h5").read_bytes() == (tmp_path / "b" / "s.h5").read_bytes()
    assert tokens_of(tmp_path / "a" / "s.h5") == [*ids.tolist(), 0]


def test_fields_and_spans_stand_beside_their_tokens(tmp_path):
    with HDF5ShardWriter(
        tmp_path / "a.h5", fields={"loss_mask": np.uint8, "weight": np.float32}, spans=["topic"], chunk_size=4
    ) as writer:
        table = SpanTable(starts=np.array([1, 0]), stops=np.array([3, 2]), values=[b'"b"', b'"a"'])
        writer.add_document(
            [5, 6, 7], fields={"loss_mask": [0, 1, 1, 1], "weight": [1.5] * 4}, spans={"topic": table}
        )
        writer.add_document([], fields={"loss_mask": [0], "weight": [2.5]})
        info = writer.close()
    with h5py.File(tmp_path / "a.h5", "r") as file:
        assert file["fields/loss_mask"][:].tolist() == [0, 1, 1, 1, 0]
        assert file["fields/weight"][:].tolist() == [1.5, 1.5, 1.5, 1.5, 2.5]
        assert file["spans/topic/starts"][:].tolist() == [0, 1]
        assert file["spans/topic/stops"][:].tolist() == [2, 3]
        assert file["spans/topic/values"][:].tobytes() == b'"a""b"'
        assert file["spans/topic/value_ends"][:].tolist() == [3, 6]
    assert (info.fields, info.spans) == ({"loss_mask": "uint8", "weight": "float32"}, ("topic",))
    assert info.column_sha256


def test_a_cut_document_keeps_its_fields_and_clips_its_spans(tmp_path):
    with HDF5ShardWriter(
        tmp_path / "a.h5", fields={"n": np.int32}, spans=["s"], max_document_tokens=2
    ) as writer:
        table = SpanTable(starts=np.array([1, 2]), stops=np.array([4, 3]), values=[b"1", b"2"])
        writer.add_document([9, 9, 9, 9], fields={"n": [1, 2, 3, 4, 5]}, spans={"s": table})
    with h5py.File(tmp_path / "a.h5", "r") as file:
        assert file["tokens"][:].tolist() == [9, 9, 0]
        assert file["fields/n"][:].tolist() == [1, 2, 5]
        assert file["spans/s/starts"][:].tolist() == [1]
        assert file["spans/s/stops"][:].tolist() == [2]


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({}, r"found fields \[\]"),
        ({"fields": {"n": [1]}}, "field n has shape"),
        ({"fields": {"n": [1, 2, 300]}}, "values are int64, expected what uint8 holds"),
    ],
)
def test_fields_that_do_not_fit_are_refused(tmp_path, extra, message):
    with (
        HDF5ShardWriter(tmp_path / "a.h5", fields={"n": np.uint8}) as writer,
        pytest.raises(ValueError, match=message),
    ):
        writer.add_document([1, 2], **extra)


@given(
    documents=st.lists(st.lists(st.integers(1, 256), max_size=30), max_size=20),
    chunk_size=st.integers(1, 40),
    split=st.integers(0, 20),
)
def test_documents_come_back_whatever_the_portions(tmp_path_factory, documents, chunk_size, split):
    path = tmp_path_factory.mktemp("shard") / "a.h5"
    flat = [token for document in documents[split:] for token in (*document, 0)]
    ends = np.cumsum([len(document) + 1 for document in documents[split:]], dtype=np.int64)
    with HDF5ShardWriter(path, chunk_size=chunk_size) as writer:
        for document in documents[:split]:
            writer.add_document(document)
        writer.add_documents(
            EncodedDocuments(ids=np.array(flat, dtype=np.uint16), ends=ends), range(len(documents[split:]))
        )
        info = writer.close()
    with h5py.File(path, "r") as file:
        tokens, stops = file["tokens"][:], file["document_ends"][:]
    starts = [0, *stops[:-1].tolist()]
    assert [tokens[a : b - 1].tolist() for a, b in zip(starts, stops, strict=False)] == documents
    assert info.token_count == sum(map(len, documents)) + len(documents)


def test_a_follower_in_another_process_does_not_stop_the_shard_from_being_sealed(tmp_path):
    follow = (
        "import sys, h5py\n"
        "with h5py.File(sys.argv[1], 'r', libver='latest', swmr=True) as file:\n"
        "    print(len(file['tokens']), flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with HDF5ShardWriter(tmp_path / "a.h5", chunk_size=2) as writer:
        writer.add_document([1, 2, 3])
        writer.add_boundary()
        follower = subprocess.Popen(
            [sys.executable, "-c", follow, str(writer.growing_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert follower.stdout.readline() == b"4\n"
        writer.close()
        follower.communicate()
    assert tokens_of(tmp_path / "a.h5") == [1, 2, 3, 0]
