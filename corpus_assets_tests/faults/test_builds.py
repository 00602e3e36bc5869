"""Builds from start to end on the inputs that people have, and what is left when one is killed."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import h5py
import numpy as np
import pytest

from corpus_assets import (
    ByteTokenizer,
    HDF5ShardWriter,
    MmapTokenStore,
    tokenize_jsonl_path,
    validate_corpus,
    write_corpus,
)
from corpus_assets.config import parse_corpus
from corpus_assets.errors import CorpusError, InputError
from corpus_assets.loading.live import LiveTokenReader
from corpus_assets.shards.contents import read_contents
from corpus_assets.shards.index import write_index
from corpus_assets.shards.lease import clear_stale
from corpus_assets.shards.manifest import observe_inputs
from corpus_assets.shards.pipeline import ShardedTokenizationPipeline
from corpus_assets.shards.statistics import corpus_statistics
from corpus_assets.tokenizers.protocol import tokenizer_fingerprint
from corpus_assets_tests.conftest import write_jsonl
from corpus_assets_tests.faults.forging import run_alone


def texts_of(root: Path) -> list[str]:
    """All documents of a corpus of bytes, found through document_at alone."""
    texts, position = [], 0
    with MmapTokenStore(root) as store:
        while position < len(store):
            document = store.document_at(position)
            assert document.start == position
            texts.append(ByteTokenizer().decode(store.get_slice(document.start, document.stop - 1).tolist()))
            position = document.stop
    return texts


def test_nothing_in_front_between_and_behind_shifts_no_document(tmp_path):
    contents = {
        "a.jsonl": b"",
        "b.jsonl": b"\n\n \n",
        "c.jsonl": b'{"text": ""}\n{"text": "one"}\n{"text": ""}\n',
        "d.jsonl": b'\xef\xbb\xbf{"text": "two"}\r\n\r\n{"text": "three\\u0000"}',
        "e.jsonl.gz": gzip.compress(b""),
        "f.jsonl.gz": gzip.compress(b'{"text": "fo') + gzip.compress(b'ur"}\n{"text": ""}'),
    }
    (tmp_path / "input").mkdir()
    for name, content in contents.items():
        (tmp_path / "input" / name).write_bytes(content)
    index = write_corpus(tmp_path / "input", tmp_path / "corpus", workers=1)
    assert texts_of(tmp_path / "corpus") == ["", "one", "", "two", "three\0", "four", ""]
    assert [shard.document_count for shard in index.shards] == [0, 0, 3, 2, 0, 2]
    assert [shard.ledger.blank for shard in index.shards] == [0, 3, 0, 1, 0, 0]
    assert validate_corpus(tmp_path / "corpus").ok
    with MmapTokenStore(tmp_path / "corpus") as store:
        assert [store.document_at(i).row for i in (0, 1, 5, 6)] == [0, 1, 2, 0]


def test_one_document_larger_than_every_buffer_is_one_document(tmp_path):
    giant = "x" * 3_000_000
    write_jsonl(tmp_path / "input" / "a.jsonl", ["a", giant, "b"])
    index = write_corpus(tmp_path / "input", tmp_path / "corpus", workers=1, chunk_size=1024)
    assert texts_of(tmp_path / "corpus") == ["a", giant, "b"]
    assert index.token_count == 3_000_000 + 2 + 3


CONTENTS = {
    "cut.jsonl.gz": (gzip.compress(b'{"text": "x"}\n' * 1000)[:-9], "cut: the file ends at byte"),
    "dead.parquet": (b"PAR1" + b"\0" * 100, "cannot be read as Parquet"),
    "notes.txt": (b"hello", "unknown extension"),
    "other.jsonl": (b'{"content": "x"}\n' * 5, r"none of 5 rows is a document \(5 × missing_text\)"),
    "wide.jsonl": ('{"text": "x"}\n'.encode("utf-16"), "found UTF-16"),
    "array.json": (b'[{"text": "x"},\n {"text": "y"}]', "found one JSON array"),
    "text.jsonl.gz": (b'{"text": "x"}\n', "expected the start of the first gzip member"),
    "binary.jsonl": (bytes(range(256)) * 10, "is a document"),
}


def test_every_file_that_is_no_input_fails_by_name_and_stops_no_other(tmp_path):
    write_jsonl(tmp_path / "input" / "good.jsonl", ["good"])
    for name, (content, _) in CONTENTS.items():
        (tmp_path / "input" / name).write_bytes(content)
    os.mkfifo(tmp_path / "input" / "pipe.jsonl")
    (tmp_path / "input" / "out.jsonl").symlink_to("/etc/passwd")
    with pytest.raises(InputError) as caught:
        write_corpus(tmp_path / "input", tmp_path / "corpus", workers=2)
    message = str(caught.value)
    assert message.startswith(f"{len(CONTENTS) + 2} of {len(CONTENTS) + 3} input shards failed:")
    for name, (_, reason) in CONTENTS.items():
        (line,) = [line for line in message.splitlines() if name in line.split(": ")[0]]
        assert re.search(reason, line), line
    assert "is a device, pipe or socket" in message
    assert "is a link that leads out of the input folder" in message
    assert [path.name for path in (tmp_path / "corpus" / "shards").glob("*.json")] == ["good.jsonl.json"]


KILLED = """
import os, signal, sys
from corpus_assets import HDF5ShardWriter
writer = HDF5ShardWriter(sys.argv[1], chunk_size=256)
for _ in range(20):
    writer.add_document(range(1, 100))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_writer_leaves_is_progress_and_never_data(tmp_path):
    assert run_alone(KILLED, tmp_path / "shards" / "a.h5").returncode == -signal.SIGKILL
    (left,) = tmp_path.rglob("*.growing.h5")
    with LiveTokenReader(left) as reader:
        assert len(reader) == 1792
    assert list(tmp_path.rglob("a.h5")) == []
    # Even where somebody puts it in a shard's place.
    write_jsonl(tmp_path / "input" / "a.jsonl", ["x"])
    index = write_corpus(tmp_path / "input", tmp_path / "corpus", workers=1)
    shutil.copy(left, index.root / index.shards[0].path)
    assert validate_corpus(index.root).failed_shards == ["a.jsonl"]
    with pytest.raises(CorpusError), MmapTokenStore(index.root) as store:
        store.get_slice(0, 1)
    clear_stale(tmp_path / "shards", stale_after=-1)
    assert not list((tmp_path / "shards").rglob("*.growing.h5"))


