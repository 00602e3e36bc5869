"""A corpus is rebuilt, indexed and cleaned up while trainers read it."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

from corpus_assets import MmapTokenStore, SlidingWindowDataloader, load_index, validate_corpus, write_corpus
from corpus_assets.errors import StateMismatchError
from corpus_assets.shards.gc import find_garbage, remove_garbage
from corpus_assets_tests.conftest import write_jsonl

NAMES = ["a.jsonl", "b.jsonl", "c.jsonl"]


def write_version(tmp_path, version: int):
    """A corpus whose documents all say which version they are of."""
    for name in NAMES:
        write_jsonl(tmp_path / "input" / name, [f"version {version} of {name}" * (version + 1)] * 200)
    compression = "gzip" if version % 3 == 2 else "none"
    return write_corpus(
        tmp_path / "input", tmp_path / "corpus", workers=1, chunk_size=1024, compression=compression
    )


def clean_up(root):
    garbage = find_garbage(root)
    remove_garbage(root, garbage, stale_after=0)
    return garbage


@pytest.mark.parametrize("first", [0, 2])
def test_an_open_store_reads_its_generation_byte_for_byte_while_others_come_and_go(tmp_path, first):
    write_version(tmp_path, first)
    root = tmp_path / "corpus"
    with MmapTokenStore(root) as store:
        expected = store.get_slice(0, len(store))
        failures, rounds, stop = [], [], threading.Event()

        def read() -> None:
            generator = np.random.default_rng(0)
            while not stop.is_set():
                starts = generator.integers(0, len(expected) - 50, 64)
                found = store.gather(starts, 50)
                if not all(
                    np.array_equal(row, expected[i : i + 50]) for row, i in zip(found, starts, strict=True)
                ):
                    failures.append(starts)
                rounds.append(1)

        reader = threading.Thread(target=read)
        reader.start()
        for version in (first + 1, first + 2):
            write_version(tmp_path, version)
            clean_up(root)
            assert validate_corpus(root).ok
        stop.set()
        reader.join()
        assert rounds
        assert not failures
        assert np.array_equal(store.get_slice(0, len(store)), expected)
        where = store.document_at(100)
        assert (where.shard, where.row) == ("a.jsonl", store.document_at(where.start).row)
        # Of the generations between nobody reads, nothing is left: the first and the last have three shards each.
        assert len(list((root / "shards").glob("*.h5"))) == 6
    assert len(clean_up(root)) == 3
    assert len(list((root / "shards").glob("*.h5"))) == 3


def test_two_stores_read_two_generations(tmp_path):
    write_version(tmp_path, 0)
    root = tmp_path / "corpus"
    with MmapTokenStore(root) as old:
        write_version(tmp_path, 1)
        with MmapTokenStore(root) as new:
            clean_up(root)
            assert old.fingerprint != new.fingerprint
            loaders = [SlidingWindowDataloader(store, 16, 4, seed=0) for store in (old, new)]
            for version, (store, loader) in enumerate(zip((old, new), loaders, strict=True)):
                tokens = store.get_slice(0, 9)
                assert bytes(token - 1 for token in tokens.tolist()) == f"version {version}".encode()
                assert next(iter(loader))[0].shape == (4, 16)
            with pytest.raises(StateMismatchError, match=old.fingerprint):
                loaders[1].load_state_dict(loaders[0].state_dict())


READ = """
import sys
from corpus_assets import MmapTokenStore
with MmapTokenStore(sys.argv[1]) as store:
    before = store.get_slice(0, len(store)).tobytes()
    print("open", flush=True)
    sys.stdin.readline()
    same = store.get_slice(0, len(store)).tobytes() == before
    print(same and store.document_at(len(store) - 1).stop == len(store), flush=True)
"""


def test_a_trainer_in_another_process_keeps_its_files_until_it_ends(tmp_path):
    first = write_version(tmp_path, 2)
    root = tmp_path / "corpus"
    trainer = subprocess.Popen(
        [sys.executable, "-c", READ, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert trainer.stdout.readline() == "open\n"
        write_version(tmp_path, 3)
        assert clean_up(root) == []
        out, _ = trainer.communicate("go on\n")
        assert out == "True\n"
    finally:
        trainer.kill()
        trainer.communicate()
    assert {item.path for item in clean_up(root)} == {root / shard.path for shard in first.shards}
    assert validate_corpus(root).ok
    assert load_index(root).document_count == 600


def test_a_killed_trainer_holds_nothing_back(tmp_path):
    write_version(tmp_path, 0)
    root = tmp_path / "corpus"
    trainer = subprocess.Popen(
        [sys.executable, "-c", READ, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert trainer.stdout.readline() == "open\n"
    trainer.kill()
    trainer.communicate()
    write_version(tmp_path, 1)
    assert len(clean_up(root)) == 3
