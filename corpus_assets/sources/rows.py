"""From one JSON line to the record or the text in it, or to the reason why there is none."""

from __future__ import annotations

import json
from typing import Any

import orjson

BAD_UTF8 = "bad_utf8"
BAD_JSON = "bad_json"
NOT_AN_OBJECT = "not_an_object"
MISSING_TEXT = "missing_text"
NULL_TEXT = "null_text"
TEXT_NOT_A_STRING = "text_not_a_string"
LONE_SURROGATE = "lone_surrogate"
LINE_TOO_LONG = "line_too_long"
REASONS = (
    BAD_UTF8,
    BAD_JSON,
    NOT_AN_OBJECT,
    MISSING_TEXT,
    NULL_TEXT,
    TEXT_NOT_A_STRING,
    LONE_SURROGATE,
    LINE_TOO_LONG,
)

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MISSING = object()


class RowError(Exception):
    """One row is not a document: one of a few reasons, and what was found. Caught before it leaves a build."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


def parse_row(line: bytes) -> Any:
    """The JSON value of one line; NaN, Infinity and a byte-order mark in front are accepted.

    Raises:
        RowError: the line is not UTF-8 or not JSON.
    """
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as strict:
        try:
            # orjson is stricter than JSON as people write it: NaN, Infinity, escaped lone surrogates.
            return json.loads(line.removeprefix(BYTE_ORDER_MARK).decode("utf-8"))
        except UnicodeDecodeError as error:
            raise RowError(BAD_UTF8, f"byte {error.start}: {error.reason}") from None
        except RecursionError:
            raise RowError(BAD_JSON, "nested too deeply") from None
        except ValueError:
            raise RowError(BAD_JSON, str(strict)) from None


def record_of(value: Any) -> dict[str, Any]:
    """The parsed row as a record.

    Raises:
        RowError: it is no object.
    """
    if not isinstance(value, dict):
        raise RowError(NOT_AN_OBJECT, f"found {kind_of(value)}")
    return value


def value_at(record: dict[str, Any], field: str, *, missing: str = MISSING_TEXT) -> Any:
    """What stands in `record` at `field`.

    A key that equals `field` wins; otherwise `a.b` is key `b` of the object at key `a`.

    Raises:
        RowError: nothing does; with the reason `missing`.
    """
    value = record.get(field, _MISSING)
    if value is _MISSING and "." in field:
        value = record
        for part in field.split("."):
            value = value.get(part, _MISSING) if isinstance(value, dict) else _MISSING
    if value is _MISSING:
        found = ", ".join(json.dumps(key)[:40] for key in list(record)[:8])
        raise RowError(missing, f"no field {field}; found {found or 'no field'}")
    return value


def text_of(value: Any, field: str) -> str:
    """The text of a parsed row at `field`.

    Raises:
        RowError: with one of the fixed reasons.
    """
    text = value_at(record_of(value), field)
    if text is None:
        raise RowError(NULL_TEXT, f"{field} is null")
    if not isinstance(text, str):
        raise RowError(TEXT_NOT_A_STRING, f"{field} is {kind_of(text)}")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise RowError(LONE_SURROGATE, f"character {error.start} of {field}") from None
    return text


def kind_of(value: Any) -> str:
    """What JSON calls a value."""
    names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number"}
    names |= {str: "a string", list: "an array", dict: "an object"}
    return names.get(type(value), type(value).__name__)
