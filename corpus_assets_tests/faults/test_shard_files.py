"""An HDF5 file written by an enemy: an error or a finding, in time, and nothing is read outside of it."""

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from corpus_assets import MmapTokenStore, load_index, validate_corpus
from corpus_assets.errors import CorpusError, ShardError
from corpus_assets.shards import hdf5_process
from corpus_assets.shards.contents import read_contents
from corpus_assets.shards.index import publish_index
from corpus_assets.shards.records import ShardIndex
from corpus_assets.shards.seal import frame_digest
from corpus_assets.shards.statistics import corpus_statistics
from corpus_assets_tests.faults.forging import forge_index, run_alone
from corpus_assets_tests.loading.corpora import random_shards, tokens_of, write_corpus_of

SHARDS = random_shards([2000, 1500])


@pytest.fixture(params=["none", "gzip", "lzf", "blosc2"])
def root(request, tmp_path):
    write_corpus_of(tmp_path / "corpus", SHARDS, compression=request.param, chunk_size=64)
    return tmp_path / "corpus"


@pytest.fixture
def plain(tmp_path):
    write_corpus_of(tmp_path / "corpus", SHARDS, chunk_size=64)
    return tmp_path / "corpus"


def vouch(root: Path) -> None:
    """Let shards.json say that its first shard's file is right as it is now."""
    first, *others = load_index(root).shards
    path = root / first.path
    forged = replace(
        first,
        file_bytes=path.stat().st_size,
        frame_sha256=frame_digest(path, first.data_offset, first.data_bytes),
    )
    publish_index(ShardIndex.of([forged, *others], root), root / "shards.json")


def checks_of(root: Path) -> set[str]:
    report = validate_corpus(root)
    assert report.failed_shards == ["s00000"]
    return {finding.check for finding in report.findings}


def hang_hdf5(path: Path) -> None:
    """Make an object in the heap of attributes longer than it is: HDF5 2.0 then looks for its end for ever."""
    raw = path.read_bytes()
    length_of_spans = raw.index(b"\2\0\0\0\0\0\0\0[]")
    path.write_bytes(raw[:length_of_spans] + b"\xc5" + raw[length_of_spans + 1 :])


LOOK = """
import sys
from corpus_assets.errors import ShardError
from corpus_assets.shards.contents import read_contents
try:
    read_contents(sys.argv[1], time_limit=1)
except ShardError as error:
    print(error)
"""


def test_a_file_on_which_hdf5_hangs_is_refused_in_time(plain):
    path = plain / load_index(plain).shards[0].path
    hang_hdf5(path)
    ended = run_alone(LOOK, path)
    assert "HDF5 gave no answer in 1 s: the file is damaged; expected a token shard" in ended.stdout


READ = """
import sys
from corpus_assets import MmapTokenStore
with MmapTokenStore(sys.argv[1]) as store:
    print(len(store.get_slice(0, 3500)), "h5py" in sys.modules)
"""


@pytest.mark.parametrize("codec", ["lzf", "blosc2"])
def test_filters_of_hdf5_decode_in_another_process_than_the_reader(tmp_path, codec):
    write_corpus_of(tmp_path, SHARDS, compression=codec, chunk_size=64)
    ended = run_alone(READ, tmp_path)
    assert ended.stdout == "3500 False\n", ended.stderr


def test_memory_behind_a_chunk_that_is_too_short_is_not_taken_for_tokens(tmp_path):
    """HDF5 does not compare what lzf gives with the size of a chunk, and reads on."""
    index = write_corpus_of(tmp_path, SHARDS, compression="lzf", chunk_size=64)
    with h5py.File(tmp_path / index.shards[0].path, "r+") as file:
        file["tokens"].id.write_direct_chunk((64,), b"\x1f" + b"a" * 32)
    vouch(tmp_path)
    with MmapTokenStore(tmp_path) as store:
        assert np.array_equal(store.get_slice(0, 64), tokens_of(SHARDS)[:64])
        with pytest.raises(ShardError, match=r"s00000\.h5: chunk 1 cannot be decoded: its crc32 is"):
            store.get_slice(0, 2000)


