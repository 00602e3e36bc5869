"""Memory of a tokenizer does not grow with the words that it has seen."""

import subprocess
import sys

import pytest

PROGRAM = """
import random, resource, sys
from corpus_assets.tokenizers import load_tokenizer
from corpus_assets.tokenizers.huggingface import HuggingFaceTokenizer
tokenizer = {load}(sys.argv[1])
generator = random.Random(1)
def encode_new_words():
    documents = [" ".join("%x" % generator.getrandbits(60) for _ in range(10)) for _ in range(1000)]
    tokenizer.encode_documents(documents)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform == "darwin" else 1 / 1024)
for _ in range(3):
    before = encode_new_words()
for _ in range(12):
    after = encode_new_words()
print(int(after - before))
"""


@pytest.mark.parametrize("load", ["load_tokenizer", "HuggingFaceTokenizer"])
def test_words_that_were_never_seen_before_leave_nothing_behind(spec, load):
    """120,000 distinct words, in a process of its own because a peak cannot be reset."""
    command = [sys.executable, "-c", PROGRAM.format(load=load), spec]
    assert int(subprocess.check_output(command)) < 12_000_000
