"""CompiledTokenizer: a byte-level BPE tokenizer.json run by tiktoken, where the ids are provably the same."""

from __future__ import annotations

import logging
import re
import unicodedata
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from corpus_assets.tokenizers.huggingface import HuggingFaceTokenizer
from corpus_assets.tokenizers.offsets import tokens_of_encoding
from corpus_assets.tokenizers.protocol import CANARY_TEXT, TextTokens, Tokenizer
from corpus_assets.tokenizers.ranks import mergeable_ranks
from corpus_assets.tokenizers.splitting import (
    ASSIGNABLE,
    UNASSIGNABLE,
    NotCompilable,
    classes_of,
    differing_characters,
    translate_splitting,
)
from corpus_assets.tokenizers.vocabulary_tokenizer import VocabularyTokenizer, is_crash

if TYPE_CHECKING:
    import tiktoken

NormalForm = Literal["NFC", "NFD", "NFKC", "NFKD"]

_log = logging.getLogger(__name__)
_NORMAL_FORMS: tuple[NormalForm, ...] = ("NFC", "NFD", "NFKC", "NFKD")
# Compared with the reference when a tokenizer is compiled, beside the canary: borders of every class.
_PROBES = (
    "",
    " ",
    "a",
    " a  b\n\n  c \r\n\t d   ",
    "it's IT'S we'll WE'LL don'T 'ſ ''s' x'd",
    "1 12 123 1234567 a1b2 ½ Ⅷ ٣٤",
    "€5 (x) == != -> ... \u2014 \U0001f600\U0001f3fd \u200b\ufeff\u3000\x85\x00\x7f",
    "é e\u0301 Å \u212b ﬁ 한국어 日本語 नमस्ते ไทย",
    "a" * 300 + " " * 300 + "\n" * 100 + "=" * 300,
)


class CompiledTokenizer(VocabularyTokenizer):
    """The ids of `HuggingFaceTokenizer` for the same file, about five times as fast.

    Splitting (splitting.py) and merging (ranks.py) are known to be the same before it is used. A text that
    could still differ goes to the reference by itself: one that holds an added token, a character on whose
    class the libraries disagree, something that no piece covers (its ids stand for fewer bytes), or a run of
    white space so long that tiktoken gives up.

    Raises:
        NotCompilable: the file is not provably the same in tiktoken.
    """

    def __init__(self, spec: str, *, boundary_token: str | None = None) -> None:
        self._compile(HuggingFaceTokenizer(spec, boundary_token=boundary_token))

    @classmethod
    def of(cls, reference: HuggingFaceTokenizer) -> CompiledTokenizer:
        """The compiled form of `reference`."""
        compiled = cls.__new__(cls)
        compiled._compile(reference)
        return compiled

    def _compile(self, reference: HuggingFaceTokenizer) -> None:
        import tiktoken

        super().__init__(reference._identity)
        content = reference.file.content
        splitting = translate_splitting(content.get("pre_tokenizer"))
        ranks = mergeable_ranks(reference.file)
        self._reference = reference
        self._normal_forms = _normal_forms(content.get("normalizer"))
        self._prefix = " " if splitting.prefix_space else ""
        self._doubtful = _doubtful(reference, splitting.pattern, self._normal_forms)
        try:
            self._encoding = tiktoken.Encoding(
                self.name, pat_str=splitting.pattern, mergeable_ranks=ranks, special_tokens={}
            )
        except ValueError as error:
            raise NotCompilable(f"tiktoken refuses the pattern: {error}") from error
        self._bytes_of = np.zeros(self.max_token_id + 1, np.int64)
        self._bytes_of[list(ranks.values())] = list(map(len, ranks))
        if differing := self.audit([CANARY_TEXT, *_PROBES]):
            raise NotCompilable(f"the ids of {len(differing)} probes differ")

    @property
    def encoding(self) -> tiktoken.Encoding:
        """What makes the ids of every text that is not left to the reference."""
        return self._encoding

    def _encode_many(self, texts: Sequence[str]) -> list[Any]:
        return [self._encode_one(text) for text in texts]

    def _encode_one(self, text: str) -> Any:
        plain = text.isascii()
        seen = text
        if not plain:
            for form in self._normal_forms:
                seen = unicodedata.normalize(form, seen)
        if self._doubtful is not None and (
            self._doubtful.search(text) or (seen is not text and self._doubtful.search(seen))
        ):
            return self._reference.encode(text)
        if seen and not seen.startswith(self._prefix):
            seen = self._prefix + seen
        # encode() raises for a lone surrogate, which tiktoken would replace.
        size = len(seen) if plain else len(seen.encode("utf-8"))
        try:
            ids = np.frombuffer(array("I", self._encoding.encode_ordinary(seen)), np.uint32)
        except BaseException as error:  # tiktoken panics where a million spaces overflow its engine's stack
            if not is_crash(error):
                raise
            return self._reference.encode(text)
        if int(self._bytes_of[ids].sum()) != size:
            return self._reference.encode(text)
        return ids

    def _tokens_of(self, text: str, ids: list[int]) -> TextTokens | None:
        # None where the text was normalised or got a space in front: its own bytes are then others.
        return tokens_of_encoding(self._encoding, text, ids) or self._reference._tokens_of(text, ids)

    def _decode(self, ids: list[int]) -> str:
        return self._reference._decode(ids)

    def audit(self, texts: Sequence[str]) -> list[int]:
        """Indices of `texts` whose ids differ from those of `tokenizers` on the same file."""
        pairs = zip(self.encode_batch(texts), self._reference.encode_batch(texts), strict=True)
        return [index for index, (ids, expected) in enumerate(pairs) if ids != expected]


