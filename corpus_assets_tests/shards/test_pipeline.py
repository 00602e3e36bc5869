import orjson
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from corpus_assets.config import parse_corpus
from corpus_assets.shards.manifest import observe_inputs
from corpus_assets.shards.pipeline import ShardedTokenizationPipeline
from corpus_assets_tests.conftest import write_jsonl


def slow_tokenizer(path) -> None:
    """Splits by a pattern that tries 2^n ways to match n letters x without a y behind them."""
    tokenizer = Tokenizer(models.BPE(vocab={"x": 0, "b": 1, "<|endoftext|>": 2}, merges=[]))
    tokenizer.add_special_tokens(["<|endoftext|>"])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("(x+x+)+y"), "isolated")
    tokenizer.save(str(path))


def test_a_document_that_the_tokenizer_hangs_on_becomes_a_reject_alone(tmp_path):
    slow_tokenizer(tmp_path / "tokenizer.json")
    hanging = ("x" * 22 + "b") * 100_000
    write_jsonl(tmp_path / "input" / "a.jsonl", ["xb"] * 60 + [hanging] + ["bb"] * 60)
    write_jsonl(tmp_path / "input" / "b.jsonl", ["b"])
    config = parse_corpus(
        "c",
        {"input": "input", "root": "corpus", "tokenizer": "./tokenizer.json", "document_timeout": 2.0},
        base=tmp_path,
        where="test",
    )
    pipeline = ShardedTokenizationPipeline(config, workers=2)
    outcomes = {outcome.key: outcome for outcome in pipeline.run(observe_inputs(config).files)}
    assert outcomes["b.jsonl"].error is None
    assert outcomes["a.jsonl"].error is None
    assert outcomes["a.jsonl"].info.ledger.rejected == {"tokenizer_timeout": 1}
    assert outcomes["a.jsonl"].info.document_count == 120
    (quarantine,) = (config.root / "quarantine").iterdir()
    line = orjson.loads(quarantine.read_bytes())
    assert (line["row"], line["reason"]) == (60, "tokenizer_timeout")
    assert orjson.loads(line["raw"]) == {"text": hanging}
