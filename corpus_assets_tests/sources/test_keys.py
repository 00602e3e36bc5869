"""Keys: ordinary names stay, every other name has a key of its own."""

import hashlib
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from corpus_assets.sources.keys import decode_key, encode_key


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("part-00_1.jsonl", "part-00_1.jsonl"),
        ("a.b.jsonl.gz", "a.b.jsonl.gz"),
        ("a/b", "a__2Fb"),
        ("a b,c", "a__20b__2Cc"),
        ("é", "__C3__A9"),
        (".hidden", "__2Ehidden"),
        ("a..b", "a.__2Eb"),
        ("a.", "a__2E"),
        ("..", "__2E__2E"),
        ("a__b", "a__5F_b"),
        ("a_/b", "a__5F__2Fb"),  # the underscore before an escape is escaped too
        ("_", "_"),
        ("a__2Fb", "a__5F_2Fb"),  # a name that looks like the key of a/b
    ],
)
def test_encode_key_by_hand(name, key):
    assert encode_key(name) == key
    assert decode_key(key) == name


def test_a_long_name_is_shortened_with_its_digest():
    name = "x" * 181
    assert encode_key(name) == "x" * 140 + "__H" + hashlib.sha256(name.encode()).hexdigest()[:32]
    assert decode_key(encode_key(name)) is None
    assert encode_key("x" * 180) == "x" * 180


def test_an_empty_name_is_refused():
    with pytest.raises(ValueError, match="empty"):
        encode_key("")


names = st.text(st.characters() | st.sampled_from("_._./a"), min_size=1, max_size=70)


@given(names)
@example("\ud800")
@example("a/b c,d[e]..f")
@example("x/" * 150)
def test_a_key_is_plain_and_leads_back_to_its_name(name):
    key = encode_key(name)
    assert re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", key)
    assert len(key) <= 180
    assert decode_key(key) == name or len(key) == 175


@given(st.text("_.H2F5/a", max_size=12))
def test_what_decodes_is_the_key_of_what_it_decodes_to(key):
    name = decode_key(key)
    assert name is None or encode_key(name) == key
