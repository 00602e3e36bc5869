"""What corpora.yaml says about the shape of a document: where in a record its tokens and their values stand."""

from __future__ import annotations

import re
import string
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

BUILT_IN_FORMATS = ("text", "segments", "chat")
LOSS_MASK = "loss_mask"
DEFAULT_TRAIN_ROLES = ("assistant",)
DEFAULT_TEMPLATE = "<|{role}|>\n{content}\n"
# What a reader computes from the document index has these names.
COMPUTED_NAMES = ("document_ids", "position_ids")
_OWN_FORMAT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")

FieldType = Literal[
    "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64"
]
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=100)]


class Section(BaseModel):
    """A part of corpora.yaml; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ValueField(Section):
    """A number of the record that every token of its document gets; `from` names it, `a.b` reaches inside."""

    source: Annotated[str, Field(alias="from", min_length=1)]
    dtype: FieldType = "float32"
    default: float | int | None = None

    @field_validator("default")
    @classmethod
    def _fits(cls, default: float | int | None, info: ValidationInfo) -> float | int | None:
        return default if default is None else number_as(default, info.data.get("dtype", "float32"))


class SpanField(Section):
    """Annotations of characters in the record: a list of objects with `start`, `end` and `value`."""

    source: Annotated[str, Field(alias="from", min_length=1)]


class DocumentShape(Section):
    """What of a record becomes the tokens of its document, and what is stored beside them.

    Attributes:
        text_field: where the text, the segments or the messages stand; `a.b` reaches into nested objects.
        format: `text`, `segments`, `chat`, or an own format as `package.module:Name`.
        train_roles: of `chat`, the roles whose messages are trained on; default: assistant.
        template: of `chat`, the text of one message; default: DEFAULT_TEMPLATE.
        fields: numbers of the record, repeated over its tokens.
        spans: annotations of characters in the record, mapped to tokens.
    """

    text_field: Annotated[str, Field(min_length=1)] = "text"
    format: str = "text"
    train_roles: Annotated[list[str], Field(min_length=1)] | None = None
    template: str | None = None
    fields: dict[Name, ValueField] = {}
    spans: dict[Name, SpanField] = {}

    @field_validator("format")
    @classmethod
    def _is_format(cls, value: str) -> str:
        if value not in BUILT_IN_FORMATS and not _OWN_FORMAT.fullmatch(value):
            raise ValueError(f"expected {', '.join(BUILT_IN_FORMATS)} or package.module:Name")
        return value

    @field_validator("train_roles", "template")
    @classmethod
    def _only_chat(cls, value: Any, info: ValidationInfo) -> Any:
        if value is not None and info.data.get("format") != "chat":
            raise ValueError("has no effect without `format: chat`")
        return value

    @field_validator("template")
    @classmethod
    def _is_template(cls, template: str | None) -> str | None:
        if template is not None:
            split_template(template)
        return template

    @field_validator("fields")
    @classmethod
    def _free_names(cls, fields: dict[str, ValueField], info: ValidationInfo) -> dict[str, ValueField]:
        taken = {LOSS_MASK} if info.data.get("format") in ("segments", "chat") else set()
        if clash := sorted(fields.keys() & taken.union(COMPUTED_NAMES)):
            raise ValueError(f"{clash[0]} is made by the format or by the reader, expected another name")
        return fields

    @field_validator("spans")
    @classmethod
    def _has_text(cls, spans: dict[str, SpanField], info: ValidationInfo) -> dict[str, SpanField]:
        if spans and info.data.get("format", "text") not in BUILT_IN_FORMATS:
            raise ValueError("characters are known for built-in formats only; an own format packs its spans")
        return spans

    @property
    def is_plain(self) -> bool:
        """Whether a document is one text and nothing is stored beside its tokens."""
        return not self.shape_options

    @property
    def shape_options(self) -> dict[str, Any]:
        """The options that differ from one text per record; empty for that."""
        given = self.model_dump(include={"format", "train_roles", "template", "fields", "spans"}, mode="json")
        plain: dict[str, Any] = {
            "format": "text",
            "train_roles": None,
            "template": None,
            "fields": {},
            "spans": {},
        }
        return {name: value for name, value in given.items() if value != plain[name]}


def split_template(template: str) -> tuple[list[str], list[str]]:
    r"""What stands before and behind the content of a message, each as texts between which the role stands.

    `"<|{role}|>\n{content}\n"` is `(["<|", "|>\n"], ["\n"])`.

    Raises:
        ValueError: not exactly one `{content}`, or another placeholder; `{{` and `}}` are braces.
    """
    before: list[str] = [""]
    behind: list[str] = [""]
    part, contents = before, 0
    for literal, name, spec, conversion in string.Formatter().parse(template):
        part[-1] += literal
        if name == "role" and not spec and not conversion:
            part.append("")
        elif name == "content" and not spec and not conversion:
            part, contents = behind, contents + 1
        elif name is not None:
            raise ValueError(f"found {{{name}}}, expected {{role}} and one {{content}}")
    if contents != 1:
        raise ValueError(f"found {contents} times {{content}}, expected it once")
    return before, behind


def number_as(value: object, dtype: str) -> float | int:
    """`value` as a finite number that `dtype` holds, rounding of floats aside.

    Raises:
        ValueError: it is no such number.
    """
    import numpy as np

    kind = np.dtype(dtype)
    if not isinstance(value, int | float):
        raise ValueError(f"found {type(value).__name__}, expected a number")
    if kind.kind == "f":
        if not abs(value) <= float(np.finfo(kind).max):
            raise ValueError(f"found {value}, expected a finite {dtype}")
        return float(value)
    bounds = np.iinfo(kind)
    if (isinstance(value, float) and not value.is_integer()) or not bounds.min <= value <= bounds.max:
        raise ValueError(f"found {value}, expected a whole number from {bounds.min} to {bounds.max}")
    return int(value)
