"""shards.json: the ordered token shards of a corpus, published as one file and verified at every load."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from corpus_assets.errors import IndexMismatchError, MissingShardsError
from corpus_assets.shards.publish import publish_bytes, scratch_folder
from corpus_assets.shards.records import FORMAT_VERSION, ShardIndex, ShardInfo

INDEX = "shards.json"
SHARDS = "shards"
RELEASES = "releases"
_NAMED_IN_ERROR = 20


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
    publish_bytes(
        record_path(root, info.key), orjson.dumps(info, option=orjson.OPT_INDENT_2), scratch=scratch
    )


def current_shard(root: Path, key: str) -> ShardInfo | None:
    """The current shard of `key`; None if there is none or its file is not there whole.

    Raises:
        IndexMismatchError: the record is damaged.
    """
    path = record_path(root, key)
    try:
        info = _parse([orjson.loads(path.read_bytes())], where=path)[0]
        return info if (root / info.path).stat().st_size == info.file_bytes else None
    except FileNotFoundError:
        return None
    except orjson.JSONDecodeError as error:
        raise IndexMismatchError(f"{path}: not JSON: {error}; `corpus repair` rebuilds this shard") from error


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
    document["checksum"] = _checksum(document)
    publish_bytes(
        path, orjson.dumps(document, option=orjson.OPT_INDENT_2), scratch=scratch_folder(index.root)
    )


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
        document = orjson.loads(file.read_bytes())
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
    if (version := document.get("format_version")) != FORMAT_VERSION:
        raise IndexMismatchError(f"{file}: format_version is {version!r}, expected {FORMAT_VERSION}")
    if (recorded := document.pop("checksum", None)) != (found := _checksum(document)):
        raise IndexMismatchError(f"{file}: checksum is {found}, the file says {recorded}: it was damaged")
    rows = [
        {**row, "tokenizer": document["tokenizer"]} if isinstance(row, dict) else row
        for row in document["shards"]
    ]
    index = ShardIndex(shards=_parse(rows, where=file), root=root)
    _check_order(index, where=file)
    if index.fingerprint != document.get("fingerprint"):
        raise IndexMismatchError(
            f"{file}: fingerprint is {index.fingerprint}, the file says {document.get('fingerprint')}"
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


def _checksum(document: dict[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _parse(rows: list[Any], *, where: Path) -> tuple[ShardInfo, ...]:
    """Rows as records, each field of the right type, each path inside the corpus."""
    from pydantic import TypeAdapter, ValidationError

    try:
        shards = TypeAdapter(tuple[ShardInfo, ...]).validate_python(rows)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise IndexMismatchError(f"{where}: shard {place}: {first['msg']}") from error
    for shard in shards:
        path = PurePosixPath(shard.path)
        counts = (
            shard.token_count,
            shard.document_count,
            shard.file_bytes,
            shard.data_offset,
            shard.data_bytes,
            *shard.extents.values(),
        )
        if path.is_absolute() or ".." in path.parts or "\\" in shard.path or "\0" in shard.path:
            raise IndexMismatchError(
                f"{where}: shard {shard.key}: path {shard.path!r} leads out of the corpus"
            )
        if min(counts) < 0 or shard.chunk_size < 1 or shard.dtype not in ("uint16", "uint32"):
            raise IndexMismatchError(f"{where}: shard {shard.key}: counts, chunk_size or dtype out of range")
    return shards


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
