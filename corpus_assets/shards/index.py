"""shards.json: the ordered token shards of a corpus, published as one file and verified at every load."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import orjson

from corpus_assets.errors import IndexMismatchError, MissingShardsError, one_line
from corpus_assets.shards.checksum import CHECKSUM, refuse_changed, with_checksum
from corpus_assets.shards.publish import publish_bytes, scratch_folder
from corpus_assets.shards.records import FORMAT_VERSION, ShardIndex, ShardInfo
from corpus_assets.shards.regular import read_regular

if TYPE_CHECKING:
    from pydantic import TypeAdapter

INDEX = "shards.json"
SHARDS = "shards"
RELEASES = "releases"
_NAMED_IN_ERROR = 20
_KEY = re.compile(r"[A-Za-z0-9._-]{1,255}")
_CHUNK_BYTES = 2**32  # HDF5's limit
_LARGEST = 2**62  # sums and differences of two such numbers fit 64 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexChange:
    """Keys that came, went or point to other content between two generations of an index."""

    added: tuple[str, ...]
    dropped: tuple[str, ...]
    changed: tuple[str, ...]


def record_path(root: Path, key: str) -> Path:
    """Where the record of the current shard of `key` stands."""
    return root / SHARDS / f"{key}.json"


def publish_record(root: Path, info: ShardInfo, *, scratch: Path) -> None:
    """Make `info` the current shard of its key."""
    publish_bytes(record_path(root, info.key), with_checksum(asdict(info)), scratch=scratch)


def current_shard(root: Path, key: str) -> ShardInfo | None:
    """The current shard of `key`; None if there is none or its file is not there whole.

    Raises:
        IndexMismatchError: the record is damaged.
    """
    path = record_path(root, key)
    try:
        document = orjson.loads(read_regular(path))
        if isinstance(document, dict) and CHECKSUM in document:  # earlier versions wrote none
            refuse_changed(document, where=path)
        info = _parse([document], where=path)[0]
        return info if (root / info.path).stat().st_size == info.file_bytes else None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise IndexMismatchError(f"{path}: {error.strerror}, expected the record of a shard") from error
    except orjson.JSONDecodeError as error:
        raise IndexMismatchError(
            f"{path}: not JSON: {error}; `corpus build` builds this shard anew"
        ) from error


def write_index(root: Path, keys: Sequence[str]) -> ShardIndex:
    """Index the current shards of exactly `keys`, and publish shards.json.

    Raises:
        MissingShardsError: naming the keys without a current shard; nothing is published.
        IndexMismatchError: shards of different tokenizers, dtypes or formats, naming the odd ones.
    """
    found = {key: current_shard(root, key) for key in keys}
    if missing := [key for key, info in found.items() if info is None]:
        raise MissingShardsError(
            f"{root}: {len(missing)} of {len(keys)} input shards have no token shard: {_listed(missing)}; "
            "expected all of them before the index is written"
        )
    index = ShardIndex.of((info for info in found.values() if info is not None), root)
    refuse_mixture(index)
    publish_index(index, root / INDEX)
    return index


def publish_index(index: ShardIndex, path: Path) -> None:
    """Publish `index` at `path`, a file in the corpus root or a folder of it."""
    tokenizer = index.tokenizer
    document: dict[str, Any] = {
        "format_version": index.format_version,
        "fingerprint": index.fingerprint,
        "token_count": index.token_count,
        "document_count": index.document_count,
        "tokenizer": None if tokenizer is None else asdict(tokenizer),
        "shards": [_row(shard) for shard in index.shards],
    }
    publish_bytes(path, with_checksum(document), scratch=scratch_folder(index.root))


def load_index(path: str | Path) -> ShardIndex:
    """The index at `path`: shards.json, its folder, or a released generation.

    Raises:
        IndexMismatchError: missing, cut, damaged or contradicting itself.
    """
    file = Path(path).absolute()
    if file.is_dir():
        file = file / INDEX
    root = file.parent.parent if file.parent.name == RELEASES else file.parent
    try:
        document = orjson.loads(read_regular(file))
    except FileNotFoundError as error:
        raise IndexMismatchError(
            f"{file}: no such file, expected the shards.json of a built corpus"
        ) from error
    except OSError as error:
        raise IndexMismatchError(f"{file}: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        raise IndexMismatchError(f"{file}: not JSON: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("shards"), list):
        raise IndexMismatchError(f"{file}: not an index, expected an object with `shards`")
    version = document.get("format_version")
    if version != FORMAT_VERSION:
        raise IndexMismatchError(f"{file}: format_version is {one_line(version)}, expected {FORMAT_VERSION}")
    refuse_changed(document, where=file)
    tokenizer = document.get("tokenizer")
    rows = [{**row, "tokenizer": tokenizer} if isinstance(row, dict) else row for row in document["shards"]]
    index = ShardIndex(shards=_parse(rows, where=file), root=root)
    _check_order(index, where=file)
    if index.fingerprint != document.get("fingerprint"):
        raise IndexMismatchError(
            f"{file}: fingerprint is {index.fingerprint}, "
            f"the file says {one_line(document.get('fingerprint'))}"
        )
    return index


def compare_indexes(old: ShardIndex | None, new: ShardIndex) -> IndexChange:
    """What `new` adds, drops and changes against `old`."""
    before = {} if old is None else {shard.key: shard.sha256 for shard in old.shards}
    after = {shard.key: shard.sha256 for shard in new.shards}
    return IndexChange(
        added=tuple(sorted(after.keys() - before.keys())),
        dropped=tuple(sorted(before.keys() - after.keys())),
        changed=tuple(sorted(key for key in after.keys() & before.keys() if after[key] != before[key])),
    )


def refuse_mixture(index: ShardIndex) -> None:
    """Raise IndexMismatchError where shards differ in what must be one; names the odd ones."""
    for what, value_of in (
        ("tokenizer fingerprint", lambda shard: shard.tokenizer.fingerprint),
        ("dtype", lambda shard: shard.dtype),
        ("fields", lambda shard: str(sorted(shard.fields.items()))),
        ("spans", lambda shard: str(sorted(shard.spans))),
        ("format", lambda shard: shard.format),
        ("format_version", lambda shard: shard.format_version),
    ):
        usual = Counter(map(value_of, index.shards)).most_common(1)
        odd = [shard.key for shard in index.shards if value_of(shard) != usual[0][0]]
        if odd:
            raise IndexMismatchError(
                f"{index.root}: {what} of {_listed(odd)} is not that of the other "
                f"{len(index.shards) - len(odd)} shards, {usual[0][0]}; rebuild them"
            )


def _row(shard: ShardInfo) -> dict[str, Any]:
    row = asdict(shard)
    del row["tokenizer"]  # one for all, recorded once
    return row


@cache
def _rows_adapter() -> TypeAdapter[tuple[ShardInfo, ...]]:
    """Made once: it takes milliseconds, and a nightly tick reads thousands of records."""
    from pydantic import TypeAdapter as Adapter

    return Adapter(tuple[ShardInfo, ...])


def _parse(rows: list[Any], *, where: Path) -> tuple[ShardInfo, ...]:
    """Rows as records, each field of the right type and in its range, each path inside the corpus."""
    from pydantic import ValidationError

    try:
        shards = _rows_adapter().validate_python(rows)
    except ValidationError as error:
        first = error.errors()[0]
        place = one_line(".".join(map(str, first["loc"])))
        raise IndexMismatchError(f"{where}: shard {place}: {first['msg']}") from error
    for shard in shards:
        _check_row(shard, where=f"{where}: shard {one_line(shard.key)}")
    return shards


def _check_row(shard: ShardInfo, *, where: str) -> None:
    if not _KEY.fullmatch(shard.key):
        raise IndexMismatchError(f"{where}: expected a key of at most 255 letters, digits, `.`, `_` and `-`")
    path = PurePosixPath(shard.path)
    if path.is_absolute() or ".." in path.parts or "\\" in shard.path or "\0" in shard.path:
        raise IndexMismatchError(f"{where}: path {one_line(shard.path)} leads out of the corpus")
    ledger = shard.ledger
    counts = {
        "token_count": shard.token_count,
        "document_count": shard.document_count,
        "file_bytes": shard.file_bytes,
        "input_bytes": shard.input_bytes,
        "data_offset": shard.data_offset,
        "data_bytes": shard.data_bytes,
        "window_size": shard.window_size - 1,
        **{f"extents of {name}": offset for name, offset in shard.extents.items()},
        **{f"ledger: {name}": getattr(ledger, name) for name in ("rows", "documents", "blank")},
        **{f"ledger: {reason}": count for reason, count in ledger.rejected.items()},
    }
    for name, count in counts.items():
        if not 0 <= count < _LARGEST:
            raise IndexMismatchError(f"{where}: {one_line(name)} is out of range")
    if shard.dtype not in ("uint16", "uint32"):
        raise IndexMismatchError(f"{where}: dtype is {one_line(shard.dtype)}, expected uint16 or uint32")
    if not 1 <= shard.chunk_size < _CHUNK_BYTES // (2 if shard.dtype == "uint16" else 4):
        raise IndexMismatchError(f"{where}: chunk_size is out of range")


def _check_order(index: ShardIndex, *, where: Path) -> None:
    placed = ShardIndex.of(index.shards, index.root)
    if len({shard.key for shard in index.shards}) != len(index.shards):
        raise IndexMismatchError(f"{where}: a key occurs twice")
    for shard, expected in zip(index.shards, placed.shards, strict=True):
        if shard.key != expected.key or shard.global_start != expected.global_start:
            raise IndexMismatchError(
                f"{where}: shard {shard.key} starts at {shard.global_start}, "
                f"expected shard {expected.key} at {expected.global_start}"
            )


def _listed(keys: Sequence[str]) -> str:
    more = len(keys) - _NAMED_IN_ERROR
    return ", ".join(keys[:_NAMED_IN_ERROR]) + (f" and {more} more" if more > 0 else "")
