"""Whether anything of a corpus is trained on, where it has a loss mask."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from corpus_assets.errors import CorpusError
from corpus_assets.formats.chat import roles_of
from corpus_assets.shapes import DEFAULT_TRAIN_ROLES, LOSS_MASK
from corpus_assets.shards import layout
from corpus_assets.shards.inspection import Finding
from corpus_assets.shards.manifest import load_manifest
from corpus_assets.shards.records import ShardIndex, ShardInfo
from corpus_assets.shards.verified import VerifiedColumns
from corpus_assets.sources import open_source

if TYPE_CHECKING:
    from corpus_assets.config import CorpusConfig

_BLOCK = 1024 * 1024
_SAMPLED_RECORDS = 1000


def untrained_findings(index: ShardIndex, config: CorpusConfig | None = None) -> list[Finding]:
    """One finding where every token of a corpus has 0 in the loss mask: a run over it would learn nothing.

    So it is when `train_roles` names no role of the messages, or no segment has `train: true`. Reads up to the
    first token that is trained on; the shards must be sound.

    Args:
        index: of the corpus.
        config: of the corpus; where it is given, the finding names the roles that its inputs have.

    Raises:
        ShardError: a shard is not what its record says.
    """
    shards = [shard for shard in index.shards if shard.token_count]
    if not shards or any(LOSS_MASK not in shard.fields or _trains(index, shard) for shard in shards):
        return []
    reason = "" if config is None else _role_mismatch(config)
    message = (
        f"{index.root}: {LOSS_MASK} is 0 for all {index.token_count} tokens, so nothing is trained on; "
        + (reason or "expected messages whose role is in train_roles, or segments with train: true")
    )
    return [Finding(shard=None, check=LOSS_MASK, message=message)]


def _trains(index: ShardIndex, shard: ShardInfo) -> bool:
    columns = VerifiedColumns(index.root, shard, verify=False)
    mask = columns.get(f"{layout.FIELDS}/{LOSS_MASK}", shard.fields[LOSS_MASK], shard.token_count)
    return any(block.any() for block in mask.blocks(_BLOCK))


def _role_mismatch(config: CorpusConfig) -> str:
    """`train_roles are asistant; the records have assistant, user`, of the first 1,000; empty where one is found."""
    manifest = load_manifest(config.root)
    if config.format != "chat" or manifest is None:
        return ""
    wanted = set(config.train_roles or DEFAULT_TRAIN_ROLES)
    found: set[str] = set()
    sources = (
        open_source(file.url, text_field=None, max_line_bytes=config.max_line_bytes)
        for file in manifest.files
    )
    try:
        for document in islice(chain.from_iterable(sources), _SAMPLED_RECORDS):
            found |= roles_of(document.record or {}, config.text_field)
    except (CorpusError, OSError):
        return ""  # what cannot be read is reported elsewhere
    if not found or found & wanted:
        return ""
    return f"train_roles are {', '.join(sorted(wanted))}; the records have {', '.join(sorted(found))}"
