"""Whether anything of a corpus is trained on, where it has a loss mask."""

from __future__ import annotations

from corpus_assets.shapes import LOSS_MASK
from corpus_assets.shards import layout
from corpus_assets.shards.inspection import Finding
from corpus_assets.shards.records import ShardIndex, ShardInfo
from corpus_assets.shards.verified import VerifiedColumns

_BLOCK = 1024 * 1024


def untrained_findings(index: ShardIndex) -> list[Finding]:
    """One finding where every token of a corpus has 0 in the loss mask: a run over it would learn nothing.

    So it is when `train_roles` names no role of the messages, or no segment has `train: true`. Reads up to the
    first token that is trained on; the shards must be sound.

    Raises:
        ShardError: a shard is not what its record says.
    """
    shards = [shard for shard in index.shards if shard.token_count]
    if not shards or any(LOSS_MASK not in shard.fields or _trains(index, shard) for shard in shards):
        return []
    message = (
        f"{index.root}: {LOSS_MASK} is 0 for all {index.token_count} tokens, so nothing is trained on; expected "
        "messages whose role is in train_roles, or segments with train: true"
    )
    return [Finding(shard=None, check=LOSS_MASK, message=message)]


def _trains(index: ShardIndex, shard: ShardInfo) -> bool:
    columns = VerifiedColumns(index.root, shard, verify=False)
    mask = columns.get(f"{layout.FIELDS}/{LOSS_MASK}", shard.fields[LOSS_MASK], shard.token_count)
    return any(mask[start : start + _BLOCK].any() for start in range(0, shard.token_count, _BLOCK))
