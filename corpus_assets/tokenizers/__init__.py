"""Text to token ids.

load_tokenizer(spec) ──▶ byte.py           "byte"
                    ├──▶ huggingface.py    path to a tokenizer.json
                    │    └─▶ compiled.py   the same ids from tiktoken, where provably the same
                    └──▶ tiktoken.py       path to a .tiktoken file, or the name of an encoding
"""

from __future__ import annotations

import os

from corpus_assets.errors import TokenizerError
from corpus_assets.tokenizers.byte import ByteTokenizer
from corpus_assets.tokenizers.protocol import Tokenizer

__all__ = ["ByteTokenizer", "load_tokenizer"]


def load_tokenizer(spec: str, *, boundary_token: str | None = None) -> Tokenizer:
    """The tokenizer that `spec` names: `byte`, a path to tokenizer.json or .tiktoken, or an encoding.

    Args:
        spec: what corpora.yaml says under `tokenizer`.
        boundary_token: the token that follows every document; by default the tokenizer's own end of text.

    Raises:
        TokenizerError: there is no such tokenizer, its file is not one, or the boundary does not exist.
    """
    if spec == "byte":
        if boundary_token is not None:
            raise TokenizerError(
                f"byte: found boundary_token {boundary_token!r}, expected none: its boundary is id 0"
            )
        return ByteTokenizer()
    if spec.endswith(".tiktoken"):
        from corpus_assets.tokenizers.tiktoken import TiktokenTokenizer

        return TiktokenTokenizer(spec, boundary_token=boundary_token)
    if "/" in spec or spec.endswith(".json") or os.path.exists(spec):
        from corpus_assets.tokenizers.compiled import compiled_or_reference

        return compiled_or_reference(spec, boundary_token=boundary_token)
    from corpus_assets.tokenizers.tiktoken import TiktokenTokenizer

    return TiktokenTokenizer(spec, boundary_token=boundary_token)
