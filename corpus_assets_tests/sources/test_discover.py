"""list_inputs: what is an input shard, what is not, and what may not be opened."""

import hashlib
import logging
import os

import fsspec
import pytest

from corpus_assets.errors import ConfigError, InputUnreadableError
from corpus_assets.sources import open_source
from corpus_assets.sources.discover import content_sha256, list_inputs
from corpus_assets.sources.formats import extension_of


@pytest.fixture
def folder(tmp_path):
    """Builds a folder of files that each hold their own name."""

    def build(*names: str):
        base = tmp_path / "input"
        for name in names:
            path = base / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
        return base

    return build


def names(location, **options):
    return [item.name for item in list_inputs(str(location), **options)]


def test_a_folder_is_listed_by_key_with_its_subfolders(folder):
    base = folder("b.jsonl", "a/2.parquet", "a.jsonl.gz", "A.JSONL", "sub/deep/x.ndjson")
    listed = list_inputs(str(base))
    assert [(item.key, item.name) for item in listed] == [
        ("A.JSONL", "A.JSONL"),
        ("a.jsonl.gz", "a.jsonl.gz"),
        ("a__2F2.parquet", "a/2.parquet"),
        ("b.jsonl", "b.jsonl"),
        ("sub__2Fdeep__2Fx.ndjson", "sub/deep/x.ndjson"),
    ]
    assert listed[2].url == str(base / "a/2.parquet")
    assert listed[2].size == len("a/2.parquet")


def test_an_unknown_extension_is_listed_and_fails_when_it_is_opened(folder):
    base = folder("a.jsonl", "notes.txt", "_part.jsonl")
    assert names(base) == ["_part.jsonl", "a.jsonl", "notes.txt"]
    with pytest.raises(InputUnreadableError, match=r"notes\.txt: unknown extension"):
        open_source(list_inputs(str(base))[2].url)


def test_markers_and_hidden_files_are_not_inputs_and_are_logged(folder, caplog):
    base = folder("a.jsonl", "_SUCCESS", ".a.jsonl.swp", ".git/b.jsonl", "_temporary/0/c.jsonl")
    with caplog.at_level(logging.INFO):
        assert names(base) == ["a.jsonl"]
    for name in ("_SUCCESS", ".a.jsonl.swp", ".git/b.jsonl", "_temporary/0/c.jsonl"):
        assert name in caplog.text


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.jsonl", ["a.jsonl", "b.jsonl"]),
        ("?.json*", ["a.jsonl", "b.json", "b.jsonl"]),
        ("[!a].jsonl", ["b.jsonl"]),
        ("[ab].json", ["b.json"]),
        ("*/*.jsonl", ["2024/c.jsonl"]),
        ("**/*.jsonl", ["2024/c.jsonl", "2024/q1/d.jsonl", "a.jsonl", "b.jsonl"]),
        ("2024/**", ["c.jsonl", "q1/d.jsonl"]),
        ("20*/q?/*", ["2024/q1/d.jsonl"]),
    ],
)
def test_globs(folder, pattern, expected):
    base = folder("a.jsonl", "b.jsonl", "b.json", "2024/c.jsonl", "2024/q1/d.jsonl")
    location = base / pattern
    listed = list_inputs(str(location))
    # names start where the wildcards start
    assert sorted(item.name for item in listed) == expected
    assert all(os.path.isfile(item.url) for item in listed)


def test_a_folder_whose_name_looks_like_a_glob_is_a_folder(tmp_path):
    (tmp_path / "in[1]").mkdir()
    (tmp_path / "in[1]" / "a.jsonl").touch()
    assert names(tmp_path / "in[1]") == ["a.jsonl"]


def test_one_file_and_file_urls(folder):
    base = folder("a.jsonl", "b.jsonl")
    assert names(base / "b.jsonl") == ["b.jsonl"]
    assert names(f"file://{base}") == ["a.jsonl", "b.jsonl"]


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("gone", "no such file or folder"),
        ("*.parquet", "holds no input, expected files with one of .jsonl"),
        ("gone/*.jsonl", "expected one before the first wildcard"),
        ("empty", "holds no input"),
        ("markers", "ignored: _SUCCESS"),
    ],
)
def test_a_location_without_input_is_a_configuration_error(folder, location, message):
    base = folder("a.jsonl", "markers/_SUCCESS")
    (base / "empty").mkdir()
    with pytest.raises(ConfigError, match=message):
        list_inputs(str(base / location))


