"""A whole corpus: which partitions need a build, and all of it in one call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpus_assets.config import CorpusConfig, parse_corpus
from corpus_assets.errors import ConfigError, IndexMismatchError, InputError
from corpus_assets.formats import content_fingerprint, format_of
from corpus_assets.shards.build import OnProgress, build_identity
from corpus_assets.shards.index import current_shard, write_index
from corpus_assets.shards.manifest import InputManifest, observe_inputs
from corpus_assets.shards.pipeline import ShardedTokenizationPipeline
from corpus_assets.shards.worker import ShardOutcome
from corpus_assets.sources.discover import ListedInput, list_inputs
from corpus_assets.sources.keys import encode_key
from corpus_assets.tokenizers import load_tokenizer

if TYPE_CHECKING:
    from corpus_assets.shards.records import ShardIndex, ShardInfo

MISSING = "missing"
DAMAGED = "its record is damaged"
STALE_INPUT = "the input changed"
STALE_TOKENIZER = "the tokenizer changed"
STALE_OPTIONS = "the options changed"
TOO_MANY_REJECTS = "more rejects than max_reject_fraction allows"


def stale_keys(config: CorpusConfig, manifest: InputManifest) -> dict[str, str]:
    """Keys whose current shard is missing or made from something else, with the reason."""
    fingerprint = load_tokenizer(config.tokenizer, boundary_token=config.boundary_token).fingerprint
    content = content_fingerprint(config)
    reasons = {}
    for file in manifest.files:
        try:
            info = current_shard(config.root, file.key)
        except IndexMismatchError:
            reasons[file.key] = DAMAGED
            continue
        build = build_identity(file.fingerprint, fingerprint, content)
        if reason := _reason(info, build, file.fingerprint, fingerprint, config.max_reject_fraction):
            reasons[file.key] = reason
    return reasons


def _reason(
    info: ShardInfo | None, build: str, input_sha256: str, tokenizer: str, max_reject_fraction: float
) -> str | None:
    if info is None:
        return MISSING
    if info.build != build:
        if info.input_sha256 != input_sha256:
            return STALE_INPUT
        return STALE_TOKENIZER if info.tokenizer.fingerprint != tokenizer else STALE_OPTIONS
    rows = info.ledger.rows - info.ledger.blank
    return TOO_MANY_REJECTS if info.ledger.rejected_count > max_reject_fraction * rows else None


def write_corpus(
    inputs: str | Path | Iterable[str | Path],
    root: str | Path,
    *,
    tokenizer: str = "byte",
    window_size: int = 1024,
    workers: int | None = None,
    force: bool = False,
    on_progress: OnProgress | None = None,
    on_outcome: Callable[[ShardOutcome], None] | None = None,
    **options: Any,
) -> ShardIndex:
    """Build a corpus from input shards and publish its index.

    Shards already built from the same inputs are kept; an input that fails stops no other.

    Args:
        inputs: a folder, a glob, an fsspec URL, or paths of input files.
        root: the corpus folder.
        tokenizer: a specification for `load_tokenizer`.
        window_size: what the default chunk size is a multiple of, in tokens.
        workers: processes; default: one a core.
        force: build even where the current shard was made from the same.
        on_progress: called with a BuildProgress after each batch.
        on_outcome: called with each ShardOutcome.
        options: other keys of a corpora.yaml entry.

    Raises:
        ConfigError: an option or the inputs cannot be used.
        InputError: naming every input that failed; the others are built, the index is not written.
    """
    listed = None if isinstance(inputs, str | Path) else _list_files(inputs)
    entry = {
        "input": os.fspath(inputs) if isinstance(inputs, str | Path) else "given files",
        "root": os.fspath(root),
        "tokenizer": tokenizer,
        "window_size": window_size,
    }
    config = parse_corpus("corpus", {**entry, **options}, base=Path.cwd(), where="write_corpus")
    load_tokenizer(config.tokenizer, boundary_token=config.boundary_token)
    format_of(config)
    manifest = observe_inputs(config, listed=listed)
    failed = []
    pipeline = ShardedTokenizationPipeline(config, workers=workers)
    for outcome in pipeline.run(manifest.files, force=force, on_progress=on_progress):
        if on_outcome is not None:
            on_outcome(outcome)
        if outcome.error is not None:
            failed.append(outcome.error)
    if failed:
        raise InputError(
            f"{len(failed)} of {len(manifest.files)} input shards failed:\n  " + "\n  ".join(sorted(failed))
        )
    return write_index(config.root, manifest.keys)


def _list_files(paths: Iterable[str | Path]) -> list[ListedInput]:
    """The given files as inputs, named relative to the folder that they share."""
    files = sorted(Path(path).absolute() for path in paths)
    if not files:
        raise ConfigError("write_corpus: found no inputs, expected at least one")
    shared = os.path.commonpath([file.parent for file in files])
    listed = []
    for file in files:
        name = file.relative_to(shared).as_posix()
        listed += [replace(item, name=name, key=encode_key(name)) for item in list_inputs(str(file))]
    return listed
