"""Ranges over partitions that keep the order in which they were added."""

import pytest

from corpus_assets.defs.partitions import contiguous_ranges


@pytest.mark.parametrize(
    ("wanted", "at_most", "expected"),
    [
        ("", None, []),
        ("abcde", None, ["abcde"]),
        ("ace", None, ["a", "c", "e"]),
        ("abde", None, ["ab", "de"]),
        ("abcde", 2, ["ab", "cd", "e"]),
        ("abcde", 5, ["abcde"]),
        ("abcde", 1, ["a", "b", "c", "d", "e"]),
        ("ax", None, ["a"]),  # x is no partition
    ],
)
def test_ranges(wanted, at_most, expected):
    ranges = contiguous_ranges("abcde", set(wanted), at_most=at_most)
    assert ["".join(part.keys) for part in ranges] == expected
    assert [(part.start, part.end) for part in ranges] == [(keys[0], keys[-1]) for keys in expected]


def test_a_range_follows_the_order_of_registration():
    ranges = contiguous_ranges(["c", "a", "b"], {"c", "b"})
    assert [part.keys for part in ranges] == [("c",), ("b",)]
