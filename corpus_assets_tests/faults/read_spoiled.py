"""Reads spoiled files in every way there is: the program that the fuzz tests run, so that a crash is seen as one.

Arguments: the corpus, the file in it to be replaced, the folder of replacements, and `vouched` where shards.json
shall say of each that it is right. The last line of stderr says how far it came.
"""

from __future__ import annotations

import faulthandler
import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from corpus_assets import MmapTokenStore, load_index, validate_corpus
from corpus_assets.errors import CorpusError
from corpus_assets.shards import contents, hdf5_process
from corpus_assets.shards.index import publish_index
from corpus_assets.shards.records import ShardIndex
from corpus_assets.shards.seal import frame_digest, stretch_digest
from corpus_assets.shards.statistics import corpus_statistics


def inspect(path: Path) -> None:
    contents.read_contents(path, documents=3, tokens=9)


def read(root: Path) -> None:
    with MmapTokenStore(root) as store:
        store.get_slice(0, len(store))
        if len(store) > 20:
            store.gather(np.arange(len(store) - 20), 20)


def locate(root: Path) -> None:
    with MmapTokenStore(root) as store:
        for position in range(0, len(store), 50):
            found = store.document_at(position)
            assert found.start <= position < found.stop <= len(store)


def count(root: Path) -> None:
    corpus_statistics(load_index(root))


def vouch(root: Path, path: Path) -> None:
    """Let the index say that its first shard's file is right, as whoever forged it would."""
    first, *others = load_index(root).shards
    place = first.data_offset, first.data_bytes
    forged = replace(
        first,
        file_bytes=path.stat().st_size,
        frame_sha256=frame_digest(path, *place),
        data_sha256=stretch_digest(path, *place),
    )
    publish_index(ShardIndex.of([forged, *others], root), root / "shards.json")


def main(root: Path, path: Path, folder: Path, *, vouched: bool) -> None:
    """Put each file of `folder` in place of `path` and read; prints how often each way ended how."""
    hdf5_process.TIME_LIMIT = 2.0
    sound, index = path.read_bytes(), (root / "shards.json").read_bytes()
    ways: dict[str, Callable[[], None]] = {
        "read": partial(read, root),
        "locate": partial(locate, root),
        "count": partial(count, root),
    }
    if path.suffix == ".h5":
        ways["inspect"] = partial(inspect, path)
    ends: Counter[str] = Counter()
    for case in sorted(folder.iterdir()):
        print(case.name, file=sys.stderr, flush=True)
        data = case.read_bytes()
        path.write_bytes(data)
        if vouched:
            (root / "shards.json").write_bytes(index)
            vouch(root, path)
        sane = validate_corpus(root).ok
        ends[f"validate: {'sound' if sane else 'findings'}"] += 1
        assert not sane or vouched or data == sound or path.suffix != ".h5", "damage was not found"
        for name, way in ways.items():
            try:
                way()
                ends[f"{name}: read"] += 1
            except CorpusError:
                ends[f"{name}: refused"] += 1
    path.write_bytes(sound)
    (root / "shards.json").write_bytes(index)
    print(json.dumps(ends))


if __name__ == "__main__":
    faulthandler.enable()
    main(*map(Path, sys.argv[1:4]), vouched="vouched" in sys.argv[4:])
