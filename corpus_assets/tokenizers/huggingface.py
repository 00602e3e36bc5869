"""HuggingFaceTokenizer: a tokenizer.json through the `tokenizers` library, the reference for its ids."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from corpus_assets.errors import TokenizerError
from corpus_assets.tokenizers.boundary import find_boundary
from corpus_assets.tokenizers.protocol import TextTokens
from corpus_assets.tokenizers.vocabulary_tokenizer import Identity, VocabularyTokenizer

# The library's own thread pool does not survive a fork: a child that uses it waits for ever. Threads are
# brought by the caller instead (encode_documents), each with a slice of its own.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: os.environ.update(TOKENIZERS_PARALLELISM="false"))


class HuggingFaceTokenizer(VocabularyTokenizer):
    """The ids that `tokenizers` gives without special tokens, truncation or padding.

    Special tokens are never recognised inside a text; other added tokens are, as the file says.

    Args:
        spec: path to a tokenizer.json or to the folder that holds it.
        boundary_token: the token that follows every document; by default `eos_token` of a
            tokenizer_config.json beside the file, else the only end-of-text token it has.
    """

    def __init__(self, spec: str, *, boundary_token: str | None = None) -> None:
        definition = TokenizerFile.load(spec)
        encoder = definition.build()
        vocabulary: dict[str, int] = encoder.get_vocab(with_added_tokens=True)
        boundary = find_boundary(
            str(definition.path),
            vocabulary=vocabulary,
            special={token["content"]: token["id"] for token in definition.added_tokens},
            asked=boundary_token,
            stated=None if boundary_token is not None else _stated_end_of_text(definition.path.parent),
        )
        ordinary = [token for token in definition.added_tokens if not token.get("special")]
        made_special = boundary if boundary in {token["content"] for token in ordinary} else None
        if made_special is not None:
            encoder = definition.build(special=made_special)
        super().__init__(
            Identity(
                spec=spec,
                asked_boundary=boundary_token,
                name=definition.path.name,
                definition=definition.sha256,
                boundary_id=vocabulary[boundary],
                max_token_id=max(vocabulary.values()),
            )
        )
        self.file = definition
        self._made_special = made_special
        self.boundary_token = boundary
        self._encoder = encoder

    def _encode_many(self, texts: Sequence[str]) -> list[Any]:
        encodings = self._encoder.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    @cached_property
    def _locating_encoder(self) -> Any:
        """The same without a post-processor, which may trim spaces from what tokens stand for."""
        return self.file.build(special=self._made_special, post_processor=None)

    def _tokens_of(self, text: str, ids: list[int]) -> TextTokens | None:
        encoding = self._locating_encoder.encode(text, add_special_tokens=False)
        if encoding.ids != ids:
            return None
        places = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
        return TextTokens(np.asarray(ids), places[:, 0], places[:, 1])

    def _decode(self, ids: list[int]) -> str:
        return self._encoder.decode(ids, skip_special_tokens=False)


class TokenizerFile:
    """The content of one tokenizer.json.

    Attributes:
        path: the file.
        content: its JSON object.
        sha256: digest of its bytes.
        added_tokens: the tokens that are matched in a text before the model sees it.
    """

    def __init__(self, path: Path, data: bytes) -> None:
        try:
            content = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise TokenizerError(f"{path}: is not JSON ({error}), expected a tokenizer.json") from error
        if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
            raise TokenizerError(f"{path}: has no `model`, expected a tokenizer.json of `tokenizers`")
        self.path = path
        self.content = content
        self.sha256 = hashlib.sha256(data).hexdigest()
        self.added_tokens: list[dict[str, Any]] = content.get("added_tokens") or []

    @classmethod
    def load(cls, spec: str) -> TokenizerFile:
        """The file that `spec` names, itself or in a folder.

        Raises:
            TokenizerError: it cannot be read or is no tokenizer.json.
        """
        path = Path(spec)
        if path.is_dir():
            path = path / "tokenizer.json"
        try:
            data = path.read_bytes()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise TokenizerError(f"{path}: cannot be read: {why}; expected a tokenizer.json") from error
        return cls(path, data)

    def build(self, *, special: str | None = None, **overrides: Any) -> Any:
        """A `tokenizers.Tokenizer` for whole texts: nothing cut, padded or added, specials are text.

        Args:
            special: an added token that is to be treated as special whatever the file says.
            overrides: sections of the file to replace.
        """
        from tokenizers import Tokenizer

        content = self.content | overrides
        if special is not None:
            content["added_tokens"] = [
                token | {"special": True} if token["content"] == special else token
                for token in self.added_tokens
            ]
        try:
            encoder = Tokenizer.from_str(json.dumps(content))
        except BaseException as error:  # the library raises bare Exceptions and Rust panics
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise TokenizerError(f"{self.path}: is not a tokenizer: {error}") from error
        encoder.no_truncation()
        encoder.no_padding()
        encoder.encode_special_tokens = True
        return encoder


def _stated_end_of_text(folder: Path) -> str | None:
    """`eos_token` of the tokenizer_config.json in `folder`, if there is one."""
    path = folder / "tokenizer_config.json"
    if not path.is_file():
        return None
    try:
        token = json.loads(path.read_bytes()).get("eos_token")
    except (OSError, ValueError, AttributeError) as error:
        raise TokenizerError(f"{path}: cannot be read: {error}; expected a JSON object") from error
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None
