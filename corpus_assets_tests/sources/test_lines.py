"""line_blocks: lines do not depend on where the blocks are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus_assets.sources.lines import OverlongLine, line_blocks


def flat(blocks, max_line_bytes):
    lines = []
    for item in line_blocks(blocks, max_line_bytes=max_line_bytes):
        lines += [item] if isinstance(item, OverlongLine) else item
    return lines


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([], []),
        ([b"a"], [b"a"]),
        ([b"a\n"], [b"a"]),
        ([b"\n"], [b""]),
        ([b"a\n\nb"], [b"a", b"", b"b"]),
        ([b"a", b"b\nc", b"\n"], [b"ab", b"c"]),
        ([b"a\n", b"\n"], [b"a", b""]),
        ([b"abc", b"de\nf"], [OverlongLine(b"abcde", 5), b"f"]),
        ([b"abcd\nf"], [b"abcd", b"f"]),
        ([b"x\nabcde\ny\n"], [b"x", OverlongLine(b"abcde", 5), b"y"]),
        ([b"abcde"], [OverlongLine(b"abcde", 5)]),
    ],
)
def test_lines_by_hand(blocks, expected):
    assert flat(blocks, 4) == expected


@given(
    st.lists(st.sampled_from([b"\n", b"a", b"bc", b"defg", b"\r"]), max_size=30).map(b"".join),
    st.lists(st.integers(1, 7), min_size=1, max_size=30),
    st.integers(1, 6),
)
def test_cuts_do_not_matter(data, sizes, limit):
    blocks, rest = [], data
    for size in sizes:
        blocks.append(rest[:size])
        rest = rest[size:]
    blocks = [block for block in [*blocks, rest] if block]
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    expected = [line if len(line) <= limit else OverlongLine(line, len(line)) for line in expected]
    assert flat(blocks, limit) == expected
