from pathlib import Path

import pytest

from corpus_assets.config import parse_corpus
from corpus_assets.errors import TokenizerError
from corpus_assets.shards.build import build_shard
from corpus_assets.shards.manifest import observe_inputs
from corpus_assets.tokenizers import load_tokenizer
from corpus_assets_tests.conftest import write_jsonl
from corpus_assets_tests.tokenizers.conftest import SOURCES, train


def config_for(tmp_path: Path):
    return parse_corpus(
        "c",
        {"input": "input", "root": "corpus", "tokenizer": "./tokenizer.json"},
        base=tmp_path,
        where="test",
    )


@pytest.fixture
def compiled(tmp_path):
    train([SOURCES[0].read_text()], vocab_size=600).save(str(tmp_path / "tokenizer.json"))
    return load_tokenizer(str(tmp_path / "tokenizer.json"))


def test_a_shard_whose_compiled_ids_are_not_those_of_the_reference_is_not_published(tmp_path, compiled):
    """As if a library upgrade had changed what the compiled encoder does, after it was proven equal."""
    train([SOURCES[1].read_text()], vocab_size=600).save(str(tmp_path / "other.json"))
    write_jsonl(tmp_path / "input" / "a.jsonl", [SOURCES[2].read_text()])
    config = config_for(tmp_path)
    (file,) = observe_inputs(config).files
    info, _ = build_shard(file, config, compiled)
    other = load_tokenizer(str(tmp_path / "other.json"))
    compiled._encoding, compiled._bytes_of = other._encoding, other._bytes_of
    with pytest.raises(TokenizerError, match="gives other ids than the tokenizers library for rows 0"):
        build_shard(file, config, compiled, force=True)
    assert [path.name for path in (config.root / "shards").glob("*.h5")] == [Path(info.path).name]


def test_the_number_of_threads_does_not_change_a_byte(tmp_path, compiled):
    write_jsonl(tmp_path / "input" / "a.jsonl", [path.read_text() for path in SOURCES])
    config = config_for(tmp_path)
    (file,) = observe_inputs(config).files
    one, _ = build_shard(file, config, compiled, threads=1)
    content = (config.root / one.path).read_bytes()
    four, _ = build_shard(file, config, compiled, threads=4, force=True)
    assert four == one
    assert (config.root / four.path).read_bytes() == content
