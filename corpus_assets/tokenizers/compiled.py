"""Placeholder until the compiler lands: every tokenizer.json runs on its reference."""

from __future__ import annotations

from corpus_assets.tokenizers.huggingface import HuggingFaceTokenizer
from corpus_assets.tokenizers.protocol import Tokenizer


def compiled_or_reference(spec: str, *, boundary_token: str | None = None) -> Tokenizer:
    """The tokenizer of a tokenizer.json."""
    return HuggingFaceTokenizer(spec, boundary_token=boundary_token)
