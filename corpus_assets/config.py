"""CorpusConfig: all that decides a corpus's content and place, read from corpora.yaml."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import Field, ValidationError, field_validator

from corpus_assets.errors import ConfigError
from corpus_assets.shapes import DocumentShape, Section

DEFAULT_CONFIG = Path("data/corpora.yaml")
TARGET_CHUNK_TOKENS = 64 * 1024
# A random window decodes a whole chunk: smaller ones read faster, and hardly take more room.
TARGET_COMPRESSED_CHUNK_TOKENS = 16 * 1024

Compression = Literal["none", "gzip", "lzf", "zstd", "zstd-dict", "blosc2"]
_CRON_RANGES = {
    "minute": (0, 59),
    "hour": (0, 23),
    "day of month": (1, 31),
    "month": (1, 12),
    "day of week": (0, 7),
}


class ScheduleConfig(Section):
    """When the nightly rebuild of a corpus ticks, and whether it trains afterwards."""

    cron: str = "0 2 * * *"
    timezone: str = "UTC"
    train: bool = False

    @field_validator("cron")
    @classmethod
    def _is_cron(cls, cron: str) -> str:
        fields = cron.split()
        if len(fields) != len(_CRON_RANGES):
            raise ValueError("expected five fields: minute, hour, day of month, month, day of week")
        for field, (name, (least, most)) in zip(fields, _CRON_RANGES.items(), strict=True):
            starts = (part.partition("/")[0] for part in field.split(","))
            numbers = [int(number) for start in starts for number in re.findall(r"\d+", start)]
            if not re.fullmatch(r"[\w*,/#?-]+", field) or any(not least <= n <= most for n in numbers):
                raise ValueError(f"{name}: found {field}, expected * or {least} to {most}")
        return cron

    @field_validator("timezone")
    @classmethod
    def _is_timezone(cls, timezone: str) -> str:
        from zoneinfo import ZoneInfo

        try:
            ZoneInfo(timezone)
        except (KeyError, ValueError, OSError) as error:
            raise ValueError("expected an IANA time zone such as Europe/Berlin") from error
        return timezone


class TrainingConfig(Section):
    """The command that trains on a released corpus; None runs the reference trainer."""

    command: list[str] | None = None
    steps: Annotated[int, Field(ge=1)] = 200
    batch_size: Annotated[int, Field(ge=1)] = 16
    mask_boundary: bool = True


class StatisticsConfig(Section):
    """Thresholds of the corpus_statistics checks; a breach blocks the release only where `blocking`."""

    min_documents: Annotated[int, Field(ge=0)] = 1
    max_boundary_share: Annotated[float, Field(gt=0, le=1)] = 0.2
    max_reject_share: Annotated[float, Field(ge=0, le=1)] = 0.01
    blocking: bool = False


class CorpusConfig(DocumentShape):
    """One corpus of corpora.yaml.

    Paths are absolute after loading. `input` is a folder, a glob or an fsspec URL.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=100)]
    input: Annotated[str, Field(min_length=1)]
    root: Path
    tokenizer: Annotated[str, Field(min_length=1)] = "byte"
    boundary_token: str | None = None
    window_size: Annotated[int, Field(ge=1)] = 1024
    chunk_size: Annotated[int, Field(ge=1)] | None = None
    compression: Compression = "none"
    max_document_tokens: Annotated[int, Field(ge=1)] | None = None
    max_reject_fraction: Annotated[float, Field(ge=0, le=1)] = 0.01
    max_line_bytes: Annotated[int, Field(ge=1)] = 64 * 1024 * 1024
    max_quarantine_bytes: Annotated[int, Field(ge=1)] = 1024**3
    document_timeout: Annotated[float, Field(gt=0)] = 60.0
    follow_symlinks: bool = False
    workers: Annotated[int, Field(ge=1)] | None = None
    partitions_per_run: Annotated[int, Field(ge=1)] | None = None
    throughput_floor: Annotated[float, Field(ge=0, le=1)] = 0.5
    schedule: ScheduleConfig = ScheduleConfig()
    statistics: StatisticsConfig = StatisticsConfig()
    training: TrainingConfig = TrainingConfig()

    @field_validator("input", "root", "tokenizer")
    @classmethod
    def _can_be_a_path(cls, place: str | Path) -> str | Path:
        if "\0" in str(place):
            raise ValueError("expected a path without a NUL character")
        return place

    @property
    def index_path(self) -> Path:
        return self.root / "shards.json"

    @property
    def tokens_per_chunk(self) -> int:
        """Chunk size of the token datasets, in tokens."""
        return self.chunk_size or default_chunk_size(self.window_size, compression=self.compression)

    @property
    def options_fingerprint(self) -> str:
        """sha256 over the options that decide the content of a shard, tokenizer and input aside."""
        options = {
            "text_field": self.text_field,
            "window_size": self.window_size,
            "chunk_size": self.tokens_per_chunk,
            "compression": self.compression,
            "max_document_tokens": self.max_document_tokens,
            "max_line_bytes": self.max_line_bytes,
            **self.shape_options,
        }
        return hashlib.sha256(json.dumps(options, sort_keys=True).encode()).hexdigest()