def test_validation_does_not_show_damaged_metadata_to_hdf5(plain):
    hang_hdf5(plain / load_index(plain).shards[0].path)
    assert checks_of(plain) == {"frame_digest"}
    with pytest.raises(ShardError, match="bytes outside the tokens changed"):
        corpus_statistics(load_index(plain))


def test_a_process_that_died_reading_one_file_reads_the_next(plain):
    first, second = (plain / shard.path for shard in load_index(plain).shards)
    hang_hdf5(first)
    with pytest.raises(ShardError, match="no answer"):
        read_contents(first, time_limit=1)
    assert read_contents(second).attributes["token_count"] == 1500


def hanging_question(path: Path, *, seconds: float) -> threading.Thread:
    """A thread that waits so long for HDF5, which hangs on the file at `path`; it has asked."""
    hang_hdf5(path)

    def wait() -> None:
        with pytest.raises(ShardError, match="no answer"):
            read_contents(path, time_limit=seconds)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while hdf5_process._children.idle.full():
        pass
    return waiting


@pytest.mark.skipif(os.cpu_count() == 1, reason="HDF5 has a process a core")
def test_a_file_on_which_hdf5_hangs_does_not_keep_another_thread_waiting(plain):
    first, second = (plain / shard.path for shard in load_index(plain).shards)
    waiting = hanging_question(first, seconds=5)
    assert read_contents(second).attributes["token_count"] == 1500
    assert waiting.is_alive()
    waiting.join()


INTERRUPT = """
import signal, sys
from corpus_assets.shards.contents import read_contents
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.alarm(1)
try:
    read_contents(sys.argv[1])
except KeyboardInterrupt:
    print("interrupted")
print(read_contents(sys.argv[2]).attributes["token_count"])
"""


def test_after_an_interruption_the_next_question_has_its_own_answer(plain):
    first, second = (plain / shard.path for shard in load_index(plain).shards)
    hang_hdf5(first)
    ended = run_alone(INTERRUPT, first, second, seconds=20)
    assert ended.stdout == "interrupted\n1500\n", ended.stderr