def compiled_or_reference(spec: str, *, boundary_token: str | None = None) -> Tokenizer:
    """The tokenizer of a tokenizer.json: compiled where that is provably the same, else the reference.

    Raises:
        TokenizerError: the file is no tokenizer, or the boundary does not exist.
    """
    reference = HuggingFaceTokenizer(spec, boundary_token=boundary_token)
    try:
        return CompiledTokenizer.of(reference)
    except NotCompilable as why:
        _log.info("%s: runs on the tokenizers library, not compiled: %s", spec, why)
        return reference


def _normal_forms(normalizer: Any) -> list[NormalForm]:
    if normalizer is None:
        return []
    steps = normalizer.get("normalizers", []) if normalizer.get("type") == "Sequence" else [normalizer]
    forms = [step.get("type") for step in steps]
    if not set(forms) <= set(_NORMAL_FORMS):
        raise NotCompilable(f"the normalizer is {forms}")
    return forms


def _doubtful(
    reference: HuggingFaceTokenizer, pattern: str, normal_forms: list[NormalForm]
) -> re.Pattern[str] | None:
    """Finds the texts that the reference has to encode, or None when there can be none.

    Args:
        reference: whose added tokens are matched in a text unless they are special.
        pattern: whose classes must have the same members in both libraries.
        normal_forms: where there are any, characters that Python's Unicode tables do not have are doubtful;
            all others are normalised the same for ever.
    """
    words = {
        token["content"]
        for token in reference.file.added_tokens
        if not token.get("special") and token["content"] != reference.boundary_token
    }
    points = set(map(ord, differing_characters(classes_of(pattern))))
    if normal_forms:
        words |= {unicodedata.normalize(form, word) for form in _NORMAL_FORMS for word in words}
        points |= {point for point in ASSIGNABLE if unicodedata.category(chr(point)) == "Cn"}
        points |= set(UNASSIGNABLE)
    alternatives = [re.escape(word) for word in sorted(words)]
    if points:
        alternatives.append(_class_of(sorted(points)))
    return re.compile("|".join(alternatives)) if alternatives else None


def _class_of(points: list[int]) -> str:
    first = [point for point, before in zip(points, [-2, *points], strict=False) if before != point - 1]
    last = [point for point, after in zip(points, [*points[1:], -2], strict=True) if after != point + 1]
    ranges = zip(first, last, strict=True)
    return "[" + "".join(f"\\U{start:08x}-\\U{end:08x}" for start, end in ranges) + "]"