def test_a_shard_without_its_last_mark_is_a_finding(tmp_path):
    from dataclasses import replace

    from corpus_assets.shards.index import publish_index
    from corpus_assets.shards.records import ShardIndex
    from corpus_assets.shards.seal import frame_digest

    write_jsonl(tmp_path / "input" / "a.jsonl", ["x"])
    index = write_corpus(tmp_path / "input", tmp_path / "corpus", workers=1)
    (info,) = index.shards
    path = index.root / info.path
    with h5py.File(path, "r+") as file:
        del file.attrs["complete"]
    digest = frame_digest(path, info.data_offset, info.data_bytes)
    forged = replace(info, frame_sha256=digest, file_bytes=path.stat().st_size)
    publish_index(ShardIndex.of([forged], index.root), index.root / "shards.json")
    assert {finding.check for finding in validate_corpus(index.root).findings} == {"complete"}


def test_ids_are_refused_where_hdf5_would_clamp_and_numpy_would_wrap(tmp_path):
    for ids in (np.array([70_000]), [70_000], np.array([-1]), np.array([2**63], np.uint64), [1.0], [True]):
        with (
            pytest.raises(ValueError, match="document 0"),
            HDF5ShardWriter(tmp_path / "a.h5", tokenizer=ByteTokenizer()) as writer,
        ):
            writer.add_document(ids)
    assert not (tmp_path / "a.h5").exists()


