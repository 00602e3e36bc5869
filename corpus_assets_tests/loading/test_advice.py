import pytest

from corpus_assets.loading.advice import access_for, memory_size


@pytest.mark.parametrize(
    ("order", "corpus_bytes", "expected"),
    [
        ("random", 100, "normal"),  # reading ahead fills the memory with the corpus
        ("random", 101, "random"),
        ("cyclic", 101, "random"),
        ("sequential", 101, "normal"),
    ],
)
def test_read_ahead_is_turned_off_where_memory_cannot_hold_the_corpus(order, corpus_bytes, expected):
    assert access_for(order, corpus_bytes=corpus_bytes, memory_bytes=100) == expected


def test_memory_has_a_size():
    assert 2**20 < memory_size() <= 2**62
