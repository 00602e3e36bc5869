"""Small tokenizers, trained on the standard library's own sources."""

import json
import os
from pathlib import Path

import pytest

SOURCES = sorted(Path(os.__file__).parent.glob("*.py"))[:12]


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """Python sources, and text in many scripts."""
    manifold = (
        "Ωμέγα ὄνομα — naïve façade; straße, İstanbul, don't, DON'T, it'ſ.\n"
        "日本語のテキスト、漢字かな交じり文。 한국어 문장입니다. Привет, мир! مرحبا بالعالم  नमस्ते\r\n"
        "1234567890 ٠١٢٣ ½ Ⅷ 3.14e-10   \t\t  \U0001f600\U0001f468‍\U0001f469‍\U0001f467 e\u0301 \x00\x0b\x85\u3000 end  "
    )
    return [path.read_text(encoding="utf-8") for path in SOURCES] + [manifold]


def train(texts, *, vocab_size=1500, special=("<|endoftext|>",), pre_tokenizer=None, normalizer=None):
    """A byte-level BPE trained on `texts`."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer or pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


@pytest.fixture(scope="session")
def trained_json(texts) -> dict:
    """The content of a tokenizer.json: GPT-2's shape, <|endoftext|> is 0."""
    return json.loads(train(texts).to_str())


@pytest.fixture
def write_json(tmp_path):
    def write(content, name="tokenizer.json") -> str:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    return write


@pytest.fixture
def spec(trained_json, write_json) -> str:
    return write_json(trained_json)