def test_totals_are_those_of_all_shards_after_one_was_rebuilt(tmp_path):
    for name in "abc":
        write_jsonl(tmp_path / "input" / f"{name}.jsonl", ["12345"] * 10)
    write_corpus(tmp_path / "input", tmp_path / "corpus", workers=1)
    write_jsonl(tmp_path / "input" / "b.jsonl", ["1"] * 3)
    config = parse_corpus("c", {"input": "input", "root": "corpus"}, base=tmp_path, where="test")
    manifest = observe_inputs(config)
    list(ShardedTokenizationPipeline(config, workers=1).run([manifest["b.jsonl"]]))
    index = write_index(config.root, manifest.keys)
    assert (index.document_count, index.token_count) == (23, 20 * 6 + 3 * 2)
    assert index.ledger.rows == 23
    found = corpus_statistics(index)
    assert (found.document_count, found.token_count, found.shard_count) == (23, 126, 3)
    assert sum(found.histogram_counts) == 23


def test_a_file_beside_a_folder_of_its_name_and_names_that_look_like_keys_stay_apart(tmp_path):
    names = ["a.jsonl", "a/b.jsonl", "a__2Fb.jsonl", "a b,c[d].jsonl", "a__b.jsonl", "A.jsonl", "a.jsonl.gz"]
    for name in names:
        path = write_jsonl(tmp_path / "input" / name, [name])
        if name.endswith(".gz"):
            path.write_bytes(gzip.compress(path.read_bytes()))
    index = write_corpus(tmp_path / "input", tmp_path / "corpus", workers=2)
    assert len({shard.key.lower() for shard in index.shards}) == len(names) - 1  # `A.jsonl` and `a.jsonl`
    assert sorted(texts_of(tmp_path / "corpus")) == sorted(names)


def test_a_library_that_encodes_otherwise_makes_another_fingerprint():
    """The ids of the canary are part of it: an upgrade that changes them makes every shard stale."""
    assert tokenizer_fingerprint("same file", 0, (1, 2, 3)) != tokenizer_fingerprint("same file", 0, (1, 23))
    assert tokenizer_fingerprint("same file", 0, (1, 2)) == tokenizer_fingerprint("same file", 0, [1, 2])


def test_every_row_of_every_shard_is_accounted_for(tmp_path):
    """rows = documents + blank + rejected; boundaries = documents; tokens = last end; windows × stride + tail."""
    from corpus_assets.loading.windows import num_windows, tail_tokens

    lines = [b'{"text": "ab"}', b"", b"{", b'{"text": null}', b'{"text": "\xff"}', b'{"text": ""}', b"  "]
    (tmp_path / "input").mkdir()
    for number in range(1, 5):
        content = b"\n".join(lines[number % 7 :] * number)
        (tmp_path / "input" / f"{number}.jsonl").write_bytes(content)
    index = write_corpus(tmp_path / "input", tmp_path / "corpus", workers=1, max_reject_fraction=0.9)
    with MmapTokenStore(index) as store:
        ids = store.get_slice(0, len(store))
    for shard, start in zip(index.shards, [s.global_start for s in index.shards], strict=True):
        ledger = shard.ledger
        raw = (tmp_path / "input" / shard.input_name).read_bytes()
        assert ledger.rows == len(raw.split(b"\n")) == ledger.documents + ledger.blank + ledger.rejected_count
        tokens = ids[start : start + shard.token_count]
        assert np.count_nonzero(tokens == 0) == shard.document_count == ledger.documents
        with h5py.File(index.root / shard.path) as file:
            ends = [0, *file["document_ends"][:].tolist()]
        assert ends[-1] == shard.token_count
        assert all(
            tokens[stop - 1] == 0 and 0 not in tokens[first : stop - 1] for first, stop in pairwise(ends)
        )
    for window_size in (1, 3, 8):
        for stride in range(1, window_size + 1):
            sizes = {"window_size": window_size, "stride": stride}
            windows, tail = num_windows(len(ids), **sizes), tail_tokens(len(ids), **sizes)
            assert windows * stride + tail == len(ids)


def test_a_file_that_comes_back_as_it_was_needs_no_build(tmp_path):
    write_jsonl(tmp_path / "input" / "a.jsonl", ["a"])
    path = write_jsonl(tmp_path / "input" / "b.jsonl", ["b"])
    both = write_corpus(tmp_path / "input", tmp_path / "corpus", workers=1)
    content = path.read_bytes()
    path.unlink()
    assert write_corpus(tmp_path / "input", tmp_path / "corpus", workers=1).document_count == 1
    path.write_bytes(content)
    outcomes = []
    again = write_corpus(tmp_path / "input", tmp_path / "corpus", workers=1, on_outcome=outcomes.append)
    assert again == both
    assert [outcome.reused for outcome in outcomes] == [True, True]


