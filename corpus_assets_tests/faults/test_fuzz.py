"""Files of any bytes: whole inputs, shards, indexes. What hangs or crashes is seen, each case being run in a child.

`pytest -m slow -s` runs some 24,000; CORPUS_FUZZ_SEED and CORPUS_FUZZ_CASES choose others.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corpus_assets import load_index, validate_corpus
from corpus_assets.errors import CorpusError, InputError
from corpus_assets_tests.faults.forging import forge_index
from corpus_assets_tests.loading.corpora import phrased_shards, random_shards, write_corpus_of

SEED = int(os.environ.get("CORPUS_FUZZ_SEED", "4"))
CASES = int(os.environ.get("CORPUS_FUZZ_CASES", "2000"))
BATCH = 200


def read_in_child(root: Path, target: Path, cases: list[bytes], *, vouched: bool = False) -> Counter[str]:
    """Let a child put each case in place of `target`; fails unless it refuses or reads all of them in time.

    `vouched`: the index says of each that it is right.
    """
    folder = root.parent / "cases"
    folder.mkdir(exist_ok=True)
    for number, case in enumerate(cases):
        (folder / f"{number:06d}").write_bytes(case)
    command = [sys.executable, "-m", "corpus_assets_tests.faults.read_spoiled", root, target, folder]
    if vouched:
        command.append("vouched")
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30 + len(cases), check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    for path in folder.iterdir():
        path.unlink()
    return Counter(json.loads(ended.stdout))


def spoil(data: bytes, generator: random.Random, *, hot: range | None = None) -> bytes:
    """`data` with a few edits: bits, bytes, numbers, pieces removed, doubled or moved; or cut."""
    edited = bytearray(data)
    for _ in range(generator.choice([1, 1, 1, 2, 4, 8])):
        places = hot if hot is not None and generator.random() < 0.8 else range(len(edited))
        place = min(generator.choice(places), len(edited) - 1)
        length = generator.choice([1, 2, 4, 8, 64])
        match generator.randrange(7):
            case 0:
                edited[place] ^= 1 << generator.randrange(8)
            case 1:
                edited[place] = generator.choice([0, 1, 127, 128, 255])
            case 2:
                edited[place : place + length] = generator.randbytes(length)
            case 3:
                edited[place : place + length] = b"\xff" * length
            case 4:
                number = generator.choice([0, 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1])
                edited[place : place + 8] = number.to_bytes(8, "little")
            case 5 if generator.random() < 0.2:
                del edited[generator.randrange(len(edited)) :]
            case 6 if generator.random() < 0.2:
                del edited[place : place + length]
        if not edited:
            return b""
    return bytes(edited)


@pytest.fixture(scope="module", params=["none", "gzip", "lzf", "zstd-dict", "blosc2"])
def corpus(request, tmp_path_factory):
    root = tmp_path_factory.mktemp(request.param) / "corpus"
    shards = phrased_shards([9000, 200]) if request.param == "zstd-dict" else random_shards([300, 200])
    write_corpus_of(root, shards, compression=request.param, chunk_size=64)
    return root


def metadata_of(path: Path) -> range:
    """Where HDF5's own structures lie: at the start of the file and at its end."""
    size = path.stat().st_size
    return range(max(0, size - 8192), size)


def spoiled_shards(corpus: Path, seed: str, count: int) -> tuple[Path, list[bytes]]:
    path = corpus / load_index(corpus).shards[0].path
    data, generator = path.read_bytes(), random.Random(seed)
    return path, [spoil(data, generator, hot=metadata_of(path)) for _ in range(count)]


@pytest.mark.parametrize("vouched", [False, True], ids=["alone", "vouched"])
def test_spoiled_shards_are_findings_and_never_hang_or_crash(corpus, vouched):
    path, cases = spoiled_shards(corpus, f"{SEED} {corpus.parent.name}", 25)
    ends = read_in_child(corpus, path, cases, vouched=vouched)
    assert ends["inspect: refused"]
    assert ends["count: refused"] or vouched


def test_spoiled_indexes_are_refused_and_never_hang_or_crash(corpus):
    path, generator = corpus / "shards.json", random.Random(SEED)
    cases = [spoil(path.read_bytes(), generator) for _ in range(60)]
    assert read_in_child(corpus, path, cases)["read: refused"]


