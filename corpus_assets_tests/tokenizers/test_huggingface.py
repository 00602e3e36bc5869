"""HuggingFaceTokenizer: the reference for a tokenizer.json."""

import itertools
import json
import multiprocessing
import os
import pickle

import numpy as np
import pytest

from corpus_assets.errors import TokenizerError
from corpus_assets.tokenizers import vocabulary_tokenizer
from corpus_assets.tokenizers.huggingface import HuggingFaceTokenizer
from corpus_assets.tokenizers.protocol import UnencodableDocumentError


def added(token, token_id, *, special=True):
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": token_id, "content": token, "special": special, **flags}


def word_level(vocabulary, *, unk=None, tokens=(), splitter="WhitespaceSplit"):
    return {
        "version": "1.0",
        "added_tokens": list(tokens),
        "pre_tokenizer": {"type": splitter},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": unk or "[none]"},
    }


def test_texts_come_back(spec, texts):
    tokenizer = HuggingFaceTokenizer(spec)
    assert [tokenizer.decode(ids) for ids in tokenizer.encode_batch(texts)] == texts
    assert tokenizer.encode("") == []
    assert (tokenizer.boundary_id, tokenizer.boundary_token) == (0, "<|endoftext|>")
    assert tokenizer.decode([0, *tokenizer.encode("a b"), 0]) == "a b"


def test_special_strings_in_a_text_are_text(spec):
    tokenizer = HuggingFaceTokenizer(spec)
    ids = tokenizer.encode("a<|endoftext|>b")
    assert tokenizer.boundary_id not in ids
    assert tokenizer.decode(ids) == "a<|endoftext|>b"


def test_documents_equal_their_texts_whatever_the_threads(spec, texts, monkeypatch):
    tokenizer = HuggingFaceTokenizer(spec)
    expected = [[*ids, 0] for ids in tokenizer.encode_batch(["", *texts, ""])]
    for slice_characters in (1, 10_000, 1 << 18):
        monkeypatch.setattr(vocabulary_tokenizer, "_SLICE_CHARACTERS", slice_characters)
        for threads in (1, 3):
            encoded = tokenizer.encode_documents(["", *texts, ""], threads=threads)
            assert encoded.ids.tolist() == list(itertools.chain(*expected))
            assert encoded.ends.tolist() == np.cumsum([len(ids) for ids in expected]).tolist()
            assert (encoded.ids.dtype, encoded.ends.dtype) == (np.uint16, np.int64)
    assert tokenizer.encode_documents([]).ids.size == 0


def test_truncation_and_padding_in_the_file_are_off(trained_json, write_json):
    padding = {"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None}
    padding |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "<|endoftext|>"}
    truncation = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    tokenizer = HuggingFaceTokenizer(
        write_json(trained_json | {"truncation": truncation, "padding": padding})
    )
    assert tokenizer.decode(tokenizer.encode("one two three four")) == "one two three four"
    assert 0 not in tokenizer.encode("a")


def test_tokens_of_a_template_are_not_added(trained_json, write_json):
    from tokenizers import Tokenizer, processors

    plain = Tokenizer.from_str(json.dumps(trained_json))
    plain.post_processor = processors.TemplateProcessing("<|endoftext|> $A", None, [("<|endoftext|>", 0)])
    assert 0 in plain.encode("a").ids
    assert 0 not in HuggingFaceTokenizer(write_json(plain.to_str())).encode("a")


def test_ids_of_added_tokens_count(trained_json, write_json):
    tokens = [*trained_json["added_tokens"], added("<tool>", 70_000, special=False)]
    tokenizer = HuggingFaceTokenizer(write_json(trained_json | {"added_tokens": tokens}))
    reachable = tokenizer.encode("<tool>")
    assert max(reachable) == tokenizer.max_token_id == tokenizer.vocab_size - 1
    assert tokenizer.max_token_id >= 1500


@pytest.mark.parametrize(
    ("names", "options", "expected"),
    [
        (["<s>", "</s>", "<pad>"], {}, "</s>"),
        (["<|endoftext|>", "<|im_start|>", "<|im_end|>"], {}, "<|endoftext|>"),
        (["[CLS]", "[SEP]", "[MASK]"], {}, "[SEP]"),
        (["<|im_start|>", "<|im_end|>"], {}, "<|im_end|>"),
        (["<|endoftext|>", "</s>"], {"boundary_token": "</s>"}, "</s>"),
        (["<doc>"], {"boundary_token": "<doc>"}, "<doc>"),
    ],
)
def test_the_boundary_is_the_end_of_text(write_json, names, options, expected):
    vocabulary = {"a": 0} | {name: i for i, name in enumerate(names, 1)}
    tokens = [added(name, i) for i, name in enumerate(names, 1)]
    tokenizer = HuggingFaceTokenizer(write_json(word_level(vocabulary, unk="a", tokens=tokens)), **options)
    assert tokenizer.boundary_id == vocabulary[expected]


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (["<doc>", "<pad>"], {}, "found no end-of-text token, .* one of '<doc>', '<pad>'"),
        (["<|endoftext|>", "</s>"], {}, r"several end-of-text tokens, <\|endoftext\|>, </s>"),
        (["</s>"], {"boundary_token": "<eos>"}, "'<eos>' is not in the vocabulary, .* such as '</s>'"),
    ],
)
def test_a_boundary_that_cannot_be_told_is_asked_for(write_json, names, options, message):
    tokens = [added(name, i) for i, name in enumerate(names)]
    content = word_level({name: i for i, name in enumerate(names)}, tokens=tokens)
    with pytest.raises(TokenizerError, match=message):
        HuggingFaceTokenizer(write_json(content), **options)