BOMB = """
import resource, sys
from corpus_assets import tokenize_jsonl_path
from corpus_assets.errors import InputError
try:
    tokenize_jsonl_path(sys.argv[1], sys.argv[2])
except InputError as error:
    print(error)
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(peak.split()[1]) // 1024)
"""


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_a_bomb_of_one_line_is_one_reject_in_flat_memory(tmp_path, kind):
    """300 KB that unpack to 300 MB, a line of white space longer than a line may be."""
    import zstandard

    path = tmp_path / f"bomb.jsonl.{kind}"
    raw = b"x" * 300_000_000
    path.write_bytes(gzip.compress(raw, 6) if kind == "gz" else zstandard.compress(raw))
    ended = run_alone(BOMB, path, tmp_path / "out.h5")
    error, peak = ended.stdout.splitlines()
    assert "none of 1 rows is a document (1 × line_too_long)" in error
    assert int(peak) < 350


def test_a_bomb_of_bad_rows_fails_its_partition_before_it_fills_the_disk(tmp_path):
    write_jsonl(tmp_path / "input" / "fine.jsonl", ["x"])
    (tmp_path / "input" / "bomb.jsonl.gz").write_bytes(gzip.compress(b"not json\n" * 1_000_000))
    with pytest.raises(
        InputError, match=r"bomb\.jsonl\.gz: up to row \d+ the rejects fill more than the 50000 b"
    ):
        write_corpus(
            tmp_path / "input",
            tmp_path / "corpus",
            workers=2,
            max_reject_fraction=1,
            max_quarantine_bytes=50_000,
        )
    (rejects,) = (tmp_path / "corpus" / "quarantine").iterdir()
    rows = [json.loads(line)["row"] for line in rejects.read_bytes().splitlines()]
    assert rejects.stat().st_size <= 50_000
    assert rows == list(range(len(rows)))
    assert [path.name[:5] for path in (tmp_path / "corpus" / "shards").glob("*.h5")] == ["fine."]


def test_one_call_makes_a_shard_that_says_what_it_is(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", ["x", "y"])
    info = tokenize_jsonl_path(path, tmp_path / "out.h5")
    assert read_contents(tmp_path / "out.h5").attributes["sha256"] == info.sha256
    assert json.loads(read_contents(tmp_path / "out.h5").attributes["ledger"])["documents"] == 2


STORE_EVENTS = """
import sys
import dagster as dg
from pathlib import Path
from corpus_assets.defs.home import open_instance
with open_instance(Path(sys.argv[1])) as instance:
    for number in range(5):
        key = f"{sys.argv[2]}-{number}"
        instance.add_dynamic_partitions("keys", [key])
        instance.report_runless_asset_event(dg.AssetMaterialization("shards", partition=key))
    print(len(instance.get_materialized_partitions(dg.AssetKey("shards"))))
"""


def test_the_shipped_settings_let_many_processes_write_their_events(tmp_path):
    """On SQLite, without `database is locked`."""
    from corpus_assets.defs.home import TEMPLATE

    (tmp_path / "dagster.yaml").write_bytes(TEMPLATE.read_bytes())
    writers = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", STORE_EVENTS, str(tmp_path), str(number)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    results = [writer.communicate() for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * 3, results
    assert max(int(out) for out, _ in results) == 15


def test_a_corpus_inside_its_input_folder_is_no_input_of_itself(tmp_path):
    write_jsonl(tmp_path / "input" / "a.jsonl", ["text"])
    first = write_corpus(tmp_path / "input", tmp_path / "input" / "built" / "corpus", workers=1)
    again = write_corpus(tmp_path / "input", tmp_path / "input" / "built" / "corpus", workers=1)
    matched = write_corpus(f"{tmp_path}/input/**", tmp_path / "other", workers=1)
    assert [shard.key for shard in first.shards] == ["a.jsonl"]
    assert first.fingerprint == again.fingerprint == matched.fingerprint
