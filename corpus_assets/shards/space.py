"""Does a build fit on the disk? Asked before it starts, not found out at the end."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from corpus_assets.errors import DiskSpaceError
from corpus_assets.formats import format_of
from corpus_assets.shards.publish import scratch_folder

if TYPE_CHECKING:
    from corpus_assets.config import CorpusConfig
    from corpus_assets.shards.manifest import InputFile

# Bytes of text a token stands for at least: 1 for bytes, and 2 is low for any trained vocabulary.
_TEXT_BYTES_PER_TOKEN = 2
_COMPRESSED_EXPANSION = 3


def required_bytes(config: CorpusConfig, files: Sequence[InputFile]) -> int:
    """About how many bytes the shards of `files` take."""
    width = 2 if config.tokenizer == "byte" else 4
    if (record_format := format_of(config)) is not None:
        width += sum(np.dtype(dtype).itemsize for dtype in record_format.fields.values())
    return sum(expected_tokens(config, file) for file in files) * width


def require_space(config: CorpusConfig, files: Sequence[InputFile]) -> None:
    """Raise DiskSpaceError, saying what is needed and what is free, if a build would not fit."""
    needed = required_bytes(config, files)
    free = shutil.disk_usage(scratch_folder(config.root)).free
    if needed > free:
        raise DiskSpaceError(
            f"{config.root}: {_amount(free)} free, expected about {_amount(needed)} for {len(files)} input shards"
        )


def _amount(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"


def expected_tokens(config: CorpusConfig, file: InputFile) -> int:
    """About as many tokens as the shard of `file` can have."""
    packed = file.name.lower().endswith((".gz", ".zst", ".parquet"))
    text = file.size * (_COMPRESSED_EXPANSION if packed else 1)
    return text if config.tokenizer == "byte" else text // _TEXT_BYTES_PER_TOKEN
