from __future__ import annotations

import json
from pathlib import Path

import pytest

from corpus_assets.demo import MIN_TEXT_BYTES, export_standard_library, split_evenly
from corpus_assets.errors import ConfigError
from corpus_assets.sources.discover import list_inputs


@pytest.mark.parametrize(
    ("sizes", "parts", "expected"),
    [
        ([1, 1, 1, 1], 2, [range(0, 2), range(2, 4)]),
        ([3, 1, 1, 1], 2, [range(0, 1), range(1, 4)]),
        ([1, 1, 4, 1, 1], 2, [range(0, 3), range(3, 5)]),  # the third begins in the first half
        ([5], 3, [range(0, 1)]),
        ([1, 1], 5, [range(0, 1), range(1, 2)]),
        ([0, 0], 2, [range(0, 2)]),
        ([], 2, []),
    ],
)
def test_items_go_to_the_part_that_their_first_byte_falls_into(sizes, parts, expected):
    assert split_evenly(sizes, parts) == expected


def library(tmp_path: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = tmp_path / "lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return tmp_path / "lib"


def rows(folder: Path) -> list[dict]:
    return [json.loads(line) for path in sorted(folder.iterdir()) for line in path.read_bytes().splitlines()]


def test_a_document_is_a_source_file_with_its_path_and_a_stable_id(tmp_path):
    lib = library(
        tmp_path,
        {
            "b.py": b"x = 1\r\n",
            "a/__init__.py": b"",
            "a/latin.py": "# -*- coding: latin-1 -*-\n# é\n".encode("latin-1"),
            "a/marked.py": b"\xef\xbb\xbfy = 2\n",
            "a/broken.py": b"# \xff\n",
            "a/data.bin": b"\0",
            "site-packages/other.py": b"not the library's",
            "__pycache__/b.py": b"a cache",
        },
    )
    export = export_standard_library(tmp_path / "input", library=lib, min_text_bytes=1)
    found = rows(tmp_path / "input")
    assert [(row["path"], row["text"]) for row in found] == [
        ("a/__init__.py", ""),
        ("a/latin.py", "# -*- coding: latin-1 -*-\n# é\n"),
        ("a/marked.py", "y = 2\n"),
        ("b.py", "x = 1\r\n"),
    ]
    assert {frozenset(row) for row in found} == {frozenset({"text", "path", "id"})}
    assert len({row["id"] for row in found}) == 4
    assert export.left_out == ("a/broken.py",)
    assert (export.document_count, export.text_bytes) == (4, 31 + 6 + 7)


def test_a_second_export_touches_nothing_and_a_damaged_shard_alone_is_written_again(tmp_path):
    lib = library(tmp_path, {f"m{number}.py": b"pass\n" * 9 for number in range(24)})
    first = export_standard_library(tmp_path / "input", library=lib, min_text_bytes=1)
    paths = sorted((tmp_path / "input").iterdir())
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}
    assert (first.shard_count, first.written, len(paths)) == (12, 12, 12)
    second = export_standard_library(tmp_path / "input", library=lib, min_text_bytes=1)
    assert second.written == 0
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths} == before
    paths[3].write_bytes(b"{}\n")
    assert export_standard_library(tmp_path / "input", library=lib, min_text_bytes=1).written == 1
    assert {path: path.read_bytes() for path in paths} == {path: data for path, (data, _) in before.items()}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["input", "lib"]


def test_a_small_library_is_filled_up_with_its_other_texts_and_then_with_installed_packages(tmp_path):
    lib = library(tmp_path, {"a.py": b"a = 1\n", "LICENSE.txt": b"free\n"})
    export = export_standard_library(tmp_path / "input", library=lib, min_text_bytes=1_000_000)
    assert [(origin.what, origin.document_count) for origin in export.origins[:2]] == [
        ("standard library, Python sources", 1),
        ("standard library, other texts", 1),
    ]
    assert [origin.what for origin in export.origins[2:]] == ["installed package dagster, Python sources"]
    assert export.text_bytes >= 1_000_000
    assert [row["path"] for row in rows(tmp_path / "input")[:2]] == ["a.py", "LICENSE.txt"]
    assert rows(tmp_path / "input")[-1]["path"].startswith("dagster/")


def test_the_export_of_this_python_is_at_least_8_shards_and_20_megabytes_of_text(tmp_path):
    export = export_standard_library(tmp_path / "input")
    listed = list_inputs(str(tmp_path / "input"))
    found = rows(tmp_path / "input")
    assert export.shard_count == len(listed) >= 8
    assert export.text_bytes == sum(len(row["text"].encode()) for row in found) >= MIN_TEXT_BYTES
    assert export.document_count == len(found) == len({row["id"] for row in found})
    assert max(item.size for item in listed) < 2 * min(item.size for item in listed)


def test_a_folder_without_python_sources_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="nothing: holds no Python source"):
        export_standard_library(tmp_path / "input", library=tmp_path / "nothing", min_text_bytes=0)
