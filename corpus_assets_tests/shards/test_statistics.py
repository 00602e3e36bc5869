"""How long the documents are: quantiles and histograms on numbers counted by hand."""

from __future__ import annotations

import pytest

from corpus_assets.errors import ShardError
from corpus_assets.shards.statistics import document_lengths


def lengths_of(build, *token_counts, **options):
    """The lengths of one shard of documents with so many tokens, the boundary included."""
    index = build({"a.jsonl": ["x" * (count - 1) for count in token_counts]}, **options)
    return document_lengths(index.root, index.shards)


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_each_power_of_two_has_its_documents(build, compression):
    lengths = lengths_of(build, 1, 2, 3, 4, 7, 8, 32, 63, 63, 64, compression=compression)
    assert lengths.octaves() == [
        (1, 1, 1),
        (2, 3, 2),
        (4, 7, 2),
        (8, 15, 1),
        (16, 31, 0),
        (32, 63, 3),
        (64, 127, 1),
    ]
    edges, counts = lengths.drawn()
    assert sum(counts) == 10
    assert edges[0] == 1.0


def test_quantiles_are_lengths_that_documents_have(build):
    lengths = lengths_of(build, *[4] * 50, *[16] * 40, *[256] * 10)
    assert lengths.quantiles() == (4.0, 4.0, 4.0, 4.0, 16.0, 256.0, 256.0)


def test_a_shard_without_documents_has_no_lengths(build):
    lengths = lengths_of(build)
    assert lengths.octaves() == []
    assert lengths.drawn() == ((), ())
    assert set(lengths.quantiles()) == {0.0}


def test_a_file_that_is_not_the_recorded_one_is_refused(build):
    index = build({"a.jsonl": ["some text"]})
    (index.root / index.shards[0].path).write_bytes(b"another file")
    with pytest.raises(ShardError, match="is 12 bytes"):
        document_lengths(index.root, index.shards)
