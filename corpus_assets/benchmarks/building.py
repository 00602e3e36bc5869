"""Building beside its own parts: parsing and encoding alone, the bare encoder, hashing alone."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import orjson

from corpus_assets.benchmarks.checked import WrongResultError
from corpus_assets.benchmarks.records import BenchmarkRow, compared
from corpus_assets.benchmarks.timing import measure_in_turns
from corpus_assets.config import CorpusConfig
from corpus_assets.demo import export_standard_library
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets.shards.build import build_shard
from corpus_assets.shards.index import write_index
from corpus_assets.shards.manifest import observe_inputs
from corpus_assets.shards.validate import validate_corpus
from corpus_assets.tokenizers import load_tokenizer
from corpus_assets.tokenizers.compiled import CompiledTokenizer
from corpus_assets.tokenizers.protocol import Tokenizer

VOCABULARY_SIZE = 32_000
END_OF_TEXT = "<|endoftext|>"
_BYTE_COPIES = 4
_VALIDATED_COPIES = 8


def measure_building(folder: Path, *, repeats: int) -> list[BenchmarkRow]:
    """From JSON Lines to a finished, hashed shard, in one process, on the sources of the standard library.

    Args:
        folder: scratch, on the disk to measure.
        repeats: rounds of each row.
    """
    export_standard_library(folder / "library")
    parts = sorted((folder / "library").iterdir())
    texts = [orjson.loads(line)["text"] for part in parts for line in part.read_bytes().splitlines()]
    rows = [
        _bytes_row(folder / "bytes", parts, repeats=repeats),
        *_trained_rows(folder / "trained", parts, texts, repeats=repeats),
        _validation_row(folder / "validated", parts, repeats=repeats),
    ]
    return rows


def train_tokenizer(texts: list[str], path: Path) -> Path:
    """A byte-level BPE of `VOCABULARY_SIZE` trained on `texts`, as a tokenizer.json at `path`."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(str(path))
    return path


def _bytes_row(folder: Path, parts: list[Path], *, repeats: int) -> BenchmarkRow:
    file = _joined(folder, parts, copies=_BYTE_COPIES)

    def parse_and_encode(_: int) -> int:
        count = 0
        with file.open("rb") as lines:
            for line in lines:
                raw = np.frombuffer(orjson.loads(line)["text"].encode(), dtype=np.uint8)
                count += len(raw.astype(np.uint16) + np.uint16(1)) + 1
        return count

    builder = _Builder(folder, load_tokenizer("byte"))
    if builder.token_count() != parse_and_encode(0):
        raise WrongResultError("byte build: not as many tokens as bytes and documents")
    rates = measure_in_turns(
        {"build": builder.build, "parts": parse_and_encode},
        repeats=repeats,
        round_seconds=0,
        before={"build": builder.discard},
    )
    return compared(
        "byte tokenizer, JSON Lines to a hashed shard, 1 process",
        rates["build"],
        "orjson and byte encoding alone",
        rates["parts"],
        group="building",
        unit="MB/s",
        target=0.35,
        scale=file.stat().st_size / 1e6,
    )


def _trained_rows(folder: Path, parts: list[Path], texts: list[str], *, repeats: int) -> list[BenchmarkRow]:
    from tokenizers import Tokenizer as Reference

    file = _joined(folder, parts, copies=1)
    spec = str(train_tokenizer(texts, folder / "tokenizer.json"))
    tokenizer = load_tokenizer(spec)
    if not isinstance(tokenizer, CompiledTokenizer):
        raise WrongResultError("trained build: the tokenizer was not compiled")
    encoding = tokenizer.encoding
    reference = Reference.from_file(spec)
    builder = _Builder(folder, tokenizer)
    ways: dict[str, Callable[[int], object]] = {
        "build": builder.build,
        "bare": lambda _: [encoding.encode_ordinary(text) for text in texts],
        "tokenizers": lambda _: reference.encode_batch_fast(texts, add_special_tokens=False),
    }
    expected = sum(map(len, tokenizer.encode_batch(texts))) + len(texts)
    if (found := builder.token_count()) != expected:
        raise WrongResultError(f"trained build: {found} tokens, the encoder gives {expected}")
    if importlib.util.find_spec("datatrove") is not None:
        ways["datatrove"] = _datatrove(folder, spec)
    # A reference that runs on threads would be compared with one process.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    rates = measure_in_turns(ways, repeats=repeats, round_seconds=0, before={"build": builder.discard})
    compare = {
        "bare": ("bare tiktoken on the same texts", 0.85),
        "tokenizers": ("tokenizers, encode_batch_fast", None),
        "datatrove": ("datatrove, DocumentTokenizer, 1 worker", 5.0),
    }
    return [
        compared(
            "32 k byte-level BPE, JSON Lines to a hashed shard, 1 process",
            rates["build"],
            compare[name][0],
            rates[name],
            group="building",
            unit="MB/s",
            target=compare[name][1],
            scale=file.stat().st_size / 1e6,
        )
        for name in ways
        if name != "build"
    ]


