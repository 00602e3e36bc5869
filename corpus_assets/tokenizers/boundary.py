"""Which token follows every document: the one that was asked for, or the tokenizer's own end of text."""

from __future__ import annotations

from collections.abc import Mapping

from corpus_assets.errors import TokenizerError

# Names that published tokenizers give to the end of a text, and to the end of a turn or a segment.
# The second row counts only where the first has none: chat models have both.
END_OF_TEXT = (
    "<|endoftext|>",
    "<|end_of_text|>",
    "</s>",
    "<eos>",
    "<EOS>",
    "[EOS]",
    "<|eos|>",
    "<end_of_text>",
    "<|end▁of▁sentence|>",
    "<｜end▁of▁sentence｜>",  # DeepSeek, with full-width bars
)
END_OF_PART = ("<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>", "[SEP]", "<sep>")


def find_boundary(
    where: str,
    *,
    vocabulary: Mapping[str, int],
    special: Mapping[str, int],
    asked: str | None,
    stated: str | None = None,
) -> str:
    """The boundary token of a tokenizer.

    Args:
        where: the tokenizer, for error messages.
        vocabulary: id by token, added tokens included.
        special: the tokens that stand apart from ordinary text.
        asked: what the configuration names.
        stated: what a file beside the tokenizer names as its end of text.

    Raises:
        TokenizerError: the token does not exist, or the end of text cannot be told without being asked.
    """
    for token in (asked, stated):
        if token is not None and token in vocabulary:
            return token
        if token is not None:
            raise TokenizerError(
                f"{where}: boundary token {token!r} is not in the vocabulary, expected one that is, "
                f"such as {_some(special)}"
            )
    for names in (END_OF_TEXT, END_OF_PART):
        found = [name for name in names if name in special]
        if len(found) == 1:
            return found[0]
        if found:
            raise TokenizerError(
                f"{where}: found several end-of-text tokens, {', '.join(found)}; "
                "expected boundary_token to name one"
            )
    raise TokenizerError(
        f"{where}: found no end-of-text token, expected boundary_token to name one of {_some(special)}"
    )


def _some(tokens: Mapping[str, int]) -> str:
    names = sorted(tokens, key=tokens.__getitem__)
    shown = ", ".join(repr(name) for name in names[:20])
    return (shown or "the vocabulary (it has no special tokens)") + (" …" if len(names) > 20 else "")
