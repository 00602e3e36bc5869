"""CompiledTokenizer: the ids of the reference, or the reference itself."""

import json
import logging
import pickle

import pytest
import tiktoken
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corpus_assets.tokenizers import load_tokenizer
from corpus_assets.tokenizers.compiled import CompiledTokenizer
from corpus_assets.tokenizers.huggingface import HuggingFaceTokenizer
from corpus_assets.tokenizers.protocol import UnencodableDocumentError
from corpus_assets.tokenizers.ranks import byte_of_character

LLAMA = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def byte_level(**options):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True} | options


def split(pattern, behavior="Isolated", invert=False):
    step = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}
    return {"type": "Sequence", "pretokenizers": [step, byte_level(use_regex=False)]}


def digits(individual):
    step = {"type": "Digits", "individual_digits": individual}
    return {"type": "Sequence", "pretokenizers": [step, byte_level()]}


def added(token, token_id, special, normalized=False):
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
    return {"id": token_id, "content": token, "special": special, "normalized": normalized, **flags}


TOOLS = [
    added("<|endoftext|>", 0, True),
    added("<tool>", 1500, False),
    added("<e\u0301>", 1501, False, normalized=True),
    added("<\u00e5\u00e9>", 1502, False, normalized=True),
]
SHAPES = {
    "GPT-2": {},
    "prefix space": {"pre_tokenizer": byte_level(add_prefix_space=True)},
    "no pieces": {"pre_tokenizer": byte_level(use_regex=False)},
    "Llama 3": {"pre_tokenizer": split(LLAMA), "model": {"ignore_merges": True}},
    "GPT-4": {"pre_tokenizer": split(LLAMA, "Removed", invert=True)},
    "GPT-4o": {"pre_tokenizer": split(O200K)},
    "Qwen": {"pre_tokenizer": split(LLAMA.replace("{1,3}", "")), "normalizer": {"type": "NFC"}},
    "StarCoder": {"pre_tokenizer": digits(True)},
    "digits in runs": {"pre_tokenizer": digits(False)},
    "gaps are pieces": {"pre_tokenizer": split(r"\p{L}+| \p{N}+")},
    "gaps are dropped": {"pre_tokenizer": split(r"\p{L}+| \p{N}+", "Removed", invert=True)},
    "added tokens": {"added_tokens": TOOLS, "normalizer": {"type": "NFKC"}},
}


def shaped(trained, changes):
    model = trained["model"] | changes.get("model", {})
    return trained | changes | {"model": model}


@pytest.fixture(scope="module", params=SHAPES)
def pair(request, trained_json, tmp_path_factory):
    """A compiled tokenizer of each shape, and its reference."""
    path = tmp_path_factory.mktemp("shape") / "tokenizer.json"
    path.write_text(json.dumps(shaped(trained_json, SHAPES[request.param])))
    compiled = load_tokenizer(str(path))
    assert isinstance(compiled, CompiledTokenizer)
    return compiled, HuggingFaceTokenizer(str(path))


def test_real_texts_have_the_ids_of_the_reference(pair, texts):
    compiled, reference = pair
    assert compiled.encode_batch(texts) == reference.encode_batch(texts)
    assert compiled.audit(texts) == []
    laid_out, expected = (tokenizer.encode_documents(texts, threads=2) for tokenizer in pair)
    assert laid_out.ids.tobytes() == expected.ids.tobytes()
    assert laid_out.ends.tobytes() == expected.ends.tobytes()


def test_compiling_changes_nothing_that_is_recorded(pair):
    compiled, reference = pair
    assert compiled.fingerprint == reference.fingerprint
    assert compiled.canary_ids == reference.canary_ids
    for name in ("name", "boundary_id", "max_token_id", "vocab_size"):
        assert getattr(compiled, name) == getattr(reference, name)
    assert compiled.decode(compiled.encode("a b")) == reference.decode(reference.encode("a b"))


