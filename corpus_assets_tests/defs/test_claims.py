"""The claims about an index, each made false by hand."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from corpus_assets.defs.claims import (
    every_input_shard_is_indexed,
    ledger_balances,
    offsets_are_contiguous,
    one_tokenizer,
)
from corpus_assets.shards.records import Ledger, ShardIndex, ShardInfo, TokenizerInfo

BYTES = TokenizerInfo(name="byte", fingerprint="f" * 64, boundary_id=0, max_token_id=256, canary_ids=(1,))


_FILLERS = {"str": "x", "int": 1, "dict[str, int]": {}}


def shard(key, *, tokens=10, documents=2, **changes):
    """A shard of which only what the claims look at matters."""
    filled = {field.name: _FILLERS[field.type] for field in fields(ShardInfo) if field.type in _FILLERS}
    facts = {
        "key": key,
        "input_sha256": f"sha-{key}",
        "token_count": tokens,
        "document_count": documents,
        "tokenizer": BYTES,
        "ledger": Ledger(rows=documents, documents=documents),
    }
    return ShardInfo(**filled | facts | changes)


@pytest.fixture
def index():
    return ShardIndex.of([shard("a"), shard("b", tokens=5), shard("c")], Path("/corpus"))


def with_shard(index, position, **changes):
    shards = list(index.shards)
    shards[position] = replace(shards[position], **changes)
    return replace(index, shards=tuple(shards))


def covers(index, registered, observed=None):
    return every_input_shard_is_indexed(index, registered=registered, observed=observed or {})


def test_a_sound_index_makes_all_claims_true(index):
    claims = [
        covers(index, "abc"),
        offsets_are_contiguous(index),
        one_tokenizer(index, configured=BYTES),
        ledger_balances(index),
    ]
    assert [claim.passed for claim in claims] == [True] * 4
    assert claims[1].detail == "25 tokens without a gap"
    assert claims[3].detail == "6 rows = 6 documents + 0 blank + 0 rejected"


@pytest.mark.parametrize(
    ("registered", "observed", "detail"),
    [
        ("abcde", {}, "not indexed: d, e"),
        ("ab", {}, "indexed, but no input any more: c"),
        ("abc", {"a": "sha-a", "b": "changed"}, "built from an older input: b"),
        (
            "bcd",
            {"b": "new"},
            "not indexed: d; indexed, but no input any more: a; built from an older input: b",
        ),
    ],
)
def test_missing_superfluous_and_outdated_shards_are_named(index, registered, observed, detail):
    claim = covers(index, registered, observed)
    assert not claim.passed
    assert claim.detail == detail


def test_an_index_without_shards_covers_nothing():
    claim = covers(ShardIndex(shards=(), root=Path("/corpus")), [])
    assert (claim.passed, claim.detail) == (False, "no shards")


def test_many_missing_shards_are_counted():
    claim = covers(ShardIndex(shards=(), root=Path("/corpus")), [f"k{n:02}" for n in range(23)])
    assert claim.detail.endswith("k18, k19 and 3 more")


@pytest.mark.parametrize(("position", "start"), [(0, 1), (1, 9), (2, 16)])
def test_a_gap_or_an_overlap_is_out_of_place(index, position, start):
    claim = offsets_are_contiguous(with_shard(index, position, global_start=start))
    assert (claim.passed, claim.detail) == (False, f"out of place: {'abc'[position]}")


def test_shards_out_of_key_order_are_out_of_place(index):
    swapped = with_shard(with_shard(index, 0, key="b"), 1, key="a")
    assert offsets_are_contiguous(swapped).detail == "out of place: a"


def test_two_tokenizers_are_named_with_their_shards(index):
    mixed = with_shard(index, 1, tokenizer=replace(BYTES, name="other", fingerprint="0" * 64))
    claim = one_tokenizer(mixed, configured=BYTES)
    assert not claim.passed
    assert claim.detail == f"byte {'f' * 16}: a, c; other {'0' * 16}: b; expected byte {'f' * 16} for all"


def test_a_tokenizer_that_was_replaced_after_the_shards_were_built_is_not_the_one_of_the_corpus(index):
    claim = one_tokenizer(index, configured=replace(BYTES, fingerprint="0" * 64))
    assert (claim.passed, claim.detail) == (
        False,
        f"byte {'f' * 16}: a, b, c; expected byte {'0' * 16} for all",
    )


@pytest.mark.parametrize(
    "changes", [{"ledger": Ledger(rows=3, documents=2)}, {"document_count": 1}, {"ledger": Ledger()}]
)
def test_a_ledger_that_does_not_balance_is_named(index, changes):
    claim = ledger_balances(with_shard(index, 2, **changes))
    assert (claim.passed, claim.detail) == (False, "unbalanced: c")
