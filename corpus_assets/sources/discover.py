"""list_inputs: the input shards of a corpus, from a folder, a glob or an fsspec URL.

What is listed: every file below the folder, subfolders included, or every match of the glob. A file whose
extension is unknown is listed too, so that its partition fails by name instead of being left out in
silence. So is a link that leads out of the folder, a special file and a name that is not UTF-8; their `url` says why
they must not be opened (`refused:<why>`), and opening it raises just that.

What is not listed, but logged: hidden names (a leading dot), folders called `_temporary`, markers that
other tools leave (a leading underscore without a known extension, such as `_SUCCESS`), and corpora that were
built inside the input folder (they have a folder `.building`).
"""

from __future__ import annotations

import hashlib
import logging
import os
import posixpath
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from corpus_assets.errors import ConfigError
from corpus_assets.sources.formats import KNOWN_EXTENSIONS, extension_of
from corpus_assets.sources.keys import encode_key
from corpus_assets.sources.raw import REFUSED, content_sha256, local_path

__all__ = ["ListedInput", "content_sha256", "list_inputs"]

_log = logging.getLogger(__name__)
_SCRATCH = ".building"
_WILDCARD = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class ListedInput:
    """One input shard as its storage lists it.

    Attributes:
        key: partition key, made from `name`.
        name: path below the input folder, or below the part of the glob before its first wildcard.
        url: what opens it: a path, an fsspec URL, or `refused:<why>`.
        size: raw bytes.
        signature: changes when the file changes, as far as its storage tells without reading it.
    """

    key: str
    name: str
    url: str
    size: int
    signature: str


def list_inputs(location: str, *, follow_symlinks: bool = False) -> list[ListedInput]:
    """The input shards at `location`, sorted by key.

    Args:
        location: a folder, one file, a glob (`*`, `?`, `[…]`, `**` for any depth), or an fsspec URL of these.
        follow_symlinks: follow links that lead out of the input folder.

    Raises:
        ConfigError: there is no such folder, it cannot be listed, or it holds no input.
    """
    path = local_path(location)
    found = _local(path, follow_symlinks) if path is not None else _elsewhere(location)
    inputs: list[ListedInput] = []
    ignored: list[str] = []
    for file in found:
        if _is_marker(file.name):
            ignored.append(file.name)
        else:
            inputs.append(file)
    if ignored:
        _log.info("%s: ignored hidden files and markers: %s", location, ", ".join(sorted(ignored)))
    if not inputs:
        also = f"; ignored: {', '.join(sorted(ignored)[:10])}" if ignored else ""
        raise ConfigError(
            f"{location}: holds no input, expected files with one of {', '.join(KNOWN_EXTENSIONS)}{also}"
        )
    return sorted(inputs, key=lambda item: item.key)


def _listed(name: str, url: str, size: int, signature: str) -> ListedInput:
    return ListedInput(encode_key(name), name, url, size, signature)


def _is_marker(name: str) -> bool:
    parts = name.split("/")
    if any(part.startswith(".") for part in parts) or "_temporary" in parts[:-1]:
        return True
    return parts[-1].startswith("_") and extension_of(name) is None


def _local(path: str, follow_symlinks: bool) -> Iterator[ListedInput]:
    if os.path.isdir(path):
        return _walk(path, None, follow_symlinks)
    if os.path.lexists(path):
        return iter([_local_file(path, os.path.basename(path), None)])
    if not _WILDCARD.search(path):
        raise ConfigError(f"{path}: no such file or folder, expected a folder of input files")
    base, pattern = _split_glob(path)
    if not os.path.isdir(base or "."):
        raise ConfigError(f"{path}: no folder {base}, expected one before the first wildcard")
    return _walk(base or ".", _pattern(pattern), follow_symlinks)


def _split_glob(path: str) -> tuple[str, str]:
    """The folder before the first wildcard, and the rest."""
    parts = path.split("/")
    first = next(i for i, part in enumerate(parts) if _WILDCARD.search(part))
    base = "/".join(parts[:first])
    return base or ("/" if path.startswith("/") else ""), "/".join(parts[first:])


def _pattern(glob: str) -> re.Pattern[str]:
    """A glob over names with slashes as a pattern: only `**` crosses a slash."""
    parts = glob.split("/")
    pieces = [_folder_pattern(part) for part in parts[:-1]]
    pieces.append(".*" if parts[-1] == "**" else _part_pattern(parts[-1]))
    return re.compile("".join(pieces), re.DOTALL)


def _folder_pattern(part: str) -> str:
    return "(?:[^/]+/)*" if part == "**" else _part_pattern(part) + "/"