WHITE_SPACE = [" ", "  ", "\n", "\r\n", "\t", "\u3000", "\x85", "\u200b"]
LETTERS = ["'", "'s", "'LL", "'ſ", "a", "B", "ǅ", "ʰ", "é", "e\u0301", "<e\u0301>", "日本", "\u0e33"]
OTHERS = ["1", "23", "½", "٣", "Ⅷ", "-", "==", "/", "(", "€", "\U0001f600", "\U00050000", "\u0378", "\x00"]
WORDS = ["<|endoftext|>", "<tool>", "<tool", "return", " def ", "self."]
fragments = st.sampled_from([*WHITE_SPACE, *LETTERS, *OTHERS, *WORDS])
any_text = st.lists(fragments, max_size=25).map("".join) | st.text(max_size=30)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(any_text, min_size=1, max_size=8))
def test_any_text_has_the_ids_of_the_reference(pair, some_texts):
    compiled, reference = pair
    assert compiled.encode_batch(some_texts) == reference.encode_batch(some_texts)


def test_long_pieces_have_the_ids_of_the_reference(pair):
    compiled, reference = pair
    for text in ("a" * 3000, "return" * 800, "=-" * 1500, " " * 3000, "1" * 2000, "日本" * 1000):
        assert compiled.encode(text) == reference.encode(text)


@pytest.mark.parametrize("text", ["<e\u0301>", "<\u00e9>", "<\u00e5\u00e9>", "<a\u030a\u00e9>", "x<tool>y"])
def test_added_tokens_are_found_in_every_normal_form(trained_json, write_json, text):
    spec = write_json(trained_json | {"added_tokens": TOOLS, "normalizer": {"type": "NFC"}})
    expected = HuggingFaceTokenizer(spec).encode(text)
    assert max(expected) >= 1500
    assert load_tokenizer(spec).encode(text) == expected


def test_characters_of_a_later_unicode_version_are_normalised_by_the_reference(trained_json, write_json):
    spec = write_json(trained_json | {"normalizer": {"type": "NFC"}})
    text = "\U000105d2\u0307"  # composes to U+105C9 since Unicode 16
    assert load_tokenizer(spec).encode(text) == HuggingFaceTokenizer(spec).encode(text)


def test_a_million_spaces_are_encoded_by_the_reference(spec):
    text = "a" + " " * 1_100_000 + "b"  # overflow the stack of tiktoken's regular expressions
    expected = HuggingFaceTokenizer(spec).encode(text)
    assert load_tokenizer(spec).encode_batch(["x", text])[1] == expected


def test_a_lone_surrogate_costs_one_document(pair):
    with pytest.raises(UnencodableDocumentError) as caught:
        pair[0].encode_documents(["a", "\udc00", "b"])
    assert caught.value.failures == {1: "lone_surrogate"}


NOT_COMPILED = {
    "dropout": {"model": {"dropout": 0.1}},
    "suffix": {"model": {"end_of_word_suffix": "Ġ"}},
    "lower case": {"normalizer": {"type": "Lowercase"}},
    "no splitting": {"pre_tokenizer": None},
    "words": {"pre_tokenizer": {"type": "Whitespace"}},
    "two splits": {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [byte_level(), byte_level()]}},
    "every piece with a space": {
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [split(LLAMA)["pretokenizers"][0], byte_level(add_prefix_space=True)],
        }
    },
    "engine's own syntax": {"pre_tokenizer": split(r"\w+|\W+")},
    "merged": {"pre_tokenizer": split(r"\s+", "MergedWithNext")},
    "matches dropped": {"pre_tokenizer": split(r"\s+", "Removed")},
}


@pytest.mark.parametrize("name", NOT_COMPILED)
def test_what_is_not_provably_the_same_runs_on_the_reference(name, trained_json, write_json, texts, caplog):
    with caplog.at_level(logging.INFO):
        tokenizer = load_tokenizer(write_json(shaped(trained_json, NOT_COMPILED[name])))
    assert type(tokenizer) is HuggingFaceTokenizer
    assert "not compiled: " in caplog.text
    assert tokenizer.audit(texts) == []


def by_hand(tokens, merges, **model):
    """A tokenizer.json with the 256 bytes as ids 0 to 255, `tokens` from 256 on, and </s> at 999."""
    vocabulary = byte_of_character() | {token: 256 + i for i, token in enumerate(tokens)}
    return {
        "version": "1.0",
        "added_tokens": [added("</s>", 999, True)],
        "pre_tokenizer": byte_level(),
        "decoder": byte_level(),
        "model": {"type": "BPE", "vocab": vocabulary | {"</s>": 999}, "merges": merges, **model},
    }


