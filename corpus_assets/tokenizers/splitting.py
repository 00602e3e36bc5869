r"""How a tokenizer.json splits a text into pieces, as one regular expression that tiktoken runs.

Both libraries take the leftmost match of the first alternative that fits, but their engines differ in
syntax and may differ in their Unicode tables. So a pattern is passed on only when it is made of constructs
that mean the same in both (`is_portable`), and the classes it uses are compared over Unicode, once, by
`differing_characters`.

Lookahead sees past the end of a piece that an earlier step cut, so two splitting steps are not one
pattern; the two exceptions that are written out here (Digits before ByteLevel) were derived by hand.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

BYTE_LEVEL_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# A piece ends before a number, so white space is looked at as if the text ended there.
_AFTER_DIGITS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+"
_DIGITS_PATTERNS = {True: rf"\p{{N}}|{_AFTER_DIGITS}", False: rf"\p{{N}}+|{_AFTER_DIGITS}"}
_WHOLE_TEXT = r"(?s:.+)"

_CLASS = r"\\[pP]\{(?:L[ultmo]?|N[dlo]?|M[nce]?|P|S|Z)\}|\\[sS]"
_ESCAPE = r"\\[rnt]|\\[\\^$.|?*+()\[\]{}/'\"-]"
_CONSTRUCT = re.compile(
    rf"""
      {_CLASS} | {_ESCAPE}
    | \[\^?(?:{_CLASS}|{_ESCAPE}|[A-Za-z0-9](?:-[A-Za-z0-9])?|[ '"!?*+/_.,;:%@=])+\]
    | \(\?i:[A-Za-z'|\[\]]+\)
    | \((?:\?[:!=]|(?!\?)) | \) | \|
    | (?:[*+?]\+?|\{{\d{{1,4}}(?:,\d{{0,4}})?\}})(?![*+?{{])
    | [A-Za-z0-9 '"_/,;:<>=!@%~`-]
    """,
    re.VERBOSE,
)
# Sequences for which some engines know one character that equals them when case is ignored.
_LIGATURES = ("ff", "fi", "fl", "ss", "st")
# Code points of planes 0 to 3 and 14, surrogates aside: the others hold nothing or private characters in
# every Unicode version so far.
ASSIGNABLE = [*range(0xD800), *range(0xE000, 0x40000), *range(0xE0000, 0xF0000)]
UNASSIGNABLE = range(0x40000, 0xE0000)


class NotCompilable(Exception):
    """Why a tokenizer.json stays with its reference implementation."""


@dataclass(frozen=True, slots=True)
class Splitting:
    """What happens to a text before its pieces are encoded.

    Attributes:
        pattern: what a piece is.
        prefix_space: a text that does not begin with a space gets one.
    """

    pattern: str
    prefix_space: bool = False


def translate_splitting(pre_tokenizer: Any) -> Splitting:
    """The splitting of the `pre_tokenizer` section of a tokenizer.json.

    Raises:
        NotCompilable: it is not known to be one pattern.
    """
    steps = _steps(pre_tokenizer)
    kinds = [step.get("type") for step in steps]
    if kinds == ["ByteLevel"]:
        pattern = BYTE_LEVEL_PATTERN if steps[0].get("use_regex", True) else _WHOLE_TEXT
        return Splitting(pattern, prefix_space=bool(steps[0].get("add_prefix_space", True)))
    if kinds not in (["Split", "ByteLevel"], ["Digits", "ByteLevel"]):
        raise NotCompilable(f"pre_tokenizer is {kinds}")
    first, byte_level = steps
    if byte_level.get("add_prefix_space", True):
        raise NotCompilable("every piece gets a space in front")
    uses_regex = bool(byte_level.get("use_regex", True))
    if first["type"] == "Digits":
        if not uses_regex:
            raise NotCompilable("Digits without the ByteLevel pattern")
        return Splitting(_DIGITS_PATTERNS[bool(first.get("individual_digits"))])
    if uses_regex:
        raise NotCompilable("Split and ByteLevel both split")
    return Splitting(_split_pattern(first))


def _steps(pre_tokenizer: Any) -> list[dict[str, Any]]:
    if not isinstance(pre_tokenizer, dict):
        raise NotCompilable(f"pre_tokenizer is {pre_tokenizer}")
    if pre_tokenizer.get("type") != "Sequence":
        return [pre_tokenizer]
    return [step for inner in pre_tokenizer.get("pretokenizers", []) for step in _steps(inner)]


def _split_pattern(step: dict[str, Any]) -> str:
    # Removed + invert keeps the matches only, as tiktoken does. Isolated keeps what lies between them too:
    # a text in which something does is found by its length, see CompiledTokenizer.
    behavior, inverted = step.get("behavior"), bool(step.get("invert"))
    pattern = step.get("pattern")
    pattern = pattern.get("Regex") if isinstance(pattern, dict) else None
    if not (behavior == "Isolated" or (behavior == "Removed" and inverted)) or pattern is None:
        raise NotCompilable(f"Split by {step.get('pattern')}, {behavior}")
    if not is_portable(pattern):
        raise NotCompilable(f"pattern {pattern} may mean something else in another engine")
    return pattern


def is_portable(pattern: str) -> bool:
    r"""Whether `pattern` is made only of constructs that mean the same in every engine concerned.

    Left out on purpose: `$`, `^` and `.` (line or text), `\d`, `\w`, `\b`, POSIX and nested classes, `&&`,
    lookbehind, back references, quantified quantifiers, flags other than `(?i:` around letters.
    """
    position = 0
    while position < len(pattern):
        match = _CONSTRUCT.match(pattern, position)
        if match is None:
            return False
        if match[0].startswith("(?i:") and any(pair in match[0].lower() for pair in _LIGATURES):
            return False
        position = match.end()
    return bool(pattern)


def classes_of(pattern: str) -> tuple[str, ...]:
    """The character classes whose members decide what `pattern` matches, each as a pattern."""
    found = re.findall(_CLASS, pattern)
    classes = {r"\s" if name == r"\S" else name.replace(r"\P", r"\p") for name in found}
    for group in re.findall(r"\(\?i:[^)]*\)", pattern):
        classes |= {f"(?i:{letter})" for letter in group[4:] if letter.isalpha()}
    return tuple(sorted(classes))


@lru_cache
def differing_characters(patterns: tuple[str, ...]) -> frozenset[str]:
    """Characters that `tokenizers` and `tiktoken` do not count to the same classes; 50 ms per class.

    Empty for tokenizers 0.23 with tiktoken 0.14, whose tables are the same.
    """
    import tiktoken
    from tokenizers import NormalizedString, Regex

    characters = "".join(map(chr, ASSIGNABLE))
    text = NormalizedString(characters)
    byte_ranks = {bytes([byte]): byte for byte in range(256)}
    differing: set[str] = set()
    for pattern in patterns:
        run = f"(?:{pattern})+"
        encoding = tiktoken.Encoding("class", pat_str=run, mergeable_ranks=byte_ranks, special_tokens={})
        members = set(encoding.decode(encoding.encode_ordinary(characters)))
        others = "".join(piece.normalized for piece in text.split(Regex(run), "removed"))
        # Two parts of one whole: equal sizes and nothing in common is all there is to compare.
        if len(members) + len(others) != len(characters) or not members.isdisjoint(others):
            differing |= set(characters).difference(others) ^ members
    return frozenset(differing)