def _validation_row(folder: Path, parts: list[Path], *, repeats: int) -> BenchmarkRow:
    """Full validation of a corpus on every core, up to four, beside hashlib on the same files and cores."""
    cores = min(os.cpu_count() or 1, 4)
    file = _joined(folder, parts, copies=_VALIDATED_COPIES)
    for number in range(1, cores):
        os.link(file, file.with_stem(f"{file.stem}-{number}"))
    config = _config(folder)
    inputs, tokenizer = observe_inputs(config).files, load_tokenizer("byte")
    for input_file in inputs:
        build_shard(input_file, config, tokenizer)
    index = write_index(config.root, [input_file.key for input_file in inputs])
    paths = [config.root / shard.path for shard in index.shards]

    def hash_file(path: Path) -> str:
        with path.open("rb") as shard:
            return hashlib.file_digest(shard, "sha256").hexdigest()

    def hash_alone(_: int) -> None:
        with ThreadPoolExecutor(cores) as pool:
            list(pool.map(hash_file, paths))

    def validate(_: int) -> None:
        if not validate_corpus(config.root, workers=cores).ok:
            raise WrongResultError("validation: findings in a sound corpus")

    rates = measure_in_turns({"validate": validate, "hash": hash_alone}, repeats=repeats, round_seconds=0)
    return compared(
        f"validate_corpus, {cores} threads",
        rates["validate"],
        f"hashlib.file_digest alone, {cores} threads",
        rates["hash"],
        group="building",
        unit="MB/s",
        target=0.9,
        scale=sum(shard.file_bytes for shard in index.shards) / 1e6,
    )


def _joined(folder: Path, parts: list[Path], *, copies: int) -> Path:
    """One input shard of all parts, so that one process has work for a while."""
    file = folder / "input" / "all.jsonl"
    file.parent.mkdir(parents=True)
    with file.open("wb") as joined:
        for _ in range(copies):
            for part in parts:
                joined.write(part.read_bytes())
    return file


def _config(folder: Path) -> CorpusConfig:
    return CorpusConfig(name="bench", input=str(folder / "input"), root=folder / "corpus")


class _Builder:
    """Builds the one input shard below a folder, again and again."""

    def __init__(self, folder: Path, tokenizer: Tokenizer) -> None:
        self._config = _config(folder)
        self._tokenizer = tokenizer
        (self._file,) = observe_inputs(self._config).files

    def build(self, _: int = 0) -> None:
        build_shard(self._file, self._config, self._tokenizer, force=True)

    def discard(self) -> None:
        """Remove what was built, for a rename over it would pay for freeing it."""
        for old in (self._config.root / "shards").glob("*.h5"):
            old.unlink()

    def token_count(self) -> int:
        """Tokens of the shard, as a store sees them."""
        self.build()
        with MmapTokenStore(write_index(self._config.root, [self._file.key])) as store:
            return len(store)


def _datatrove(folder: Path, spec: str) -> Callable[[int], object]:
    """The same work by datatrove, where that is installed."""
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.tokens import DocumentTokenizer

    def tokenize(call: int) -> None:
        output = folder / f"datatrove-{call}"
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            LocalPipelineExecutor(
                pipeline=[
                    JsonlReader(str(folder / "input")),
                    DocumentTokenizer(
                        output_folder=str(output / "tokens"),
                        tokenizer_name_or_path=spec,
                        eos_token=END_OF_TEXT,
                        shuffle_documents=False,
                    ),
                ],
                tasks=1,
                workers=1,
                logging_dir=str(output / "logs"),
            ).run()

    return tokenize
