"""docs/configuration.md against the configuration itself: no key is missing, no default or effect is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from corpus_assets.config import CorpusConfig, parse_corpus
from corpus_assets.formats import content_fingerprint
from corpus_assets.tokenizers import load_tokenizer
from corpus_assets_tests.cli.test_bad_input import word_tokenizer

PAGE = Path(__file__).parents[2] / "docs/configuration.md"
ROW = re.compile(
    r"^\| `(?P<key>[\w.]+)` \| (?P<default>`[^|]+`|required) \| (?P<rebuilds>yes|no) \| ", re.MULTILINE
)
REQUIRED = "required"

BASE = {"input": "in", "root": "out", "tokenizer": "words.json", "boundary_token": "end"}
# Another value of each key, and what else must be said for it to make sense.
OTHER: dict[str, tuple[Any, dict[str, Any]]] = {
    "input": ("other", {}),
    "root": ("other", {}),
    "follow_symlinks": (True, {}),
    "tokenizer": ("other.json", {}),
    "boundary_token": ("b", {}),
    "text_field": ("body", {}),
    "max_document_tokens": (9, {}),
    "max_line_bytes": (9, {}),
    "document_timeout": (9.0, {}),
    "max_reject_fraction": (0.5, {}),
    "max_quarantine_bytes": (4096, {}),
    "format": ("chat", {}),
    "train_roles": (["user"], {"format": "chat"}),
    "template": ("{content}", {"format": "chat"}),
    "fields": ({"w": {"from": "w"}}, {}),
    "fields.w.from": ("v", {"fields": {"w": {"from": "w"}}}),
    "fields.w.dtype": ("int8", {"fields": {"w": {"from": "w"}}}),
    "fields.w.default": (1, {"fields": {"w": {"from": "w"}}}),
    "spans": ({"s": {"from": "s"}}, {}),
    "spans.s.from": ("r", {"spans": {"s": {"from": "s"}}}),
    "window_size": (7, {}),
    "chunk_size": (7, {}),
    "compression": ("zstd", {}),
    "workers": (7, {}),
    "partitions_per_run": (7, {}),
    "schedule.cron": ("1 1 * * *", {}),
    "schedule.timezone": ("Europe/Berlin", {}),
    "schedule.train": (True, {}),
    "statistics.min_documents": (7, {}),
    "statistics.max_boundary_share": (0.7, {}),
    "statistics.max_reject_share": (0.7, {}),
    "statistics.blocking": (True, {}),
    "throughput_floor": (0.7, {}),
    "training.command": (["train"], {}),
    "training.steps": (7, {}),
    "training.batch_size": (7, {}),
    "training.mask_boundary": (False, {}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentedKey:
    """A row of a table: `default` as YAML, `required` without quotes where there is none."""

    key: str
    default: str
    rebuilds: bool


def documented() -> list[DocumentedKey]:
    return [
        DocumentedKey(key=row["key"], default=row["default"].strip("`"), rebuilds=row["rebuilds"] == "yes")
        for row in ROW.finditer(PAGE.read_text(encoding="utf-8"))
    ]


def keys_of(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every key of a section with its default, those of sections inside it included."""
    for name, field in model.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from keys_of(kind, f"{key}.")
            continue
        yield key, REQUIRED if field.default is PydanticUndefined else field.default
        inner = get_args(kind)
        if len(inner) == 2 and isinstance(inner[1], type) and issubclass(inner[1], BaseModel):
            yield from keys_of(inner[1], f"{key}.NAME.")


def test_every_key_is_documented_with_its_default():
    expected = {key: default for key, default in keys_of(CorpusConfig) if key != "name"}
    rows = documented()
    assert len({row.key for row in rows}) == len(rows)
    found = {
        row.key: REQUIRED if row.default == REQUIRED else yaml.safe_load(f"x: {row.default}")["x"]
        for row in rows
    }
    assert found == expected


@pytest.fixture
def parsed(tmp_path):
    """`parsed(**entry)`: an entry as a CorpusConfig, in a folder with two tokenizers."""
    word_tokenizer(tmp_path / "words.json", a=0, b=1, end=2)
    word_tokenizer(tmp_path / "other.json", b=0, a=1, end=2)

    def parse(**entry: Any) -> CorpusConfig:
        return parse_corpus("c", entry, base=tmp_path, where="here")

    return parse


def shard_identity(config: CorpusConfig) -> tuple[str, str]:
    """What, beside the input's content, the name of a shard's build is made of."""
    tokenizer = load_tokenizer(config.tokenizer, boundary_token=config.boundary_token)
    return tokenizer.fingerprint, content_fingerprint(config)


def changed(entry: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """`entry` with `value` at the dotted `key`."""
    name, _, rest = key.partition(".")
    return {**entry, name: changed(entry.get(name, {}), rest, value) if rest else value}


def test_the_page_says_of_every_key_whether_it_rebuilds(parsed):
    assert {key.replace(".w.", ".NAME.").replace(".s.", ".NAME.") for key in OTHER} == {
        row.key for row in documented()
    }
    rebuilds = {row.key: row.rebuilds for row in documented()}
    found = {}
    for key, (value, needed) in OTHER.items():
        entry = {**BASE, **needed}
        before, after = parsed(**entry), parsed(**changed(entry, key, value))
        assert before != after, key
        name = key.replace(".w.", ".NAME.").replace(".s.", ".NAME.")
        found[name] = shard_identity(before) != shard_identity(after)
    assert found == rebuilds


def test_the_example_of_the_page_is_an_entry(tmp_path):
    example = re.search(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    for name, entry in yaml.safe_load(example[1])["corpora"].items():
        assert parse_corpus(name, entry, base=tmp_path, where="here").name == name
