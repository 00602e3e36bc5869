"""Annotations: from characters of a text to tokens of its document."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from corpus_assets.formats.protocol import RecordRejected
from corpus_assets.sources.rows import LONE_SURROGATE, kind_of, value_at
from corpus_assets.tokenizers.protocol import SpanTable, TextTokens

MISSING_SPANS = "missing_spans"
BAD_SPAN = "bad_span"
EMPTY_SPAN = "empty_span"
SPAN_OUT_OF_TEXT = "span_out_of_text"
SPAN_WITHOUT_TOKENS = "span_without_tokens"


@dataclass(frozen=True, slots=True)
class CharacterSpan:
    """An annotation of the characters `start` to `stop`, exclusive; `value` is JSON."""

    start: int
    stop: int
    value: bytes


def span_table(ranges: Iterable[tuple[int, int, Any]]) -> SpanTable:
    """Annotations `(start, stop, value)` of token ranges as they are stored; a value is whatever JSON can say.

    Raises:
        ValueError, TypeError: a value that JSON cannot say (NaN, bytes, …).
    """
    rows = list(ranges)
    return SpanTable(
        starts=np.array([start for start, _, _ in rows], dtype=np.int64),
        stops=np.array([stop for _, stop, _ in rows], dtype=np.int64),
        values=[as_json(value) for _, _, value in rows],
    )


def as_json(value: Any) -> bytes:
    """Compact JSON in UTF-8.

    Raises:
        ValueError, TypeError: JSON cannot say it.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def read_spans(record: dict[str, Any], field: str, *, length: int) -> list[CharacterSpan]:
    """The annotations at `field` of `record`, whose text has `length` characters.

    Raises:
        RecordRejected: there is no list, or one of its items is no annotation of that text.
    """
    items = value_at(record, field, missing=MISSING_SPANS)
    if items is None:
        raise RecordRejected(MISSING_SPANS, f"{field} is null, expected an array")
    if not isinstance(items, list):
        raise RecordRejected(BAD_SPAN, f"{field} is {kind_of(items)}, expected an array")
    return [_read_span(item, length, f"{field}[{place}]") for place, item in enumerate(items)]


def _read_span(item: Any, length: int, where: str) -> CharacterSpan:
    if not isinstance(item, dict):
        raise RecordRejected(BAD_SPAN, f"{where} is {kind_of(item)}, expected an object")
    if absent := [key for key in ("start", "end", "value") if key not in item]:
        raise RecordRejected(BAD_SPAN, f"{where} has no `{absent[0]}`")
    start, end = item["start"], item["end"]
    for key, position in (("start", start), ("end", end)):
        if not isinstance(position, int) or isinstance(position, bool):
            raise RecordRejected(BAD_SPAN, f"{where}.{key} is {kind_of(position)}, expected a whole number")
    if not 0 <= min(start, end) <= max(start, end) <= length:
        raise RecordRejected(SPAN_OUT_OF_TEXT, f"{where} is {start} to {end}, the text has 0 to {length}")
    if start >= end:
        raise RecordRejected(EMPTY_SPAN, f"{where} is {start} to {end}, expected start before end")
    try:
        return CharacterSpan(start, end, as_json(item["value"]))
    except UnicodeEncodeError:
        raise RecordRejected(LONE_SURROGATE, f"{where}.value") from None
    except (ValueError, TypeError) as error:
        raise RecordRejected(BAD_SPAN, f"{where}.value: {error}") from None


def to_tokens(spans: list[CharacterSpan], tokens: TextTokens) -> SpanTable:
    """`spans` in token positions: from the first to the last token that stands for one of their characters.

    Raises:
        RecordRejected: no token stands for any character of a span, so that it would be lost.
    """
    starts = np.array([span.start for span in spans], dtype=np.int64)
    stops = np.array([span.stop for span in spans], dtype=np.int64)
    # The first token that ends behind the start, and the last one that starts before the end, also where
    # a normaliser changed the order of characters.
    reached = np.maximum.accumulate(tokens.stops)
    ahead = np.minimum.accumulate(tokens.starts[::-1])[::-1]
    first = np.searchsorted(reached, starts, side="right")
    last = np.searchsorted(ahead, stops, side="left")
    if (lost := np.flatnonzero(first >= last)).size:
        span = spans[lost[0]]
        detail = f"no token stands for characters {span.start} to {span.stop}"
        raise RecordRejected(SPAN_WITHOUT_TOKENS, detail)
    return SpanTable(starts=first, stops=last, values=[span.value for span in spans])
