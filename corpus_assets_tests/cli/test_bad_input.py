from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CORPUS = Path(sys.executable).with_name("corpus")


def word_tokenizer(path: Path, **vocabulary: int) -> Path:
    """A tokenizer.json that knows a few words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=next(iter(vocabulary))))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(path))
    return path


BAD = {
    "a key with a typo": ({"tokenzier": "byte"}, "corpus c:\n  tokenzier: unknown key, expected one of: "),
    "a value of the wrong kind": ({"window_size": 0}, "corpus c:\n  window_size: found 0: "),
    "a missing folder": ({"input": "nowhere"}, "/nowhere: no such file or folder"),
    "an empty folder": ({"input": "empty"}, "/empty: holds no input"),
    "a tokenizer file that is not there": ({"tokenizer": "./none.json"}, "/none.json: cannot be read"),
    "a tokenizer file that is not one": (
        {"tokenizer": "data/corpora.yaml.json"},
        "corpora.yaml.json: is not JSON",
    ),
    "an encoding that does not exist": ({"tokenizer": "gpt9"}, "gpt9: unknown tokenizer"),
    "a boundary outside the vocabulary": (
        {"tokenizer": "words.json", "boundary_token": "<end>"},
        "boundary token '<end>' is not in the vocabulary",
    ),
    "a vocabulary without an end of text": ({"tokenizer": "words.json"}, "words.json: "),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_ends_in_one_message(shell, what):
    options, message = BAD[what]
    shell.configure(**options)
    shell.write_input("a.jsonl", "ab")
    (shell.folder / "empty").mkdir()
    (shell.folder / "data/corpora.yaml.json").write_text("corpora:\n")
    word_tokenizer(shell.folder / "words.json", a=0, b=1)
    assert message in shell.refused("build")


def test_bad_input_ends_in_one_message_in_a_shell_of_its_own(shell):
    config = shell.configure(input="nowhere")
    environment = {**os.environ, "CORPUS_CONFIG": str(config)}
    process = subprocess.run(
        [CORPUS, "build"], cwd="/", env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 2
    assert process.stdout == ""
    assert process.stderr == (
        "c: looking at the inputs …\n"
        f"Error: c: {shell.folder}/nowhere: no such file or folder, expected a folder of input files\n"
    )


def test_a_corpora_yaml_that_cannot_be_read_is_named(shell):
    assert "no such file, neither here nor in a folder above" in shell.refused("build")
    assert shell.refused("--config", "x.yaml", "build").endswith(
        "x.yaml: No such file or directory; expected a corpora.yaml"
    )
    shell.configure().write_text("corpora: [")
    assert "data/corpora.yaml: not YAML" in shell.refused("build")


def test_an_unknown_corpus_is_answered_with_those_there_are(shell):
    config = shell.configure()
    config.write_text(config.read_text().replace("  c:", "  stdlib:"))
    message = shell.refused("build", "stdlb")
    assert message == f"{config}: no corpus 'stdlb'; did you mean 'stdlib'? It has: stdlib"