def _part_pattern(part: str) -> str:
    def piece(match: re.Match[str]) -> str:
        token = match[0]
        if token in ("*", "?"):
            return "[^/]*" if token == "*" else "[^/]"
        if len(token) == 1:
            return re.escape(token)
        inner = token[1:-1].replace("\\", "\\\\").replace("[", "\\[")
        return f"(?!/)[{'^' + inner[1:] if inner[0] == '!' else inner}]"

    return re.sub(r"\[!?\]?[^\]]*\]|.", piece, part, flags=re.DOTALL)


def _walk(base: str, pattern: re.Pattern[str] | None, follow_symlinks: bool) -> Iterator[ListedInput]:
    home = os.path.realpath(base)
    folders: list[tuple[str, str, tuple[str, ...]]] = [(base, "", (home,))]
    while folders:
        folder, prefix, ancestors = folders.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            raise ConfigError(f"{folder}: cannot be listed: {error.strerror}") from error
        for entry in entries:
            name = prefix + entry.name
            # Resolving every path from the root would take most of the time of a listing.
            real = (
                os.path.realpath(entry.path)
                if entry.is_symlink()
                else os.path.join(ancestors[-1], entry.name)
            )
            inside = follow_symlinks or _is_inside(real, home)
            if inside and os.path.isdir(entry.path):
                if os.path.isdir(f"{entry.path}/{_SCRATCH}"):
                    _log.info("%s: is a corpus, no input", entry.path)
                elif real not in ancestors:  # a link to a folder above would never end
                    folders.append((entry.path, name + "/", (*ancestors, real)))
            elif pattern is None or pattern.fullmatch(name):
                yield _local_file(entry.path, name, None if inside else real)


def _is_inside(real: str, home: str) -> bool:
    return real == home or real.startswith(home.rstrip("/") + "/")


def _local_file(path: str, name: str, outside: str | None) -> ListedInput:
    """The file at `path`; `outside` is where it leads, if that is not allowed."""
    if not name.isascii() and (shown := _as_utf8(name)) != name:
        why = f"{shown}: its name is not UTF-8, expected another name"
        return ListedInput(encode_key(name), shown, REFUSED + why, 0, "refused")
    if outside is not None:
        why = f"{path}: is a link that leads out of the input folder to {outside}; follow_symlinks allows it"
        return _listed(name, REFUSED + why, 0, "refused")
    try:
        status = os.stat(path)
    except OSError as error:
        return _listed(name, f"{REFUSED}{path}: cannot be read: {error.strerror}", 0, "refused")
    if not stat.S_ISREG(status.st_mode):
        why = f"{path}: is a device, pipe or socket, expected a regular file"
        return _listed(name, REFUSED + why, 0, "refused")
    signature = f"{status.st_size}-{status.st_mtime_ns}-{status.st_ctime_ns}-{status.st_ino}"
    return _listed(name, path, status.st_size, signature)


def _as_utf8(name: str) -> str:
    """A file name with the bytes that are not UTF-8, which no record could hold, as escapes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _elsewhere(location: str) -> Iterator[ListedInput]:
    import fsspec

    head, chain, rest = location.partition("::")
    try:
        filesystem, path = fsspec.url_to_fs(location)
        if _WILDCARD.search(path):
            base = _split_glob(path)[0]
            details = filesystem.glob(path, detail=True)
        elif filesystem.isfile(path):
            base = posixpath.dirname(path)
            details = {path: filesystem.info(path)}
        else:
            base = path
            details = filesystem.find(path, detail=True)
    except Exception as error:  # each fsspec backend has exceptions of its own
        raise ConfigError(f"{location}: cannot be listed: {error or type(error).__name__}") from error
    scheme = head.partition("://")[0]
    for path, info in details.items():
        if info.get("type") == "directory":
            continue
        url = f"{scheme}://{path}{chain}{rest}" if chain else filesystem.unstrip_protocol(path)
        name = path.removeprefix(base).lstrip("/")
        yield _listed(name, url, int(info.get("size") or 0), _signature(filesystem, path, info))


_TOKENS = ("ETag", "etag", "checksum", "md5Hash", "crc32c", "generation", "VersionId", "version_id")
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "modified", "created")


def _signature(filesystem: Any, path: str, info: dict[str, Any]) -> str:
    facts = [(key, str(info[key])) for key in (*_TOKENS, *_TIMES) if info.get(key) is not None]
    if not facts:
        facts = [("ukey", str(filesystem.ukey(path)))]
    return hashlib.sha256(repr([info.get("size"), *facts]).encode()).hexdigest()