ASK_AND_BE_KILLED = """
import glob, os, signal, sys, threading, time
from corpus_assets.shards.contents import read_contents
threading.Thread(target=read_contents, args=sys.argv[1:], kwargs={"time_limit": 1}, daemon=True).start()
while not (children := "".join(open(path).read() for path in glob.glob("/proc/self/task/*/children"))):
    time.sleep(0.01)
time.sleep(0.1)
print(children, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_hanging_process_ends_though_whoever_asked_it_was_killed(plain):
    first = plain / load_index(plain).shards[0].path
    hang_hdf5(first)
    child = int(run_alone(ASK_AND_BE_KILLED, first).stdout)
    deadline = time.monotonic() + 20
    while (runs := _runs(child)) and time.monotonic() < deadline:
        time.sleep(0.1)
    if runs:
        os.kill(child, signal.SIGKILL)
    assert not runs


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_asks_a_process_of_its_own_while_its_parent_waits_for_an_answer(plain):
    first, second = (plain / shard.path for shard in load_index(plain).shards)
    waiting = hanging_question(first, seconds=2)
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a child that hangs fails the test
        os._exit(0 if read_contents(second).attributes["token_count"] == 1500 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    waiting.join()


def link_outside(file: h5py.File, outside: Path) -> None:
    del file["tokens"]
    file["tokens"] = h5py.ExternalLink(str(outside), "tokens")


def link_inside(file: h5py.File, _: Path) -> None:
    file.move("tokens", "elsewhere")
    file["tokens"] = h5py.SoftLink("/elsewhere")


def store_outside(file: h5py.File, outside: Path) -> None:
    del file["tokens"]
    file.create_dataset("tokens", (2000,), "<u2", external=[(str(outside), 0, 4000)])


def assemble_from_outside(file: h5py.File, outside: Path) -> None:
    del file["tokens"]
    layout = h5py.VirtualLayout((2000,), "<u2")
    layout[:] = h5py.VirtualSource(str(outside), "tokens", shape=(2000,))
    file.create_virtual_dataset("tokens", layout)


def a_group(file: h5py.File, _: Path) -> None:
    del file["tokens"]
    file.create_group("tokens")


def nothing(file: h5py.File, _: Path) -> None:
    del file["tokens"]


def two_dimensions(file: h5py.File, _: Path) -> None:
    del file["tokens"]
    file.create_dataset("tokens", (2000, 1), "<u2", chunks=(64, 1))


def texts(file: h5py.File, _: Path) -> None:
    del file["tokens"]
    file.create_dataset("tokens", (2000,), h5py.string_dtype(), chunks=(64,))


def big_endian(file: h5py.File, _: Path) -> None:
    del file["tokens"]
    file.create_dataset("tokens", (2000,), ">u2", chunks=(64,))


def no_chunk_stored(file: h5py.File, _: Path) -> None:
    del file["tokens"]
    file.create_dataset("tokens", (2000,), "<u2", chunks=(64,)).attrs["token_count"] = 2000


def ends_of_another_type(file: h5py.File, _: Path) -> None:
    count = len(file["document_ends"])
    del file["document_ends"]
    file.create_dataset("document_ends", (count,), "f8", chunks=(64,))


def ends_outside(file: h5py.File, outside: Path) -> None:
    count = len(file["document_ends"])
    del file["document_ends"]
    file.create_dataset("document_ends", (count,), "i8", external=[(str(outside), 0, 8 * count)])


FORGERIES = [
    link_outside,
    link_inside,
    store_outside,
    assemble_from_outside,
    a_group,
    nothing,
    two_dimensions,
    texts,
    big_endian,
    no_chunk_stored,
    ends_of_another_type,
    ends_outside,
]


@pytest.mark.parametrize("forge", FORGERIES)
def test_a_dataset_that_is_not_in_its_file_is_a_finding_and_is_never_read(root, tmp_path, forge):
    """The secret is a whole shard beside the corpus, or any other file."""
    secret = write_corpus_of(tmp_path / "secret", [[[9] * 1999]], chunk_size=64)
    with h5py.File(root / load_index(root).shards[0].path, "r+") as file:
        forge(file, tmp_path / "secret" / secret.shards[0].path)
    assert checks_of(root) == {"file"} or checks_of(root) == {"frame_digest"}
    vouch(root)
    assert checks_of(root) & {"format", "dtype", "chunk_size", "extents"}
    try:
        with MmapTokenStore(root) as store:
            found = store.get_slice(0, 2000)
    except CorpusError:
        return
    # What is read at the recorded place is the old tokens, or what now stands there.
    assert np.count_nonzero(found == 9) < 1000


@pytest.mark.parametrize(
    "forge", [link_outside, link_inside, store_outside, assemble_from_outside, ends_outside, nothing]
)
def test_inspecting_does_not_follow_what_leads_out_of_the_file(root, tmp_path, forge):
    secret = write_corpus_of(tmp_path / "secret", [[[9] * 1999]], chunk_size=64)
    path = root / load_index(root).shards[0].path
    with h5py.File(path, "r+") as file:
        forge(file, tmp_path / "secret" / secret.shards[0].path)
    with pytest.raises(ShardError, match=r"(no dataset `tokens`|is not a row of chunks in this file)"):
        read_contents(path, documents=3, tokens=100)


def test_a_chunk_size_that_lies_is_a_finding(plain):
    forge_index(plain, lambda document: document["shards"][0].update(chunk_size=128))
    assert checks_of(plain) == {"chunk_size"}


ENDLESS = """
import sys, h5py
from dataclasses import replace
from pathlib import Path
from corpus_assets import load_index, validate_corpus
from corpus_assets.shards.index import publish_index
from corpus_assets.shards.records import ShardIndex
from corpus_assets.shards.seal import frame_digest
root, count = Path(sys.argv[1]), 2**45
first, second = load_index(root).shards
with h5py.File(root / first.path, "r+") as file:
    del file["tokens"]
    file.create_dataset("tokens", (count,), "<u2", chunks=(64,), maxshape=(None,), compression="gzip")
    file["tokens"].attrs["token_count"] = file.attrs["token_count"] = count
