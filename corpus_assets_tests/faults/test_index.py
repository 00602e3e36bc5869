"""A shards.json, a record or a release written by an enemy is refused in one line, whatever is in it."""

import os
from functools import reduce

import pytest

from corpus_assets import MmapTokenStore, load_index, validate_corpus
from corpus_assets.errors import IndexMismatchError, NotReleasedError
from corpus_assets.shards.index import current_shard
from corpus_assets.shards.release import load_release
from corpus_assets_tests.faults.forging import forge_index, run_alone
from corpus_assets_tests.loading.corpora import random_shards, write_corpus_of


@pytest.fixture
def root(tmp_path):
    write_corpus_of(tmp_path, random_shards([50, 60]))
    return tmp_path


def first(**changes):
    return lambda document: document["shards"][0].update(changes)


def ledger(**changes):
    return lambda document: document["shards"][0]["ledger"].update(changes)


NESTED = reduce(lambda inner, _: {"a": inner}, range(400), {})

FORGERIES = [
    (lambda document: document.update(extra=NESTED), "its checksum cannot be taken: Recursion limit reached"),
    (lambda document: document.pop("tokenizer"), r"shard 0\.tokenizer: Input should be"),
    (lambda document: document.update(tokenizer="x"), r"shard 0\.tokenizer: Input should be"),
    (lambda document: document.update(shards=[1]), "shard 0: Input should be"),
    (lambda document: document.update(shards={}), "expected an object with `shards`"),
    (lambda document: document.update(format_version="\x1b[2J"), r"format_version is \\x1b\[2J, expected 1"),
    (lambda document: document["shards"].reverse(), "shard s00001 starts at 50, expected shard s00000 at 0"),
    (lambda document: document["shards"].append(document["shards"][0]), "a key occurs twice"),
    (first(global_start=1), "shard s00000 starts at 1, expected shard s00000 at 0"),
    (first(token_count=-1), "shard s00000: token_count is out of range"),
    (first(token_count=2**63), "shard s00000: token_count is out of range"),
    (first(document_count=-1), "document_count is out of range"),
    (first(file_bytes=2**62), "file_bytes is out of range"),
    (first(chunk_size=0), "chunk_size is out of range"),
    (first(chunk_size=2**31), "chunk_size is out of range"),
    (first(window_size=0), "window_size is out of range"),
    (first(data_offset=-1), "data_offset is out of range"),
    (first(data_bytes=2**62), "data_bytes is out of range"),
    (first(extents={"tokens": -2}), "extents of tokens is out of range"),
    (first(extents={"\x07": -2}), r"extents of \\x07 is out of range"),
    (first(token_count=1.5), r"shard 0\.token_count: "),
    (first(token_count="many"), r"shard 0\.token_count: "),
    (first(dtype="float64"), "dtype is float64, expected uint16 or uint32"),
    (first(key="../../etc/x"), r"shard \.\./\.\./etc/x: expected a key of at most 255"),
    (first(key="a\x1b]0;x\x07\nb"), r"shard a\\x1b\]0;x\\x07\\nb: expected a key of at most 255"),
    (first(key="k" * 10_000_000), "characters.: expected a key of at most 255"),
    (first(path="/etc/passwd"), "path /etc/passwd leads out of the corpus"),
    (first(path="shards/../../x"), r"path shards/\.\./\.\./x leads out of the corpus"),
    (first(path="a\\b"), "leads out of the corpus"),
    (first(path="\0" * 1_000_000), "leads out of the corpus"),
    (ledger(blank=-1), "ledger: blank is out of range"),
    (ledger(rejected={"<b>\n": -4}), r"ledger: <b>\\n is out of range"),
    (ledger(rejected=[3]), r"shard 0\.ledger\.rejected: "),
]


@pytest.mark.parametrize(("edit", "message"), FORGERIES)
def test_a_forged_index_is_refused_in_one_short_line(root, edit, message):
    forge_index(root, edit)
    for read in (load_index, MmapTokenStore):
        with pytest.raises(IndexMismatchError, match=message) as caught:
            read(root)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 1000
    (finding,) = validate_corpus(root).findings
    assert finding.check == "index"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"shards": [NaN]}',
        b'{"shards": [1e999]}',
        b"\xff\xfe{\0}\0",
        b'{"shards": ["' + b"x" * 20_000_000,
        b'{"format_version": 1, "shards": [], "shards": [{}]}',
    ],
    ids=["empty", "null", "deep", "deeper", "nan", "infinite", "utf16", "cut", "twice"],
)
def test_what_is_no_index_is_refused(root, raw):
    (root / "shards.json").write_bytes(raw)
    with pytest.raises(IndexMismatchError) as caught:
        load_index(root)
    assert len(str(caught.value)) < 1000


PLACES = {
    "shards.json": (load_index, IndexMismatchError),
    "release.json": (load_release, NotReleasedError),
    "shards/k.json": (lambda root: current_shard(root, "k"), IndexMismatchError),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_a_pipe_a_device_or_a_folder_in_place_of_a_record_is_refused_at_once(root, place, kind):
    read, error = PLACES[place]
    path = root / place
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case _:
            path.mkdir()
    with pytest.raises(error, match=f"{place}: (not a regular file|Is a directory)"):
        read(root)


@pytest.mark.parametrize(
    "content",
    [b"[" * 3000, b'{"key": 1}', b"[]", b'{"key": "\xff"}', b'{"key":' + b"[" * 900 + b"]" * 900 + b"}"],
)
def test_a_record_or_release_that_is_not_one_is_refused(root, content):
    (root / "shards").mkdir()
    for path in (root / "shards/k.json", root / "release.json"):
        path.write_bytes(content)
    with pytest.raises(IndexMismatchError, match=r"k\.json: "):
        current_shard(root, "k")
    with pytest.raises(NotReleasedError, match=r"release\.json: damaged"):
        load_release(root)


READ_WITH_LITTLE_MEMORY = """
import resource, sys
from corpus_assets import MmapTokenStore
from corpus_assets.errors import CorpusError
resource.setrlimit(resource.RLIMIT_AS, (2_000_000_000, 2_000_000_000))
try:
    with MmapTokenStore(sys.argv[1]) as store:
        store.get_slice(0, 10)
except CorpusError as error:
    print("refused:", error)
"""


@pytest.mark.parametrize(
    "changes",
    [
        {"token_count": 2**61},
        {"file_bytes": 2**61},
        {"token_count": 2**61, "compression": "zstd", "extents": {}},
    ],
)
def test_counts_beyond_the_file_cost_no_memory(root, changes):
    def edit(document):
        document["shards"][0].update(changes)
        document["shards"][1]["global_start"] = document["shards"][0]["token_count"]

    forge_index(root, edit)
    ended = run_alone(READ_WITH_LITTLE_MEMORY, root)
    assert ended.stdout.startswith("refused: "), ended.stderr
