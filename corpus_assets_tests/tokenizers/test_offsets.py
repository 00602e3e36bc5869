import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from corpus_assets import ByteTokenizer, load_tokenizer
from corpus_assets.tokenizers.compiled import CompiledTokenizer
from corpus_assets.tokenizers.huggingface import HuggingFaceTokenizer
from corpus_assets.tokenizers.protocol import UnencodableDocumentError
from corpus_assets_tests.tokenizers.conftest import train
from corpus_assets_tests.tokenizers.test_tiktoken import RANKS, SETTINGS, rank_lines


def places(tokens) -> list[tuple[int, int]]:
    return list(zip(tokens.starts.tolist(), tokens.stops.tolist(), strict=True))


def test_each_byte_stands_for_its_whole_character():
    tokens = ByteTokenizer().encode_with_offsets("aé€b")
    assert tokens.ids.tolist() == [98, 196, 170, 227, 131, 173, 99]
    assert places(tokens) == [(0, 1), (1, 2), (1, 2), (2, 3), (2, 3), (2, 3), (3, 4)]


def test_an_empty_text_has_no_tokens():
    assert [part.tolist() for part in ByteTokenizer().encode_with_offsets("")] == [[], [], []]


def test_a_lone_surrogate_has_no_places(spec):
    for tokenizer in (ByteTokenizer(), load_tokenizer(spec)):
        with pytest.raises(UnencodableDocumentError, match="lone_surrogate"):
            tokenizer.encode_with_offsets("a\ud800")


@given(st.text())
def test_bytes_are_cut_at_their_characters(text):
    tokens = ByteTokenizer().encode_with_offsets(text)
    expected = [(i, i + 1) for i, character in enumerate(text) for _ in character.encode()]
    assert places(tokens) == expected


@pytest.mark.parametrize(
    "options", [{}, {"normalizer": normalizers.NFC()}, {"normalizer": normalizers.NFD()}]
)
@pytest.mark.parametrize("prefix", [False, True])
def test_compiled_and_reference_agree_on_places(texts, write_json, options, prefix):
    pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    spec = write_json(train(texts, pre_tokenizer=pre_tokenizer, **options).to_str())
    compiled, reference = load_tokenizer(spec), HuggingFaceTokenizer(spec)
    assert isinstance(compiled, CompiledTokenizer)
    for text in [*texts, "", "x", " x", "e\u0301 é <|endoftext|>"]:
        found, expected = compiled.encode_with_offsets(text), reference.encode_with_offsets(text)
        assert found.ids.tolist() == compiled.encode(text) == expected.ids.tolist()
        assert places(found) == places(expected)


def test_a_post_processor_that_trims_spaces_changes_no_place(texts, write_json):
    tokenizer = train(texts)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    spec = write_json(tokenizer.to_str())
    assert places(HuggingFaceTokenizer(spec).encode_with_offsets("   "))[0][0] == 0
    assert places(HuggingFaceTokenizer(spec).encode_with_offsets("   "))[-1][1] == 3


def test_the_places_of_a_rank_file_follow_each_other(texts, tmp_path):
    (tmp_path / "mini.tiktoken").write_bytes(rank_lines(RANKS))
    (tmp_path / "mini.json").write_text(json.dumps(SETTINGS))
    tokenizer = load_tokenizer(str(tmp_path / "mini.tiktoken"))
    text = texts[-1]
    tokens = tokenizer.encode_with_offsets(text)
    assert tokens.ids.tolist() == tokenizer.encode(text)
    assert tokens.starts[0] == 0
    assert tokens.stops[-1] == len(text)
    assert (tokens.starts < tokens.stops).all()
    # A token begins where the one before ended, or inside the character that it was cut in.
    gap = tokens.starts[1:] - tokens.stops[:-1]
    assert set(gap.tolist()) <= {0, -1}


def test_a_text_that_no_token_stands_for_has_no_places(write_json):
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2, "</s>": 3}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.add_special_tokens(["</s>"])
    tokens = load_tokenizer(write_json(words.to_str())).encode_with_offsets("a   b xyz")
    assert tokens.ids.tolist() == [1, 2, 0]
    assert places(tokens) == [(0, 1), (4, 5), (6, 9)]


def test_places_are_integers_for_every_tokenizer(spec):
    for tokenizer in (ByteTokenizer(), load_tokenizer(spec), HuggingFaceTokenizer(spec)):
        for text in ("", "ab"):
            tokens = tokenizer.encode_with_offsets(text)
            assert tokens.starts.dtype == tokens.stops.dtype == np.int64
