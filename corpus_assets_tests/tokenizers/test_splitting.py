"""Which splitting patterns mean the same in both engines, and what their classes hold."""

import pytest

from corpus_assets.tokenizers.splitting import (
    BYTE_LEVEL_PATTERN,
    classes_of,
    differing_characters,
    is_portable,
)


@pytest.mark.parametrize(
    ("pattern", "portable"),
    [
        (BYTE_LEVEL_PATTERN, True),
        (r"(?i:'s|'t)| ?[^\s\p{L}\p{N}]++[\r\n]*+|\p{N}{1,3}|\s+(?!\S)", True),
        (r"'(?i:[sdmt]|ll)|[A-Za-z0-9_]+", True),
        ("", False),
        (r"\d+", False),  # ASCII or Unicode
        (r"\w+", False),
        (r"\s+$", False),  # end of text or of line
        (r".+", False),
        (r"[[:alpha:]]", False),
        (r"[a-z&&[^b]]", False),
        (r"\p{Greek}", False),
        (r"a{1,2}+", False),  # possessive or repeated
        (r"a+?", False),
        (r"(?<=a)b", False),
        (r"(a)\1", False),
        (r"(?i:ß)", False),
        (r"(?i:st)", False),  # equals one ligature where case folding is full
        (r"(?x:a b)", False),
    ],
)
def test_portable_patterns(pattern, portable):
    assert is_portable(pattern) is portable


def test_classes_of_a_pattern():
    expected = {"(?i:T)", "(?i:s)", r"\p{L}", r"\p{Lu}", r"\p{S}", r"\s"}
    assert set(classes_of(r"\S\P{L}[\p{Lu}\s\P{S}](?i:'s|'T)")) == expected


def test_characters_on_which_the_libraries_disagree_are_found():
    assert differing_characters((r"\p{L}", r"\s")) == frozenset()
    # Written so that each engine reads its own: `&&` intersects in one and is two characters in the other.
    assert differing_characters(("[a&&b]",)) in (frozenset(), frozenset("ab&"))