def test_a_link_out_of_the_folder_is_listed_and_cannot_be_opened(folder, tmp_path):
    base = folder("a.jsonl", "sub/b.jsonl")
    secret = tmp_path / "secret.jsonl"
    secret.write_text('{"text": "secret"}')
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "c.jsonl").touch()
    (base / "link.jsonl").symlink_to(secret)
    (base / "out").symlink_to(tmp_path / "elsewhere")
    (base / "in.jsonl").symlink_to(base / "a.jsonl")
    assert names(base) == ["a.jsonl", "in.jsonl", "link.jsonl", "out", "sub/b.jsonl"]
    refused = [item for item in list_inputs(str(base)) if item.name in ("link.jsonl", "out")]
    for item in refused:
        with pytest.raises(InputUnreadableError, match="leads out of the input folder"):
            content_sha256(item.url)
        with pytest.raises(InputUnreadableError, match=r"leads out|unknown extension"):
            list(open_source(item.url))
    allowed = names(base, follow_symlinks=True)
    assert allowed == ["a.jsonl", "in.jsonl", "link.jsonl", "out/c.jsonl", "sub/b.jsonl"]


def test_links_in_a_circle_and_to_nothing_end(folder):
    base = folder("a/b.jsonl")
    (base / "a" / "up").symlink_to(base)
    (base / "gone.jsonl").symlink_to(base / "nothing.jsonl")
    assert names(base) == ["a/b.jsonl", "gone.jsonl"]
    with pytest.raises(InputUnreadableError, match="No such file"):
        content_sha256(list_inputs(str(base))[1].url)


def test_a_pipe_is_never_opened(folder):
    base = folder("a.jsonl")
    os.mkfifo(base / "pipe.jsonl")
    pipe = list_inputs(str(base))[1]
    with pytest.raises(InputUnreadableError, match="expected a regular file"):
        list(open_source(pipe.url))
    with pytest.raises(InputUnreadableError, match="expected a regular file"):
        content_sha256(str(base / "pipe.jsonl"))


def test_a_signature_changes_with_the_file_even_at_the_same_size_and_time(folder):
    base = folder("a.jsonl", "b.jsonl")
    before = list_inputs(str(base))
    status = (base / "a.jsonl").stat()
    (base / "new").write_text("x.jsonl")
    os.utime(base / "new", ns=(status.st_atime_ns, status.st_mtime_ns))
    (base / "new").rename(base / "a.jsonl")
    after = list_inputs(str(base))
    assert after[0].size == before[0].size
    assert after[0].signature != before[0].signature
    assert after[1] == before[1]


def test_a_store_elsewhere_is_listed_through_fsspec():
    store = fsspec.filesystem("memory")
    for name in ("c/a.jsonl", "c/sub/b.jsonl.gz", "c/_SUCCESS"):
        store.pipe(f"/listed/{name}", name.encode())
    listed = list_inputs("memory://listed/c")
    assert [item.name for item in listed] == ["a.jsonl", "sub/b.jsonl.gz"]
    assert content_sha256(listed[0].url) == hashlib.sha256(b"c/a.jsonl").hexdigest()
    assert names("memory://listed/c/*.jsonl") == ["a.jsonl"]
    assert names("memory://listed/**/b*") == ["c/sub/b.jsonl.gz"]
    store.pipe("/listed/c/a.jsonl", b"other")
    assert list_inputs("memory://listed/c")[0].signature != listed[0].signature
    with pytest.raises(ConfigError, match="holds no input"):
        list_inputs("memory://listed/gone")
    with pytest.raises(ConfigError, match="nowhere://x: cannot be listed"):
        list_inputs("nowhere://x")


def test_members_of_an_archive_are_inputs(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        archive.writestr("d/a.jsonl", '{"text": "zipped"}')
    listed = list_inputs(f"zip://d::{tmp_path / 'in.zip'}")
    assert [item.name for item in listed] == ["a.jsonl"]
    assert [document.text for document in open_source(listed[0].url)] == ["zipped"]


@pytest.mark.parametrize(
    ("url", "extension"),
    [
        ("a/B.JSONL.GZ", ".jsonl.gz"),
        ("odd::name.json", ".json"),
        ("zip://d/a.jsonl::s3://bucket/in.zip", ".jsonl"),
        ("simplecache::s3://bucket/a.pq", ".pq"),
        ("https://host/a.ndjson.zst?signature=1.txt", ".ndjson.zst"),
        ("a.jsonl/b.txt", None),
    ],
)
def test_the_extension_of_a_url(url, extension):
    assert extension_of(url) == extension
