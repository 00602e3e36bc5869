"""A few bytes of Parquet that stand for gigabytes: flat memory, or an error that says so."""

import base64
import json
import subprocess
import sys
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

from corpus_assets.errors import InputUnreadableError
from corpus_assets.sources.parquet import ParquetSource
from corpus_assets_tests.conftest import write_jsonl

LONG = "x" * 1_000_000

# Reads a file and prints documents, characters, rejects and the peak of its memory in MB.
READ = """
import json, sys
from corpus_assets.sources import open_source
from corpus_assets.sources.unpacking import limit_memory

path, records, limit = sys.argv[1:]
limit_memory(int(limit) or None)
source = open_source(path, keep_records=records == "records", max_line_bytes=10_000_000)
try:
    characters = sum(sum(map(len, batch.texts)) for batch in source.batches())
    # Not ru_maxrss: that begins with what the parent had.
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    peak = int(status["VmHWM"].split()[0]) // 1024
    print(json.dumps([source.counts.documents, characters, dict(source.counts.rejected), peak]))
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


def read_in_child(path, *, records: bool = False, limit: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", READ, str(path), "records" if records else "texts", str(limit)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def repeated(tmp_path):
    """300 bytes that stand for 3 GB: every row is the one long text of the dictionary."""
    path = tmp_path / "bomb.parquet"
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 3000, pa.int32()), pa.array([LONG]))
    pq.write_table(pa.table({"text": texts}), path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 1000
    return path


@pytest.mark.parametrize("records", [False, True])
def test_a_dictionary_that_stands_for_gigabytes_is_read_in_flat_memory(repeated, records):
    ended = read_in_child(repeated, records=records)
    assert ended.returncode == 0, ended.stderr
    documents, characters, rejected, peak = json.loads(ended.stdout)
    assert (documents, characters, rejected) == (3000, 3_000_000_000, {})
    assert peak < 900


def test_values_that_begin_like_the_one_before_are_read_in_flat_memory(tmp_path):
    path = tmp_path / "bomb.parquet"
    pq.write_table(
        pa.table({"text": [LONG] * 1000}),
        path,
        use_dictionary=False,
        column_encoding={"text": "DELTA_BYTE_ARRAY"},
        compression="zstd",
    )
    documents, characters, _, peak = json.loads(read_in_child(path).stdout)
    assert (documents, characters) == (1000, 1_000_000_000)
    assert peak < 900


def test_a_row_of_a_long_list_is_a_reject_and_its_neighbours_are_documents(tmp_path):
    path = tmp_path / "bomb.parquet"
    lists = pa.array([[1], [0] * 20_000_000, [2]], pa.list_(pa.int8()))
    pq.write_table(pa.table({"text": ["a", "b", "c"], "list": lists}), path)
    rejects = []
    source = ParquetSource(str(path), keep_records=True, max_line_bytes=10_000_000, on_reject=rejects.append)
    assert [(document.row, document.text) for document in source] == [(0, "a"), (2, "c")]
    assert [(reject.row, reject.reason, reject.raw) for reject in rejects] == [(1, "line_too_long", b"b")]
    assert source.counts.rejected == Counter(line_too_long=1)


def test_what_the_footer_does_not_tell_is_refused_by_the_limit_of_the_process(tmp_path):
    """One row of 30,000 holds all the values: by the footer each has a few."""
    path = tmp_path / "bomb.parquet"
    lists = pa.array([[0] * 40_000_000] + [None] * 30_000, pa.list_(pa.int64()))
    pq.write_table(pa.table({"text": ["a"] * 30_001, "list": lists}), path)
    assert path.stat().st_size < 100_000
    ended = read_in_child(path, records=True, limit=200_000_000)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"InputUnreadableError: {path}: cannot be read as Parquet at row 0: ")
    assert "unpacks to more memory than one batch may take" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert read_in_child(path, limit=200_000_000).returncode == 0  # the column that is not wanted is not read


def test_the_limit_is_that_of_reading_alone(tmp_path):
    path = write_jsonl(tmp_path / "unused.jsonl", []).with_name("small.parquet")
    pq.write_table(pa.table({"text": ["a", "b"]}), path)
    program = READ.replace(
        "try:\n", "import resource\nbefore = resource.getrlimit(resource.RLIMIT_DATA)\ntry:\n", 1
    )
    program += "assert resource.getrlimit(resource.RLIMIT_DATA) == before\n"
    subprocess.run([sys.executable, "-c", program, str(path), "texts", "500000000"], check=True)


def test_long_values_of_fixed_length_are_bounded(tmp_path):
    path = tmp_path / "fixed.parquet"
    values = pa.DictionaryArray.from_arrays(
        pa.array([0] * 1000, pa.int32()), pa.array([b"x" * 1_000_000], pa.binary(1_000_000))
    )
    pq.write_table(
        pa.table({"text": ["a"] * 1000, "blob": values}), path, compression="zstd", store_schema=False
    )
    documents, _, rejected, peak = json.loads(read_in_child(path, records=True).stdout)
    assert (documents, rejected) == (1000, {})
    assert peak < 900


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
@pytest.mark.parametrize("records", [False, True])
def test_every_encoding_of_strings_is_read(tmp_path, encoding, records):
    path = tmp_path / "in.parquet"
    texts = [f"text {number}" for number in range(300)] + [None, ""]
    table = pa.table({"text": texts, "other": texts})
    pq.write_table(
        table, path, use_dictionary=["other"], column_encoding={"text": encoding}, row_group_size=100
    )
    source = ParquetSource(str(path), keep_records=records)
    assert [document.text for document in source] == [text for text in texts if text is not None]


def test_ordinary_texts_come_in_batches_as_large_as_wanted(tmp_path):
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"text": [f"{number} " * 150 for number in range(20_000)]}), path)
    sizes = [len(batch.texts) for batch in ParquetSource(str(path)).batches()]
    assert sum(sizes) == 20_000
    assert min(sizes[:-1]) > 1000


def test_a_broken_dictionary_is_an_error_of_this_package(repeated):
    data = bytearray(repeated.read_bytes())
    data[30:60] = bytes(30)
    repeated.write_bytes(data)
    with pytest.raises(InputUnreadableError, match=r"bomb\.parquet: cannot be read as Parquet at row 0"):
        list(ParquetSource(str(repeated)))


class OneKey(pe.KmsClient):
    def wrap_key(self, key_bytes, _):
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key, _):
        return base64.b64decode(wrapped_key)


@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_an_encrypted_file_is_refused_and_ends_no_process(tmp_path, plaintext_footer):
    path = tmp_path / "secret.parquet"
    schema = pa.schema([("text", pa.string()), ("other", pa.string())])
    configuration = pe.EncryptionConfiguration(
        footer_key="footer", column_keys={"column": ["text"]}, plaintext_footer=plaintext_footer
    )
    keys = pe.CryptoFactory(lambda _: OneKey())
    properties = keys.file_encryption_properties(pe.KmsConnectionConfig(), configuration)
    with pq.ParquetWriter(path, schema, encryption_properties=properties) as writer:
        writer.write_table(pa.table({"text": ["a"], "other": ["b"]}))
    ended = read_in_child(path)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"InputUnreadableError: {path}: cannot be read as Parquet at row 0: ")
    assert "crypt" in ended.stderr
