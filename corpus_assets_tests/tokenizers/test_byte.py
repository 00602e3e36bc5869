"""ByteTokenizer: ids that can be computed in one's head."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus_assets.errors import TokenizerError
from corpus_assets.tokenizers import ByteTokenizer, load_tokenizer
from corpus_assets.tokenizers.protocol import UnencodableDocumentError, token_dtype


def test_ids_are_bytes_plus_one():
    tokenizer = load_tokenizer("byte")
    assert tokenizer.encode("aé\x00") == [98, 196, 170, 1]
    assert tokenizer.encode_batch(["a", ""]) == [[98], []]
    assert tokenizer.decode([98, 0, 196, 170, 0]) == "aé"
    assert (tokenizer.boundary_id, tokenizer.vocab_size, tokenizer.max_token_id) == (0, 257, 256)
    assert token_dtype(tokenizer.max_token_id) == np.uint16


def test_documents_are_laid_end_to_end_with_a_boundary_after_each():
    encoded = ByteTokenizer().encode_documents(["", "ab", "", "\x00"])
    assert encoded.ids.tolist() == [0, 98, 99, 0, 0, 1, 0]
    assert encoded.ends.tolist() == [1, 4, 5, 7]
    assert encoded.ids.dtype == np.uint16
    assert encoded.ends.dtype == np.int64


def test_no_documents_are_no_tokens():
    encoded = ByteTokenizer().encode_documents([])
    assert encoded.ids.size == encoded.ends.size == 0


def test_a_lone_surrogate_names_its_document():
    with pytest.raises(UnencodableDocumentError) as caught:
        ByteTokenizer().encode_documents(["fine", "\ud800", "fine", "x\udfff"])
    assert caught.value.failures == {1: "lone_surrogate", 3: "lone_surrogate"}
    assert (caught.value.index, caught.value.reason) == (1, "lone_surrogate")
    assert pickle.loads(pickle.dumps(caught.value)).failures == caught.value.failures


def test_it_travels_by_pickle_and_keeps_its_fingerprint():
    tokenizer = ByteTokenizer()
    assert pickle.loads(pickle.dumps(tokenizer)).fingerprint == tokenizer.fingerprint
    assert len(tokenizer.fingerprint) == 64


def test_its_boundary_cannot_be_named():
    with pytest.raises(TokenizerError, match="expected none"):
        load_tokenizer("byte", boundary_token="</s>")


@given(st.lists(st.text(max_size=20), max_size=8))
def test_documents_come_back_from_the_bytes(texts):
    tokenizer = ByteTokenizer()
    encoded = tokenizer.encode_documents(texts)
    starts = [0, *encoded.ends.tolist()][: len(texts)]
    pieces = [encoded.ids[a:b].tolist() for a, b in zip(starts, encoded.ends, strict=True)]
    assert pieces == [[*tokenizer.encode(text), 0] for text in texts]
    assert [tokenizer.decode(piece) for piece in pieces] == texts