@pytest.mark.parametrize(
    ("content", "compiled", "text", "ids"),
    [
        # merges in the order of their ids: the first one wins in both
        (by_hand(["ab", "bc"], ["a b", "b c"]), True, "abc", [256, 99]),
        # the order says otherwise than the ids, which tiktoken would go by
        (by_hand(["bc", "ab"], ["a b", "b c"]), False, "abc", [257, 99]),
        # abc is never made: bc comes first and (a, bc) is no merge; tiktoken would look it up whole
        (by_hand(["bc", "ab", "abc"], ["b c", "a b", "ab c"]), True, "abc", [97, 256]),
        # as above, but the model looks whole pieces up, and tiktoken would join a and bc inside xabc
        (
            by_hand(["bc", "ab", "abc"], ["b c", "a b", "ab c"], ignore_merges=True),
            False,
            "xabc",
            [120, 97, 256],
        ),
        # never made by merges, in neither of them: found whole only
        (by_hand(["ab", "xyz"], ["a b"], ignore_merges=True), True, "xyz", [257]),
        (by_hand(["ab", "xyz"], ["a b"], ignore_merges=True), True, "wxyz", [119, 120, 121, 122]),
        (by_hand(["ab", "xyz"], ["a b"]), True, "xyz", [120, 121, 122]),
        # two merges make the same token
        (by_hand(["ab", "bc", "abc"], ["a b", "b c", "ab c", "a bc"]), True, "abc", [258]),
        # equals are taken from the left
        (by_hand(["aa"], ["a a"]), True, "aaaaa", [256, 256, 97]),
        # a special token in the vocabulary is not found in a text
        (by_hand(["ab"], ["a b"], ignore_merges=True), True, "</s>", [60, 47, 115, 62]),
    ],
)
def test_merges_by_hand(write_json, content, compiled, text, ids):
    tokenizer = load_tokenizer(write_json(content))
    assert isinstance(tokenizer, CompiledTokenizer) is compiled
    assert tokenizer.encode(text) == ids
    assert HuggingFaceTokenizer(tokenizer._identity.spec).encode(text) == ids


def test_a_missing_byte_is_not_compiled(write_json):
    content = by_hand(["ab"], ["a b"])
    del content["model"]["vocab"]["z"]
    assert type(load_tokenizer(write_json(content))) is HuggingFaceTokenizer


small_merges = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12, unique=True)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    small_merges,
    st.booleans(),
    st.permutations(range(12)),
    st.lists(st.text("abcd", max_size=12), max_size=10),
)
def test_random_merges_never_compile_to_other_ids(write_json, picks, ignore_merges, order, some_texts):
    """Whatever the merges are, either the proof fails or the ids are the same."""
    tokens = ["a", "b", "c", "d"]
    merges = []
    for left, right in picks:
        one, two = tokens[left % len(tokens)], tokens[right % len(tokens)]
        merges.append(f"{one} {two}")
        if one + two not in tokens:
            tokens.append(one + two)
    made = tokens[4:]
    shuffled = [made[i] for i in order if i < len(made)] if order[0] % 3 == 0 else made
    spec = write_json(by_hand(shuffled, merges, ignore_merges=ignore_merges))
    checked = [*some_texts, *(a + b for a in made for b in made)]
    assert load_tokenizer(spec).encode_batch(checked) == HuggingFaceTokenizer(spec).encode_batch(checked)


def test_the_audit_names_the_texts_that_differ(spec):
    tokenizer = load_tokenizer(spec)
    ranks = dict(tokenizer._encoding._mergeable_ranks)
    del ranks[b" import"]
    tokenizer._encoding = tiktoken.Encoding(
        "spoiled", pat_str=tokenizer._encoding._pat_str, mergeable_ranks=ranks, special_tokens={}
    )
    assert tokenizer.audit(["fine", "x import", "x", "y import z"]) == [1, 3]


def test_it_travels_by_its_spec(spec):
    tokenizer = load_tokenizer(spec)
    again = pickle.loads(pickle.dumps(tokenizer))
    assert isinstance(again, CompiledTokenizer)
    assert again.encode("return 1") == tokenizer.encode("return 1")
