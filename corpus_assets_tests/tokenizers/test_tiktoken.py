"""TiktokenTokenizer: a rank file, or an encoding from the local cache, and never a download."""

import base64
import hashlib
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

from corpus_assets.errors import TokenizerError
from corpus_assets.tokenizers import load_tokenizer
from corpus_assets.tokenizers.protocol import UnencodableDocumentError
from corpus_assets.tokenizers.tiktoken import TiktokenTokenizer

PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
RANKS = {bytes([byte]): byte for byte in range(256)} | {b"ab": 256, b" ab": 257}
SETTINGS = {"pat_str": PATTERN, "special_tokens": {"<|endoftext|>": 300, "<|fim|>": 301}}


def rank_lines(ranks):
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items())


@pytest.fixture
def write(tmp_path):
    def write_files(ranks=None, settings=None):
        (tmp_path / "mini.tiktoken").write_bytes(rank_lines(RANKS) if ranks is None else ranks)
        if settings != "":
            text = settings if isinstance(settings, str) else json.dumps(settings or SETTINGS)
            (tmp_path / "mini.json").write_text(text)
        return str(tmp_path / "mini.tiktoken")

    return write_files


def test_ids_by_hand(write):
    tokenizer = load_tokenizer(write())
    assert isinstance(tokenizer, TiktokenTokenizer)
    assert tokenizer.encode("ab abc") == [256, 257, 99]
    assert tokenizer.decode([256, 300, 257, 99, 300]) == "ab abc"
    assert (tokenizer.boundary_id, tokenizer.max_token_id, tokenizer.vocab_size) == (300, 301, 302)
    assert tokenizer.name == "mini.tiktoken"
    encoded = tokenizer.encode_documents(["ab", "", "c"])
    assert encoded.ids.tolist() == [256, 300, 300, 99, 300]
    assert encoded.ids.dtype == np.uint16


def test_special_strings_are_text(write):
    tokenizer = load_tokenizer(write())
    ids = tokenizer.encode("<|endoftext|><|fim|>")
    assert max(ids) < 256
    assert tokenizer.decode(ids) == "<|endoftext|><|fim|>"


def test_texts_come_back(write, texts):
    tokenizer = load_tokenizer(write())
    assert [tokenizer.decode(ids) for ids in tokenizer.encode_batch(texts)] == texts


def test_a_lone_surrogate_is_named_and_not_replaced(write):
    with pytest.raises(UnencodableDocumentError) as caught:
        load_tokenizer(write()).encode_documents(["ab", "\ud800ab"])
    assert caught.value.failures == {1: "lone_surrogate"}


def test_a_crash_of_the_encoder_costs_one_document(write):
    # Two lookaheads make the engine backtrack until it gives up, and tiktoken then panics.
    tokenizer = load_tokenizer(write(settings=SETTINGS | {"pat_str": r"(?:(?:x|xx)+(?!\S))+y|[^x]+"}))
    with pytest.raises(UnencodableDocumentError) as caught:
        tokenizer.encode_documents(["ab", "x" * 5000, "c"])
    assert caught.value.failures == {1: "tokenizer_failed"}


def test_the_boundary_may_be_named_beside_the_ranks_or_asked_for(write):
    assert load_tokenizer(write(settings=SETTINGS | {"boundary_token": "<|fim|>"})).boundary_id == 301
    assert load_tokenizer(write(), boundary_token="<|fim|>").boundary_id == 301
    with pytest.raises(
        TokenizerError, match=r"'</s>' is not in the vocabulary, .*'<\|endoftext\|>', '<\|fim"
    ):
        load_tokenizer(write(), boundary_token="</s>")


@pytest.mark.parametrize(
    ("ranks", "settings", "message"),
    [
        (b"not a rank file\n", None, r"mini\.tiktoken: line 1 is b'not a rank file'"),
        (b"YQ== 0\nYQ= 1\n", None, "line 2"),
        (b"YQ== 0\n", None, "no token for byte 0"),
        (rank_lines(RANKS) + b"YWI= 999\n", None, "a token or a rank twice"),
        (None, "", r"mini\.json: cannot be used \(FileNotFoundError"),
        (None, "{}", "expected a JSON object with `pat_str` and `special_tokens`"),
        (None, "[]", "expected a JSON object"),
        (None, SETTINGS | {"special_tokens": {"<|endoftext|>": 256}}, r"ids \[256\] are taken"),
        (None, SETTINGS | {"pat_str": "("}, "is not an encoding"),
        (None, SETTINGS | {"special_tokens": {"<a>": 300}}, "found no end-of-text token"),
    ],
)
def test_what_is_no_encoding_is_refused(write, ranks, settings, message):
    with pytest.raises(TokenizerError, match=message):
        load_tokenizer(write(ranks, settings))


def test_the_fingerprint_follows_the_content(write):
    one = load_tokenizer(write()).fingerprint
    assert load_tokenizer(write()).fingerprint == one
    assert load_tokenizer(write(), boundary_token="<|fim|>").fingerprint != one
    assert load_tokenizer(write(rank_lines(RANKS | {b"qq": 258}))).fingerprint != one
    assert load_tokenizer(write(settings=SETTINGS | {"pat_str": r"\S+|\s+"})).fingerprint != one


def test_it_travels_by_its_spec(write):
    tokenizer = load_tokenizer(write())
    assert pickle.loads(pickle.dumps(tokenizer)).fingerprint == tokenizer.fingerprint


def test_an_unknown_name_lists_what_there_is():
    with pytest.raises(TokenizerError, match=r"nonsense: unknown tokenizer, expected `byte`.*cl100k_base"):
        load_tokenizer("nonsense")


def test_an_encoding_that_is_not_cached_is_refused_without_a_download(tmp_path, monkeypatch):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    with pytest.raises(TokenizerError, match=r"cl100k_base: .*local cache.*TIKTOKEN_CACHE_DIR"):
        load_tokenizer("cl100k_base")


def test_a_cached_encoding_loads_by_name(tmp_path):
    """In a process of its own, because tiktoken keeps a registry of the encodings that it has seen."""
    url = "https://mini.invalid/mini.tiktoken"
    plugin = tmp_path / "plugin" / "tiktoken_ext"
    plugin.mkdir(parents=True)
    (plugin / "mini.py").write_text(
        "from tiktoken.load import load_tiktoken_bpe\n"
        "def mini():\n"
        f"    return dict(name='mini', pat_str={PATTERN!r}, mergeable_ranks=load_tiktoken_bpe({url!r}),\n"
        f"                special_tokens={SETTINGS['special_tokens']!r})\n"
        "ENCODING_CONSTRUCTORS = {'mini': mini}\n"
    )
    (tmp_path / hashlib.sha1(url.encode()).hexdigest()).write_bytes(rank_lines(RANKS))
    code = (
        "from corpus_assets.tokenizers import load_tokenizer\n"
        "tokenizer = load_tokenizer('mini'); print(tokenizer.encode('ab abc'), tokenizer.name)"
    )
    environment = {"PYTHONPATH": str(tmp_path / "plugin"), "TIKTOKEN_CACHE_DIR": str(tmp_path)}
    printed = subprocess.check_output([sys.executable, "-c", code], text=True, env=environment)
    assert printed == "[256, 257, 99] mini\n"