forged = replace(
    first, token_count=count, extents={}, data_offset=0, data_bytes=0, compression="gzip",
    file_bytes=(root / first.path).stat().st_size, frame_sha256=frame_digest(root / first.path, 0, 0),
    data_sha256="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
)
publish_index(ShardIndex.of([forged, second], root), root / "shards.json")
print({finding.check for finding in validate_corpus(root).findings})
"""


def test_tokens_that_are_counted_and_not_stored_are_a_finding_at_once(plain):
    """Read as zeros, they would take for ever."""
    ended = run_alone(ENDLESS, plain)
    assert ended.stdout.strip() == "{'chunk_size'}", ended.stderr


def forge_ends(root: Path, values) -> None:
    with h5py.File(root / load_index(root).shards[0].path, "r+") as file:
        file["document_ends"][: len(values)] = values
    vouch(root)


@pytest.mark.parametrize("values", [[-1], [2**62], [0], [5, 5], [7, 3], [-(2**63)] * 3])
def test_document_ends_that_lie_are_findings_and_errors(root, values):
    forge_ends(root, values)
    assert checks_of(root) & {"boundaries", "document_ends"}
    with MmapTokenStore(root) as store:
        for position in range(0, 200, 7):
            try:
                found = store.document_at(position)
            except ShardError:
                continue
            assert found.start <= position < found.stop <= 2000
    with pytest.raises(ShardError, match="its document ends do not increase"):
        corpus_statistics(load_index(root))
    with pytest.raises(ShardError, match="a document ends at"):
        read_contents(root / load_index(root).shards[0].path, documents=5, tokens=5)


def test_a_link_that_leads_out_of_the_corpus_is_not_followed(root, tmp_path):
    path = root / load_index(root).shards[0].path
    path.rename(tmp_path / "outside.h5")
    path.symlink_to(tmp_path / "outside.h5")
    assert checks_of(root) == {"file"}
    with (
        pytest.raises(CorpusError, match="is a link that leads out of the corpus"),
        MmapTokenStore(root) as store,
    ):
        store.get_slice(0, 1)


def test_a_link_inside_the_corpus_is_followed(root):
    path = root / load_index(root).shards[0].path
    path.rename(root / "moved.h5")
    path.symlink_to("moved.h5")
    assert validate_corpus(root).ok
    with MmapTokenStore(root) as store:
        assert np.array_equal(store.get_slice(0, 3500), tokens_of(SHARDS))


@pytest.mark.parametrize("size", [0, None])
def test_a_pipe_in_place_of_a_shard_is_a_finding(root, size):
    path = root / load_index(root).shards[0].path
    path.unlink()
    os.mkfifo(path)
    if size is not None:
        forge_index(root, lambda document: document["shards"][0].update(file_bytes=0))
    assert checks_of(root) == {"file"}
    with pytest.raises(OSError, match="not a regular file"):
        read_contents(path)


def test_an_attribute_that_is_not_what_it_was_is_shown_in_one_line(plain):
    with h5py.File(plain / load_index(plain).shards[0].path, "r+") as file:
        file.attrs["input_name"] = "\x1b[2J<script>\n" * 3000
        file.attrs["complete"] = np.zeros((3, 3))
        file.attrs["key"] = np.float64("nan")
        file.attrs["build"] = h5py.Empty("f8")
        file.attrs["fields"] = b"\xff"
    vouch(plain)
    report = validate_corpus(plain)
    assert {finding.check for finding in report.findings} >= {"attributes"}
    assert all(finding.message.isprintable() and len(finding.message) < 1000 for finding in report.findings)