@pytest.mark.slow
@pytest.mark.parametrize("vouched", [False, True], ids=["alone", "vouched"])
def test_many_spoiled_shards(corpus, vouched):
    ends: Counter[str] = Counter()
    for batch in range(CASES // BATCH):
        path, cases = spoiled_shards(corpus, f"{SEED} {batch} {corpus.parent.name}", BATCH)
        ends += read_in_child(corpus, path, cases, vouched=vouched)
    how = "vouched for" if vouched else "alone"
    print(f"\n{corpus.parent.name}, {how}: seed {SEED}, {CASES} shards: {dict(ends)}")


@pytest.mark.slow
def test_many_spoiled_indexes(corpus):
    ends: Counter[str] = Counter()
    path, generator = corpus / "shards.json", random.Random(SEED)
    data = path.read_bytes()
    for _ in range(CASES // BATCH):
        ends += read_in_child(corpus, path, [spoil(data, generator) for _ in range(BATCH)])
    print(f"\n{corpus.parent.name}: seed {SEED}, {CASES} indexes: {dict(ends)}")


# JSON values of any kind, numbers at the edges of what fits, texts that lead elsewhere.
values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.sampled_from([-1, 0, 1, 2, 3, 2**31, 2**32, 2**53, 2**62 - 1, 2**62, 2**63 - 1, -(2**63)]),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(
            ["", ".", "..", "/", "../x", "shards.json", "/dev/zero", "s00001.h5", "uint32", "zstd"]
        ),
        st.text(max_size=20),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_in_any_place_of_an_index_is_refused_or_read_as_it_says(tmp_path_factory, data):
    """In this process: what lies outside of a file would end it."""
    root = tmp_path_factory.mktemp("forged")
    index = write_corpus_of(root, random_shards([30, 20]), chunk_size=16)

    def edit(document) -> None:
        row = data.draw(st.sampled_from([document, *document["shards"]]))
        holder = data.draw(
            st.sampled_from([row, *(value for value in row.values() if isinstance(value, dict))])
        )
        if holder:
            holder[data.draw(st.sampled_from(sorted(holder)))] = data.draw(values)

    try:
        forge_index(root, edit)
    except (TypeError, ValueError):
        return  # nothing that stands in a file
    from corpus_assets import MmapTokenStore

    validate_corpus(root)
    try:
        with MmapTokenStore(root) as store:
            tokens = store.get_slice(0, len(store))
            assert (
                len(tokens)
                == store.index.token_count
                <= sum((root / shard.path).stat().st_size for shard in index.shards)
            )
            if len(store):
                store.document_at(len(store) - 1)
    except CorpusError:
        return


lines = st.one_of(
    st.binary(max_size=60),
    st.text(max_size=40).map(lambda text: json.dumps({"text": text}).encode()),
    st.text(max_size=20).map(
        lambda text: json.dumps({"text": text}, ensure_ascii=False).encode("utf-8", "replace")
    ),
    values.map(lambda value: json.dumps({"text": value}).encode()),
    values.map(lambda value: json.dumps(value).encode()),
    st.sampled_from(
        [b"", b" ", b"{", b"[" * 2000, b'{"text": "\\ud800"}', b'{"text": NaN}', b"\xef\xbb\xbf", b"\0"]
    ),
)
newlines = st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\r"])
whole_files = st.lists(st.tuples(lines, newlines), max_size=12).map(
    lambda pairs: b"".join(line + newline for line, newline in pairs)
) | st.binary(max_size=300)
packed_files = st.one_of(
    whole_files.map(lambda data: ("a.jsonl", data)),
    whole_files.map(lambda data: ("a.json", data)),
    st.lists(whole_files, max_size=3).map(lambda parts: ("a.jsonl.gz", b"".join(map(gzip.compress, parts)))),
    st.tuples(whole_files, st.integers(0, 30)).map(
        lambda made: ("a.jsonl.gz", gzip.compress(made[0])[: -made[1] or None])
    ),
    st.binary(max_size=200).map(lambda data: ("a.parquet", b"PAR1" + data + b"PAR1")),
    st.lists(st.none() | st.text(max_size=9), max_size=5).map(lambda texts: ("a.parquet", parquet(texts))),
)


def parquet(texts: list[str | None]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    made = io.BytesIO()
    encodable = [None if text is None else text.encode("utf-8", "replace").decode() for text in texts]
    pq.write_table(pa.table({"text": pa.array(encodable, pa.string())}), made)
    return made.getvalue()


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(packed=packed_files)
def test_any_input_becomes_a_sound_shard_whose_ledger_balances_or_fails_by_name(tmp_path_factory, packed):
    from corpus_assets import tokenize_jsonl_path
    from corpus_assets.shards.contents import read_contents

    name, content = packed
    folder = tmp_path_factory.mktemp("any")
    (folder / name).write_bytes(content)
    try:
        info = tokenize_jsonl_path(folder / name, folder / "out.h5", max_reject_fraction=1.0)
    except InputError as refused:
        message = str(refused)
    else:
        message = None
    if message is not None:
        assert name in message
        assert not (folder / "out.h5").exists()
        return
    assert info.ledger.balances
    assert info.ledger.documents == info.document_count
    stored = read_contents(folder / "out.h5", documents=info.document_count)
    assert len(stored.documents) == info.document_count
    rejects = folder / "out.rejects.jsonl"
    assert (len(rejects.read_bytes().splitlines()) if rejects.exists() else 0) == info.ledger.rejected_count
    assert not list((folder / ".building").iterdir())


def test_the_seeds_of_this_module_spoil_every_kind_of_byte():
    """Were the edits to miss the structures of HDF5, the tests above would show little."""
    generator = random.Random(SEED)
    data = bytes(1000)
    touched = [i for _ in range(300) for i, byte in enumerate(spoil(data, generator)) if byte]
    assert len(set(touched)) > 800
