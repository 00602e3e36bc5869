"""export_standard_library: the running Python's own sources as input shards, real text without a download."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import sysconfig
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import orjson

from corpus_assets.errors import ConfigError
from corpus_assets.shards.lease import clear_stale
from corpus_assets.shards.publish import publish_bytes, scratch_folder

SHARD_COUNT = 12
MIN_TEXT_BYTES = 20_000_000
_NOT_THE_LIBRARY = frozenset({"__pycache__", "site-packages", "dist-packages"})
_OTHER_TEXT = frozenset(
    {".c", ".css", ".csv", ".decTest", ".h", ".html", ".js", ".pyi", ".rst", ".txt", ".xml"}
)
# Some distributions ship the standard library without its tests, 11 MB. What every installation of this
# package has beside it makes up the rest, one package at a time and always in this order.
_INSTALLED = ("dagster", "dagster_graphql", "fsspec", "sqlalchemy", "numpy", "pandas", "matplotlib")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """One kind of text in the export: what it is, how many documents, how many bytes of UTF-8."""

    what: str
    document_count: int
    text_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoExport:
    """What an export came to.

    Attributes:
        origins: where the documents come from; more than one where the standard library is small.
        left_out: paths of files that are not text in the encoding that they declare.
        written: shards written; the others were there already, byte for byte.
    """

    folder: Path
    shard_count: int
    origins: tuple[Origin, ...]
    left_out: tuple[str, ...]
    written: int

    @property
    def document_count(self) -> int:
        return sum(origin.document_count for origin in self.origins)

    @property
    def text_bytes(self) -> int:
        return sum(origin.text_bytes for origin in self.origins)


@dataclass(frozen=True, slots=True)
class _SourceText:
    """One document: its path below the library, and its text."""

    path: str
    text: str
    size: int


def export_standard_library(
    folder: Path, *, library: Path | None = None, min_text_bytes: int = MIN_TEXT_BYTES
) -> DemoExport:
    """Write the sources of the standard library to `folder` as JSON Lines with `text`, `path` and `id`.

    The same Python gives the same bytes. A shard that is there with the right content is not touched.

    Args:
        folder: the input folder of the demo's corpus.
        library: folder of the standard library; default: that of the running Python.
        min_text_bytes: where its Python sources are fewer, its other texts are added, and then the sources
            of installed packages.

    Raises:
        ConfigError: there is no folder of Python sources.
    """
    library = library or Path(sysconfig.get_paths()["stdlib"])
    left_out: list[str] = []
    origins: list[Origin] = []
    texts: list[_SourceText] = []
    for what, root, files in _candidates(library):
        if origins and sum(origin.text_bytes for origin in origins) >= min_text_bytes:
            break
        found = list(_read(files, root, left_out))
        if not origins and not found:
            raise ConfigError(f"{library}: holds no Python source, expected the standard library's")
        if found:
            size = sum(text.size for text in found)
            origins.append(Origin(what=what, document_count=len(found), text_bytes=size))
            texts += found
    scratch = scratch_folder(folder.parent)
    clear_stale(folder.parent)
    written = 0
    groups = split_evenly([text.size for text in texts], SHARD_COUNT)
    for number, group in enumerate(groups):
        path = folder / f"stdlib-{number:02d}.jsonl"
        content = b"".join(_row(text) for text in texts[group.start : group.stop])
        if not path.is_file() or path.read_bytes() != content:
            publish_bytes(path, content, scratch=scratch)
            written += 1
    with suppress(OSError):
        scratch.rmdir()
    return DemoExport(
        folder=folder,
        shard_count=len(groups),
        origins=tuple(origins),
        left_out=tuple(left_out),
        written=written,
    )


def split_evenly(sizes: Sequence[int], parts: int) -> list[range]:
    """Consecutive ranges over `sizes`, each of about the same sum; at most `parts`, none empty.

    An item belongs to the part that its first byte falls into.
    """
    total = max(1, sum(sizes))
    part_of, start = [], 0
    for size in sizes:
        part_of.append(min(parts - 1, start * parts // total))
        start += size
    cuts = [index for index in range(len(sizes)) if index == 0 or part_of[index] != part_of[index - 1]]
    return [range(low, high) for low, high in pairwise([*cuts, len(sizes)])]


def _candidates(library: Path) -> Iterator[tuple[str, Path, Iterable[Path]]]:
    """Kinds of text in the order in which they are wanted: what, the folder that paths start from, files."""
    yield "standard library, Python sources", library, _files(library, {".py"})
    yield "standard library, other texts", library, _files(library, _OTHER_TEXT)
    for package in _INSTALLED:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.submodule_search_locations:
            root = Path(next(iter(spec.submodule_search_locations)))
            yield f"installed package {package}, Python sources", root.parent, _files(root, {".py"})


def _files(root: Path, suffixes: Iterable[str]) -> Iterator[Path]:
    """Files with these suffixes below `root` but not in caches or installed packages, by path."""
    wanted = frozenset(suffixes)
    found = [
        path
        for path in root.rglob("*")
        if path.suffix in wanted
        and _NOT_THE_LIBRARY.isdisjoint(path.relative_to(root).parts)
        and path.is_file()
    ]
    return iter(sorted(found, key=lambda path: path.relative_to(root).as_posix()))


def _read(files: Iterable[Path], root: Path, left_out: list[str]) -> Iterator[_SourceText]:
    for file in files:
        path = file.relative_to(root).as_posix()
        try:
            text = _decode(file.read_bytes(), is_python=file.suffix == ".py")
            size = len(text.encode())
        except (SyntaxError, UnicodeError, LookupError, OSError):
            # The test suite ships files that are broken on purpose; the report names them.
            left_out.append(path)
            continue
        yield _SourceText(path, text, size)


def _decode(data: bytes, *, is_python: bool) -> str:
    """Text in the encoding that a Python source declares, else UTF-8; line ends stay as they are."""
    encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0] if is_python else "utf-8-sig"
    return data.decode(encoding)


def _row(text: _SourceText) -> bytes:
    identity = hashlib.sha256(f"{text.path}\0{text.text}".encode()).hexdigest()[:16]
    return orjson.dumps({"text": text.text, "path": text.path, "id": identity}) + b"\n"