def test_the_end_of_text_that_the_configuration_states_wins(write_json):
    tokens = [added("<|endoftext|>", 0), added("<|im_end|>", 1)]
    content = word_level({"<|endoftext|>": 0, "<|im_end|>": 1}, tokens=tokens)
    write_json({"eos_token": {"content": "<|im_end|>"}}, "tokenizer_config.json")
    assert HuggingFaceTokenizer(write_json(content)).boundary_id == 1
    write_json({"eos_token": "<gone>"}, "tokenizer_config.json")
    with pytest.raises(TokenizerError, match="'<gone>' is not in the vocabulary"):
        HuggingFaceTokenizer(write_json(content))
    assert HuggingFaceTokenizer(write_json(content), boundary_token="<|endoftext|>").boundary_id == 0


def test_a_boundary_that_is_no_special_token_is_still_text_in_a_text(trained_json, write_json):
    tokens = [*trained_json["added_tokens"], added("<doc>", 1500, special=False)]
    tokenizer = HuggingFaceTokenizer(
        write_json(trained_json | {"added_tokens": tokens}), boundary_token="<doc>"
    )
    ids = tokenizer.encode("a<doc>b")
    assert tokenizer.boundary_id not in ids
    assert tokenizer.decode(ids) == "a<doc>b"


def test_documents_that_cannot_stand_in_a_shard_are_named(write_json):
    content = word_level({"a": 0, "b": 1, "</s>": 2}, tokens=[added("</s>", 2)])
    tokenizer = HuggingFaceTokenizer(write_json(content))
    with pytest.raises(UnencodableDocumentError) as caught:
        tokenizer.encode_documents(["a b", "unknown", "\ud800", "a </s> b", "", "</s>"])
    assert caught.value.failures == {
        1: "tokenizer_failed",
        2: "lone_surrogate",
        3: "boundary_in_text",
        5: "boundary_in_text",
    }
    assert tokenizer.encode_documents(["a b", ""]).ids.tolist() == [0, 1, 2, 2]
    with pytest.raises(UnencodableDocumentError, match="document 1 of the batch: tokenizer_failed"):
        tokenizer.encode_batch(["a", "unknown"])
    assert tokenizer.canary_ids == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("not json", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "has no `model`"),
        ('{"model": 1}', "has no `model`"),
        ('{"model": {"type": "BPE"}}', "is not a tokenizer"),
        ('{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}}', "is not a tokenizer"),
        ('{"model": {"type": "WordLevel", "vocab": {}, "unk_token": "u"}}', "found no end-of-text token"),
    ],
)
def test_a_file_that_is_no_tokenizer_is_refused(write_json, content, message):
    with pytest.raises(TokenizerError, match=rf"tokenizer\.json: {message}"):
        HuggingFaceTokenizer(write_json(content))


def test_a_missing_file_is_refused_and_a_folder_is_looked_into(spec, tmp_path):
    with pytest.raises(TokenizerError, match=r"gone\.json: cannot be read: No such file"):
        HuggingFaceTokenizer(str(tmp_path / "gone.json"))
    assert HuggingFaceTokenizer(str(tmp_path)).name == "tokenizer.json"


def test_the_fingerprint_depends_on_content_and_boundary_and_not_on_the_place(
    trained_json, write_json, tmp_path
):
    tokens = [*trained_json["added_tokens"], added("</s>", 1500)]
    spec = write_json(trained_json | {"added_tokens": tokens})
    one = HuggingFaceTokenizer(spec, boundary_token="</s>").fingerprint
    other = HuggingFaceTokenizer(spec, boundary_token="<|endoftext|>").fingerprint
    moved = tmp_path / "moved.json"
    moved.write_bytes((tmp_path / "tokenizer.json").read_bytes())
    assert HuggingFaceTokenizer(str(moved), boundary_token="</s>").fingerprint == one != other


def test_it_travels_by_its_spec_and_refuses_a_changed_file(spec, trained_json, write_json):
    tokenizer = HuggingFaceTokenizer(spec)
    sent = pickle.dumps(tokenizer)
    assert len(sent) < 1000
    assert pickle.loads(sent).fingerprint == tokenizer.fingerprint
    write_json(json.dumps(trained_json, indent=1))
    with pytest.raises(TokenizerError, match="the file or the library that reads it changed"):
        pickle.loads(sent)


def _encode_in_child(tokenizer, text, pipe):
    pipe.send(tokenizer.encode_documents([text] * 50, threads=2).ids.tolist())


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_tokenizer_used_before_a_fork_works_in_the_child(spec, texts, monkeypatch):
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "true")  # what would make the child wait for ever
    tokenizer = HuggingFaceTokenizer(spec)
    expected = tokenizer.encode_documents([texts[0]] * 50, threads=2).ids.tolist()
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_encode_in_child, args=(tokenizer, texts[0], send))
    child.start()
    assert receive.poll(20), "the child hangs"
    assert receive.recv() == expected
    child.join()
    assert os.environ["TOKENIZERS_PARALLELISM"] == "true"
