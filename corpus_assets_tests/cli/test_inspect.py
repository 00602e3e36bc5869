from __future__ import annotations

import json

import pytest

from corpus_assets.cli.inspect import DocumentSample, first_documents
from corpus_assets.shards.contents import read_contents
from corpus_assets.tokenizers import ByteTokenizer


@pytest.fixture
def shard(built):
    return next((built.root / "shards").glob("a*.h5"))


def test_the_first_documents_are_decoded(shard):
    contents = read_contents(shard, documents=9, tokens=2)
    assert first_documents(contents, tokenizer=ByteTokenizer()) == [
        DocumentSample(row=0, start=0, stop=3, ids=[98, 99], text="ab"),
        DocumentSample(row=1, start=3, stop=5, ids=[100, 0], text="c"),
    ]
    assert first_documents(contents, tokenizer=None)[0].text is None


def test_a_shard_tells_what_it_is(built, shard):
    shown = built("inspect", str(shard)).stdout
    assert "tokenizer_name          byte" in shown
    assert "document 0: row 0, tokens 0 to 3\n  'ab'\n" in shown
    document = json.loads(built("inspect", str(shard), "--json").stdout)
    assert document["attributes"]["token_count"] == 5
    assert document["datasets"]["tokens"]["dtype"] == "uint16"
    assert document["documents"][1] == {"row": 1, "start": 3, "stop": 5, "ids": [100, 0], "text": "c"}


def test_the_dictionary_of_compressed_tokens_is_shown_by_its_length(built):
    from corpus_assets import recode_corpus

    copy = recode_corpus(built.root, built.folder / "copy", compression="zstd-dict")
    shown = built("inspect", str(copy.root / copy.shards[0].path)).stdout
    assert "dictionary bytes" in shown


def test_documents_that_are_more_than_text_are_escaped(shell):
    shell.configure()
    shell.write_input("a.jsonl", "\x1b[2Jgone")
    from corpus_assets import write_corpus

    write_corpus(shell.folder / "data/c/input", shell.root, workers=1)
    shard = next((shell.root / "shards").glob("a*.h5"))
    assert "\\x1b[2Jgone" in shell("inspect", str(shard)).stdout


def test_a_tokenizer_that_did_not_make_the_shard_is_refused(built, shard, tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"ab": 0, "<|endoftext|>": 1}, unk_token="ab"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    message = built.refused("inspect", str(shard), "--tokenizer", str(tmp_path / "tokenizer.json"))
    assert "the shard was made with" in message


def test_what_is_not_a_shard_is_refused(built, tmp_path):
    (tmp_path / "text.h5").write_text("no")
    assert "expected a token shard (HDF5)" in built.refused("inspect", "text.h5")
    assert built.refused("inspect", "nowhere.h5") == "nowhere.h5: No such file or directory"
    assert built.refused("inspect", "data") == "data: Is a directory"


def test_a_cut_shard_is_refused(built, shard):
    shard.write_bytes(shard.read_bytes()[:2000])
    assert str(shard) in built.refused("inspect", str(shard))
