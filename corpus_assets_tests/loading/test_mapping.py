import gc
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from corpus_assets.loading import mapping
from corpus_assets.loading.mapping import mappings_left
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets.shards.records import ShardIndex
from corpus_assets_tests.loading.corpora import random_shards, tokens_of, write_corpus_of


def _mappings_of(root):
    return sum(str(root) in line for line in Path("/proc/self/maps").read_text().splitlines())


@pytest.mark.parametrize("layout", ["flat", "pieces"])
def test_close_gives_every_mapping_back(tmp_path, layout):
    write_corpus_of(tmp_path, random_shards([50, 50, 0, 50]))
    store = MmapTokenStore(tmp_path, layout=layout)
    kept = store.gather([0, 40, 70], 80)
    assert _mappings_of(tmp_path) == 3
    store.close()
    gc.collect()
    assert _mappings_of(tmp_path) == 0
    assert kept.sum() > 0


def test_extents_need_not_begin_at_a_page(tmp_path):
    shards = random_shards([700, 900, 33])
    index = write_corpus_of(tmp_path, shards)
    moved = []
    for number, shard in enumerate(index.shards):
        path = tmp_path / shard.path
        offset, size = shard.extents["tokens"], shard.token_count * 2
        tokens = path.read_bytes()[offset : offset + size]
        start = 4096 * number + 2 * (number + 1) * 333
        path.write_bytes(b"\xff" * start + tokens)
        moved.append(replace(shard, extents={"tokens": start}, file_bytes=start + size))
    flat = tokens_of(shards)
    with MmapTokenStore(ShardIndex.of(moved, tmp_path), layout="flat") as store:
        assert np.array_equal(store.get_slice(0, 1633), flat)
        starts = np.arange(1633 - 800)
        assert np.array_equal(store.gather(starts, 800), np.stack([flat[i : i + 800] for i in starts]))


def test_closing_while_another_thread_reads_is_harmless(tmp_path):
    shards = random_shards([5000, 5000])
    write_corpus_of(tmp_path, shards, chunk_size=1024)
    flat = tokens_of(shards)
    starts = np.arange(9000)
    for _ in range(5):
        store = MmapTokenStore(tmp_path, layout="flat")
        begun, seen = threading.Event(), []

        def read(store=store, begun=begun, seen=seen):
            try:
                while True:
                    rows = store.gather(starts, 1000)
                    seen.append(bool((rows[8999] == flat[8999:9999]).all()))
                    begun.set()
            except ValueError as error:
                seen.append("closed" in str(error))

        thread = threading.Thread(target=read)
        thread.start()
        begun.wait()
        store.close()
        thread.join()
        assert all(seen)


def test_too_many_shards_for_the_kernel_fall_back_with_a_message(tmp_path, caplog, monkeypatch):
    shards = random_shards([50, 0, 50, 50])
    write_corpus_of(tmp_path, shards)
    limit = tmp_path / "max_map_count"
    used = len(Path("/proc/self/maps").read_text().splitlines())
    limit.write_text(f"{used + 1002}\n")
    monkeypatch.setattr(mapping, "_MAX_MAP_COUNT", limit)
    assert mappings_left() in range(4)
    limit.write_text("1000\n")
    with MmapTokenStore(tmp_path) as store:
        assert np.array_equal(store.get_slice(0, 150), tokens_of(shards))
    assert "needs 3 memory mappings and this process may make 0 more: vm.max_map_count" in caplog.text
    with pytest.raises(ValueError, match="layout is flat, but the corpus needs 3 memory mappings"):
        MmapTokenStore(tmp_path, layout="flat")


@pytest.mark.parametrize("layout", ["flat", "pieces"])
@pytest.mark.parametrize("access", ["random", "sequential", "normal"])
def test_advice_changes_nothing_but_speed(tmp_path, layout, access):
    shards = random_shards([50, 60])
    write_corpus_of(tmp_path, shards)
    with MmapTokenStore(tmp_path, layout=layout) as store:
        store.advise(access)
        assert np.array_equal(store.get_slice(0, 110), tokens_of(shards))


def test_few_mappings_are_held_at_a_time(tmp_path):
    from corpus_assets.loading.extents import token_files
    from corpus_assets.loading.piecewise import PiecewiseReader

    shards = random_shards([20] * 8)
    index = write_corpus_of(tmp_path, shards)
    dtype = np.dtype("<u2")
    reader = PiecewiseReader(token_files(index, dtype), dtype, threads=1, cache_bytes=0, max_open_mappings=2)
    assert np.array_equal(reader.read(0, 160), tokens_of(shards))
    assert _mappings_of(tmp_path) == 2
