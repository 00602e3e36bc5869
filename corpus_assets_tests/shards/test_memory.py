"""The memory of a build does not grow with the shard."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BUILD = """
import sys
from pathlib import Path
from corpus_assets.config import parse_corpus
from corpus_assets.shards.build import build_shard
from corpus_assets.shards.manifest import observe_inputs
from corpus_assets.tokenizers import load_tokenizer
config = parse_corpus("c", {"input": sys.argv[1], "root": sys.argv[2]}, base=Path.cwd(), where="test")
(file,) = observe_inputs(config).files
info, _ = build_shard(file, config, load_tokenizer("byte"))
# Not ru_maxrss, which counts what the parent had before exec.
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(info.document_count, peak.split()[1])
"""


def peak_memory(folder: Path, line: bytes, copies: int) -> tuple[int, int]:
    """Documents, and the peak resident set in KiB, of building one shard of `copies` equal lines."""
    (folder / "input").mkdir(parents=True)
    with (folder / "input" / "a.jsonl").open("wb") as file:
        block = line * min(copies, 10_000)
        for _ in range(copies // min(copies, 10_000)):
            file.write(block)
    command = [sys.executable, "-c", BUILD, str(folder / "input"), str(folder / "corpus")]
    printed = subprocess.run(command, capture_output=True, check=True).stdout
    documents, memory = map(int, printed.split())
    return documents, memory


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text_bytes", "copies"),
    [
        (20_000, 100_000),  # an input of 2 GB
        (1, 20_000_000),  # 20 million tiny documents
    ],
)
def test_memory_is_that_of_a_small_shard(tmp_path, text_bytes, copies):
    line = json.dumps({"text": "x" * 20_000}).encode() + b"\n"
    _, small = peak_memory(tmp_path / "small", line, 1000)
    line = json.dumps({"text": "x" * text_bytes}).encode() + b"\n"
    documents, large = peak_memory(tmp_path / "large", line, copies)
    print(f"peak memory {large / 1024:.0f} MiB, small {small / 1024:.0f} MiB, ratio {large / small:.2f}")
    assert documents == copies
    assert large < 1.2 * small
