r"""When the merges of a byte-level BPE are the ranks that tiktoken merges by.

`tokenizers` joins the adjacent pair that stands first in the list of merges; tiktoken joins the adjacent
pair whose concatenation has the smallest id, whether or not that pair is a merge, and a piece that is a
token is that token at once. Both take the leftmost of equals. They give the same ids for every piece if

1. every byte is a token,
2. the results of the merges, in their order, have ascending ids, and
3. each token, encoded alone by its merges, is itself.

Why: by induction both are in the same state after all joins below id t. Let tiktoken join x and y to t now.
No join crossed the borders of this stretch, so encoding the bytes of t alone passes through the state
x, y too, and by 3 the only next join, (x, y), is a merge. By 2 no merge of a smaller id is left to
`tokenizers`, and every other adjacent pair that makes t is (x, y) as well, so it takes the same one.

A token that 3 does not hold for is never made by merges. It is left out of the ranks; or, where the model
looks a whole piece up first (`ignore_merges`), kept, if tiktoken's joins do not lead to it either.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from corpus_assets.tokenizers.splitting import NotCompilable

if TYPE_CHECKING:
    from corpus_assets.tokenizers.huggingface import TokenizerFile


def byte_of_character() -> dict[str, int]:
    """The byte that each character of a byte-level vocabulary stands for (GPT-2's table)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


def mergeable_ranks(file: TokenizerFile) -> dict[bytes, int]:
    """Id by token, for tiktoken, of the byte-level BPE in `file`.

    Raises:
        NotCompilable: the model is not one, or its merges are not its ranks.
    """
    model = file.content["model"]
    _expect_plain_bpe(model)
    vocabulary: dict[str, int] = model["vocab"]
    table = byte_of_character()
    missing = [byte for character, byte in table.items() if character not in vocabulary]
    if missing:
        raise NotCompilable(f"no token for byte {missing[0]}")
    merged = [vocabulary[left + right] for left, right in map(_pair, model["merges"])]
    if any(before > after for before, after in pairwise(merged)):
        raise NotCompilable("merges are not in the order of their ids")
    tokens = [token for token in vocabulary if token and all(character in table for character in token)]
    ranks = {bytes(map(table.__getitem__, token)): vocabulary[token] for token in tokens}
    if len(set(ranks.values())) != len(ranks):
        raise NotCompilable("two tokens have one id")
    for token in _not_made_by_merges(file, tokens):
        raw = bytes(map(table.__getitem__, token))
        if not model.get("ignore_merges"):
            del ranks[raw]
        elif _joined(raw, ranks) == [raw]:
            raise NotCompilable(f"token {token!r} is not made by the merges")
    return ranks


def _expect_plain_bpe(model: dict[str, Any]) -> None:
    if model.get("type") != "BPE":
        raise NotCompilable(f"the model is {model.get('type')}")
    for option in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(option):
            raise NotCompilable(f"{option} is {model[option]!r}")


def _pair(merge: Any) -> tuple[str, str]:
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left, right


def _not_made_by_merges(file: TokenizerFile, tokens: list[str]) -> list[str]:
    """The tokens that the reference, given them as one piece and with merges alone, does not return."""
    model = file.content["model"] | {"ignore_merges": False}
    bare = file.build(added_tokens=[], normalizer=None, pre_tokenizer=None, post_processor=None, model=model)
    encodings = bare.encode_batch_fast(tokens, add_special_tokens=False)
    vocabulary = model["vocab"]
    return [
        token
        for token, encoding in zip(tokens, encodings, strict=True)
        if encoding.ids != [vocabulary[token]]
    ]


def _joined(raw: bytes, ranks: dict[bytes, int]) -> list[bytes]:
    """What tiktoken's joins make of one piece when it is not looked up whole."""
    parts = [raw[i : i + 1] for i in range(len(raw))]
    while True:
        candidates = [
            (ranks[left + right], place)
            for place, (left, right) in enumerate(pairwise(parts))
            if left + right in ranks
        ]
        if not candidates:
            return parts
        place = min(candidates)[1]
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
