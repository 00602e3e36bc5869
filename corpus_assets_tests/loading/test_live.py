import subprocess
import sys

import numpy as np
import pytest

from corpus_assets.errors import ShardError
from corpus_assets.loading.live import LiveTokenReader, growing_shards
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets.shards import layout

WRITER = """
import sys
import numpy as np
from pathlib import Path
from corpus_assets.shards.index import publish_index
from corpus_assets.shards.records import ShardIndex
from corpus_assets.shards.writer import HDF5ShardWriter

root = Path(sys.argv[1])
with HDF5ShardWriter(root / "a.h5", chunk_size=64, compression=sys.argv[3]) as writer:
    print(writer.growing_path, flush=True)
    for document in range(int(sys.argv[2])):
        if document % 10 == 0:
            sys.stdin.readline()
        writer.add_document(np.full(41, 1 + document % 200))
        writer.add_boundary()
        if document % 10 == 9:
            print(writer.token_count, flush=True)
    publish_index(ShardIndex.of([writer.close()], root), root / "shards.json")
print("sealed", flush=True)
"""


def _expected(start, stop):
    position = np.arange(start, stop)
    return np.where(position % 42 == 41, 0, 1 + position // 42 % 200)


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd-dict"])
def test_a_reader_follows_a_writer_in_another_process(tmp_path, codec):
    command = [sys.executable, "-c", WRITER, str(tmp_path), "300", codec]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        growing = writer.stdout.readline().strip()
        assert [str(path) for path in growing_shards(tmp_path)] == [growing]
        with LiveTokenReader(growing) as reader:
            assert (len(reader), reader.dtype) == (0, np.uint16)
            for _ in range(30):
                writer.stdin.write("\n")
                writer.stdin.flush()
                _read_what_is_new(reader)  # while the writer writes
                written = int(writer.stdout.readline())
                _read_what_is_new(reader)
                assert written - 64 < len(reader) <= written  # whole chunks have been flushed
            assert writer.stdout.readline() == "sealed\n"
            assert reader.refresh() == 300 * 42
            assert growing_shards(tmp_path) == []
            with MmapTokenStore(tmp_path) as store:
                assert np.array_equal(reader.get_slice(0, 12_600), store.get_slice(0, 12_600))


def _read_what_is_new(reader):
    before = len(reader)
    now = reader.refresh()
    assert now >= before
    assert np.array_equal(reader.get_slice(before, now), _expected(before, now))


@pytest.mark.parametrize(("written", "visible"), [(0, 0), (64, 64), (128, 128)])
def test_tokens_that_are_not_written_are_not_shown(tmp_path, written, visible):
    path = tmp_path / "a.growing.h5"
    with layout.create_file(path, [128], chunk_count=4) as file:
        tokens = layout.create_dataset(file, "tokens", np.dtype(np.uint16), chunk=64)
        tokens.resize((200,))
        tokens[:written] = np.arange(1, written + 1)
    with LiveTokenReader(path) as reader:
        assert len(reader) == visible
        assert reader.get_slice(0, visible).tolist() == list(range(1, visible + 1))
        with pytest.raises(IndexError, match=rf"slice is \[0, {visible + 1}\), expected .* <= {visible}"):
            reader.get_slice(0, visible + 1)


def test_what_is_no_growing_shard_is_refused(tmp_path):
    path = tmp_path / "a.growing.h5"
    with pytest.raises(ShardError, match=r"a\.growing\.h5: not a shard that is being written"):
        LiveTokenReader(path)
    path.write_bytes(b"no HDF5")
    with pytest.raises(ShardError, match=r"a\.growing\.h5: not a shard that is being written"):
        LiveTokenReader(path)
