"""What the blocking checks of shard_index claim about an index: pure functions on records."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from corpus_assets.shards.records import ShardIndex, TokenizerInfo

NAMED_KEYS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim that can be false, and what was found."""

    name: str
    passed: bool
    detail: str


def every_input_shard_is_indexed(
    index: ShardIndex, *, registered: Collection[str], observed: Mapping[str, str]
) -> Claim:
    """The index covers exactly the registered inputs, each with the content that was last observed."""
    indexed = {shard.key: shard.input_sha256 for shard in index.shards}
    problems = [
        _listed("not indexed", set(registered) - indexed.keys()),
        _listed("indexed, but no input any more", indexed.keys() - set(registered)),
        _listed(
            "built from an older input",
            {
                key
                for key, sha256 in indexed.items()
                if key in registered and observed.get(key, sha256) != sha256
            },
        ),
    ]
    found = "; ".join(problem for problem in problems if problem)
    return Claim(
        name="every_input_shard_is_indexed",
        passed=not found and bool(indexed),
        detail=found or (f"{len(indexed)} of {len(registered)} input shards" if indexed else "no shards"),
    )


def offsets_are_contiguous(index: ShardIndex) -> Claim:
    """Shards stand in key order, each starting where the one before ends."""
    start, wrong, last = 0, set[str](), ""
    for shard in index.shards:
        if shard.global_start != start or shard.key <= last:
            wrong.add(shard.key)
        start, last = start + shard.token_count, shard.key
    return Claim(
        name="offsets_are_contiguous",
        passed=not wrong,
        detail=_listed("out of place", wrong) or f"{start:,} tokens without a gap",
    )


def one_tokenizer(index: ShardIndex, *, configured: TokenizerInfo) -> Claim:
    """All shards were made by one tokenizer, and it is the corpus's: its file may have been replaced since."""
    by_tokenizer: dict[str, set[str]] = {}
    for shard in index.shards:
        by_tokenizer.setdefault(_shown(shard.tokenizer), set()).add(shard.key)
    others = any(shard.tokenizer.fingerprint != configured.fingerprint for shard in index.shards)
    found = [_listed(tokenizer, keys) for tokenizer, keys in sorted(by_tokenizer.items())]
    if others:
        found.append(f"expected {_shown(configured)} for all")
    return Claim(
        name="one_tokenizer",
        passed=not others,
        detail="; ".join(found) if others else next(iter(by_tokenizer), "no shards"),
    )


def ledger_balances(index: ShardIndex) -> Claim:
    """In every shard rows = documents + blank + rejected, and the documents are those of the file."""
    wrong = {
        shard.key
        for shard in index.shards
        if not shard.ledger.balances or shard.ledger.documents != shard.document_count
    }
    ledger = index.ledger
    return Claim(
        name="ledger_balances",
        passed=not wrong,
        detail=_listed("unbalanced", wrong)
        or f"{ledger.rows:,} rows = {ledger.documents:,} documents + {ledger.blank:,} blank "
        f"+ {ledger.rejected_count:,} rejected",
    )


def _shown(tokenizer: TokenizerInfo) -> str:
    return f"{tokenizer.name} {tokenizer.fingerprint[:16]}"


def _listed(what: str, keys: Collection[str]) -> str:
    """`what: a, b and 3 more`; empty without keys."""
    if not keys:
        return ""
    more = len(keys) - NAMED_KEYS
    return f"{what}: {', '.join(sorted(keys)[:NAMED_KEYS])}" + (f" and {more} more" if more > 0 else "")
