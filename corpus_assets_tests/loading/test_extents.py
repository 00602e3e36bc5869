import os
import subprocess
import sys
from dataclasses import replace

import pytest

from corpus_assets.errors import IndexMismatchError
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets.shards.records import ShardIndex
from corpus_assets_tests.loading.corpora import random_shards, write_corpus_of

LAYOUTS = pytest.mark.parametrize("layout", ["auto", "pieces"])


@pytest.fixture
def index(tmp_path):
    return write_corpus_of(tmp_path, random_shards([50, 5000]), chunk_size=64)


def _with_second(index, **changes):
    """The index with numbers of its second shard replaced, contiguous again, as an attacker would write it."""
    first, second = index.shards
    return ShardIndex.of([first, replace(second, **changes)], index.root)


@LAYOUTS
@pytest.mark.parametrize("offset", [-2, 2**62, 2**63 - 1, 2**70, 1, 10**9, 4096.0, "0"])
def test_an_extent_outside_its_file_is_refused(index, layout, offset):
    with pytest.raises(IndexMismatchError, match=r"shard s00001: its 5000 tokens begin at byte"):
        MmapTokenStore(_with_second(index, extents={"tokens": offset}), layout=layout)


@LAYOUTS
def test_one_byte_too_far_is_too_far(index, layout):
    last = index.shards[1].file_bytes - 10_000
    MmapTokenStore(_with_second(index, extents={"tokens": last}), layout=layout).close()
    with pytest.raises(IndexMismatchError, match=f"expected a multiple of 2 from 0 to {last}"):
        MmapTokenStore(_with_second(index, extents={"tokens": last + 2}), layout=layout)


@LAYOUTS
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"token_count": 2**61}, "its 2305843009213693952 tokens begin at byte"),
        ({"token_count": -1}, "shard s00001: token_count is -1"),
        ({"token_count": 2**62}, "shard s00001: token_count is 4611686018427387904"),
        ({"chunk_size": 0}, "shard s00001: chunk_size is 0"),
        ({"file_bytes": 2**40}, "s00001.h5: size is .* bytes, shards.json says 1099511627776"),
        ({"path": "/etc/passwd"}, "shard s00001: path is '/etc/passwd', expected one below the corpus root"),
        ({"path": "../s00001.h5"}, "path is '../s00001.h5'"),
        ({"path": ""}, "path is ''"),
        ({"path": "a\0b"}, "path is"),
        ({"path": "missing.h5"}, "missing.h5: No such file or directory"),
        ({"path": "."}, "path is '.'|not a regular file|size is"),
        ({"dtype": "uint32"}, "shards have dtypes uint16, uint32"),
    ],
)
def test_numbers_that_cannot_be_right_are_refused(index, layout, changes, message):
    with pytest.raises(IndexMismatchError, match=message):
        MmapTokenStore(_with_second(index, **changes), layout=layout)


def test_an_unknown_dtype_is_refused(index):
    strange = [replace(shard, dtype="float64") for shard in index.shards]
    with pytest.raises(IndexMismatchError, match="token dtype is float64"):
        MmapTokenStore(ShardIndex.of(strange, index.root))


def test_a_gap_between_shards_is_refused(index):
    first, second = index.shards
    shifted = ShardIndex(shards=(first, replace(second, global_start=51)), root=index.root)
    with pytest.raises(IndexMismatchError, match="shard s00001: global_start is 51, expected 50"):
        MmapTokenStore(shifted)


@LAYOUTS
@pytest.mark.parametrize("cut", [1, 4096, 9_000])
def test_a_truncated_file_is_refused(index, layout, cut):
    path = index.root / index.shards[1].path
    os.truncate(path, path.stat().st_size - cut)
    with pytest.raises(IndexMismatchError, match=r"s00001\.h5: size is"):
        MmapTokenStore(index, layout=layout)


@LAYOUTS
def test_a_fifo_in_place_of_a_shard_does_not_hang(index, layout):
    path = index.root / index.shards[1].path
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(IndexMismatchError, match="not a regular file"):
        MmapTokenStore(index, layout=layout)


def test_tokens_up_to_the_last_byte_of_a_file_can_be_read(tmp_path):
    """In a process of its own: were the mapping one page off, it would die of SIGBUS."""
    index = write_corpus_of(tmp_path, random_shards([40_000, 40_000]), chunk_size=64)
    moved = [replace(shard, extents={"tokens": shard.file_bytes - 80_000}) for shard in index.shards]
    from corpus_assets.shards.index import publish_index

    publish_index(ShardIndex.of(moved, tmp_path), tmp_path / "shards.json")
    code = (
        "import sys, numpy as np\n"
        "from corpus_assets.loading.store import MmapTokenStore\n"
        "store = MmapTokenStore(sys.argv[1])\n"
        "assert len(store.get_slice(0, 80_000)) == 80_000\n"
        "assert store.gather(np.arange(79_000), 1000).shape == (79_000, 1000)\n"
        "print('read')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "read\n"), done.stderr
    for shard in index.shards:
        tail = (tmp_path / shard.path).read_bytes()[-6:]
        with MmapTokenStore(tmp_path) as store:
            stop = 40_000 * (1 + index.shards.index(shard))
            assert store.get_slice(stop - 3, stop).tobytes() == tail
