"""Long fuzzing of whole input files: run with `pytest -m slow -s`, which prints seed and counts."""

import gzip
import io
import os
import random
from collections import Counter

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from corpus_assets.errors import InputUnreadableError
from corpus_assets.sources import open_source

ROUNDS = int(os.environ.get("CORPUS_FUZZ_ROUNDS", "3000"))
SEED = int(os.environ.get("CORPUS_FUZZ_SEED", "20"))


def lines(generator):
    rows = [{"text": "x" * generator.randrange(200), "id": i, "more": {"é": [1.5, None]}} for i in range(30)]
    return b"\n".join(map(orjson.dumps, rows))


def parquet(generator):
    file = io.BytesIO()
    texts = ["y" * generator.randrange(200) for _ in range(30)]
    pq.write_table(pa.table({"text": texts, "id": range(30)}), file, row_group_size=10)
    return file.getvalue()


MAKERS = {
    "in.jsonl": lines,
    "in.json": lines,
    "in.jsonl.gz": lambda generator: gzip.compress(lines(generator)) + gzip.compress(lines(generator)),
    "in.jsonl.zst": lambda generator: zstandard.compress(lines(generator)) * 2,
    "in.parquet": parquet,
}


def spoiled(data: bytes, generator: random.Random) -> bytes:
    """`data` with one to three edits: bits, bytes, pieces removed, doubled or put in."""
    edited = bytearray(data)
    for _ in range(generator.randint(1, 3)):
        place = generator.randrange(len(edited) + 1)
        length = generator.choice([1, 2, 4, 8, 100])
        match generator.randrange(5):
            case 0 if place < len(edited):
                edited[place] ^= 1 << generator.randrange(8)
            case 1:
                edited[place : place + length] = generator.randbytes(length)
            case 2:
                del edited[place : place + length]
            case 3:
                edited[place:place] = edited[place : place + length]
            case _:
                edited[place:place] = generator.choice(
                    [b"\n", b"\xff\xff\xff\x7f", b"\x00" * 4, b"\xef\xbb\xbf"]
                )
    return bytes(edited)


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_spoiled_files_balance_or_are_refused_by_name(tmp_path, name):
    generator = random.Random(f"{SEED} {name}")
    outcomes = Counter()
    path = tmp_path / name
    for _ in range(ROUNDS):
        path.write_bytes(spoiled(MAKERS[name](generator), generator))
        source = open_source(str(path), max_line_bytes=1000)
        try:
            documents = sum(len(batch.texts) for batch in source.batches())
        except InputUnreadableError as error:
            outcomes["refused"] += 1
            named = str(path) in str(error)
        else:
            outcomes["read to the end"] += 1
            counts = source.counts
            assert counts.documents == documents
            assert counts.rows == documents + counts.blank + counts.rejected.total()
            outcomes.update(counts.rejected)
            named = True
        assert named
    print(f"\n{name}: seed {SEED}, {ROUNDS} files: {dict(outcomes)}")