def default_chunk_size(window_size: int, *, compression: str = "none") -> int:
    """The smallest multiple of `window_size` that is at least 64 Ki tokens; compressed, 16 Ki."""
    target = TARGET_CHUNK_TOKENS if compression == "none" else TARGET_COMPRESSED_CHUNK_TOKENS
    return -(-target // window_size) * window_size


def find_config(path: str | Path | None = None) -> Path:
    """`path`, else $CORPUS_CONFIG, else data/corpora.yaml in the working folder or one above it."""
    named = path or os.environ.get("CORPUS_CONFIG")
    if named:
        return Path(named).absolute()
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / DEFAULT_CONFIG).is_file():
            return folder / DEFAULT_CONFIG
    raise ConfigError(
        f"{here / DEFAULT_CONFIG}: no such file, neither here nor in a folder above; "
        "expected --config FILE, CORPUS_CONFIG or `corpus init FOLDER`"
    )


def project_folder(config_path: Path) -> Path:
    """The folder that relative paths start from: where workspace.yaml stands, else the file's own."""
    for folder in config_path.parents:
        if (folder / "workspace.yaml").is_file():
            return folder
    return config_path.parent


def load_config(path: str | Path | None = None) -> dict[str, CorpusConfig]:
    """The corpora of corpora.yaml, by name, in the file's order.

    Raises:
        ConfigError: naming the file, the corpus and the key of everything that is wrong.
    """
    file = find_config(path)
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}; expected a corpora.yaml") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not YAML: {error}") from error
    if not isinstance(document, dict) or set(document) != {"corpora"}:
        found = sorted(map(str, document)) if isinstance(document, dict) else type(document).__name__
        raise ConfigError(f"{file}: found {found}, expected one top-level key `corpora`")
    entries = document["corpora"]
    if not isinstance(entries, dict) or not entries:
        raise ConfigError(f"{file}: `corpora` is empty, expected at least one corpus")
    corpora = {
        str(name): parse_corpus(str(name), entry, base=project_folder(file), where=str(file))
        for name, entry in entries.items()
    }
    refuse_unfit_roots(corpora.values(), where=str(file))
    return corpora


def parse_corpus(name: str, entry: Any, *, base: Path, where: str) -> CorpusConfig:
    """One entry of corpora.yaml as a CorpusConfig, its paths made absolute from `base`.

    Raises:
        ConfigError: naming `where`, the corpus and each wrong key.
    """
    if not isinstance(entry, dict):
        raise ConfigError(f"{where}: corpus {name}: found {type(entry).__name__}, expected keys and values")
    try:
        config = CorpusConfig(name=name, **{str(key): value for key, value in entry.items()})
    except ValidationError as error:
        problems = "\n".join(_problem(item) for item in error.errors())
        raise ConfigError(f"{where}: corpus {name}:\n{problems}") from error
    except TypeError as error:
        raise ConfigError(f"{where}: corpus {name}: `name` is the key of the entry, not an option") from error
    return config.model_copy(
        update={
            "input": _absolute(config.input, base),
            "root": (base / config.root.expanduser()).absolute(),
            "tokenizer": _absolute_tokenizer(config.tokenizer, base),
        }
    )


def _problem(item: Any) -> str:
    key = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        return f"  {key}: unknown key, expected one of: {', '.join(sorted(_keys_beside(item['loc'])))}"
    if item["type"] == "missing":
        return f"  {key}: missing"
    return f"  {key}: found {item['input']!r}: {item['msg']}"


def _keys_beside(loc: tuple[int | str, ...]) -> set[str]:
    model: Any = CorpusConfig
    for part in loc[:-1]:
        # In a mapping of names to sections the part is a name.
        section = isinstance(model, type)
        model = model.model_fields[str(part)].annotation if section else get_args(model)[1]
    return {field.alias or name for name, field in model.model_fields.items()} - {"name"}


def _absolute(location: str, base: Path) -> str:
    if "://" in location or "::" in location:
        return location
    return str((base / Path(location).expanduser()).absolute())


def _absolute_tokenizer(spec: str, base: Path) -> str:
    """A path becomes absolute; `byte` and encoding names stay."""
    is_path = "/" in spec or spec.endswith((".json", ".tiktoken"))
    return str((base / Path(spec).expanduser()).absolute()) if is_path else spec


def refuse_unfit_roots(corpora: Iterable[CorpusConfig], *, where: str) -> None:
    """Each root is a folder, or can become one, of its own: links and `..` lead to no other corpus or input.

    Raises:
        ConfigError: naming `where`, the corpus and its root.
    """
    seen: dict[Path, str] = {}
    for config in corpora:
        name = config.name
        root = Path(os.path.realpath(config.root))
        there = next(path for path in (root, *root.parents) if os.path.lexists(path))
        if not os.path.isdir(there):
            raise ConfigError(
                f"{where}: corpus {name}: root {config.root}: {there} is a file, expected a folder"
            )
        if "://" not in config.input and root == Path(os.path.realpath(config.input)):
            raise ConfigError(
                f"{where}: corpus {name}: root {config.root} is its input too, expected a folder of its own"
            )
        for other_root, other in seen.items():
            if root == other_root or root in other_root.parents or other_root in root.parents:
                raise ConfigError(
                    f"{where}: corpus {name}: root {config.root} overlaps the root of corpus {other}, "
                    "expected a folder of its own"
                )
        seen[root] = name
