"""`corpus bench`: how fast a corpus is read and loaded, beside the limit and what people write instead."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from corpus_assets.cli.help import CommandWithExamples

if TYPE_CHECKING:
    from corpus_assets.benchmarks.codecs import CodecRow
    from corpus_assets.benchmarks.records import BenchmarkRow

_STDOUT = "-"


@click.command(
    cls=CommandWithExamples,
    short_help="Measure reading and loading beside the machine's limit.",
    examples=(
        ("corpus bench", "the corpus of corpora.yaml, if there is one only"),
        ("corpus bench stdlib --json bench.json", "a table, and every figure in a file"),
        ("corpus bench /mnt/web --json -", "by path; JSON on stdout instead of the tables"),
        ("corpus bench --building", "builds, too, which takes minutes"),
    ),
    exit_codes=(("0", "measured"), ("2", "it cannot be measured, or a reader returned wrong tokens")),
)
@click.argument("corpus", metavar="[NAME|PATH]", required=False)
@click.option("--json", "json_file", metavar="FILE", help="Write the figures as JSON; - is stdout.")
@click.option(
    "--repeats", type=click.IntRange(min=1), metavar="N", help="Rounds of each row. Default: 5 or more."
)
@click.option("--window", type=click.IntRange(min=1), metavar="N", help="Inputs of a window. Default: 1024.")
@click.option("--sample-tokens", type=click.IntRange(min=2), metavar="N", help="Measure with so many tokens.")
@click.option(
    "--building",
    is_flag=True,
    help="Also train a tokenizer on Python's own sources and build shards of them, which takes minutes.",
)
@click.pass_obj
def command(
    config_file: str | None,
    corpus: str | None,
    *,
    json_file: str | None,
    repeats: int | None,
    window: int | None,
    sample_tokens: int | None,
    building: bool,
) -> None:
    """Measure how fast a built corpus is read and loaded, each figure beside what it is compared with.

    Only ratios count: both rates of a row are measured in turns on the same machine. Everything is measured
    on copies in a scratch folder; what a reader returns is compared with the plain slice before it is timed.
    A second table says what each codec costs and saves on this corpus: the size beside no compression, and
    how fast it is written and read.
    """
    import orjson

    from corpus_assets.benchmarks.codecs import measure_corpus_codecs
    from corpus_assets.benchmarks.run import run_benchmarks
    from corpus_assets.cli.console import note, say_json
    from corpus_assets.cli.progress import ProgressDisplay
    from corpus_assets.cli.validate import index_path
    from corpus_assets.shards.index import load_index
    from corpus_assets.shards.publish import publish_bytes

    target = None if json_file in (None, _STDOUT) else _writable(Path(str(json_file)))
    index = load_index(index_path(config_file, corpus or _only_corpus(config_file)))
    given = {"repeats": repeats, "window_size": window, "sample_size": sample_tokens}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    with ProgressDisplay() as display:
        rows = run_benchmarks(index, building=building, on_stage=display.stage, **options)
        display.stage("measuring codecs")
        codecs = measure_corpus_codecs(index, **_of_codecs(options))
    document = {
        "corpus": str(index.root),
        "fingerprint": index.fingerprint,
        "token_count": index.token_count,
        "machine": _machine(),
        "rows": [_plain(row) for row in rows],
        "codecs": codecs,
    }
    if json_file == _STDOUT:
        say_json(document)
        return
    _show(rows)
    _show_codecs(codecs)
    if target is not None:
        publish_bytes(target, orjson.dumps(document, option=orjson.OPT_INDENT_2), scratch=target.parent)
        note(f"wrote {target}")


def _of_codecs(options: dict[str, Any]) -> dict[str, Any]:
    """The options of `measure_corpus_codecs`, whose sample stays small: a slow codec is written several times."""
    from corpus_assets.benchmarks.codecs import SAMPLE_TOKENS

    given = dict(options)
    if "sample_size" in given:
        given["sample_size"] = min(given["sample_size"], SAMPLE_TOKENS)
    return given


def _only_corpus(config_file: str | None) -> str:
    from corpus_assets.cli.project import Project

    names = list(Project.load(config_file).corpora)
    if len(names) > 1:
        raise click.UsageError(f"which corpus? Give a NAME, one of {', '.join(names)}, or a PATH")
    return names[0]


def _writable(path: Path) -> Path:
    """`path`, refused now where it could not be written after minutes of measuring."""
    from corpus_assets.errors import ConfigError

    if path.is_dir() or not path.parent.is_dir():
        raise ConfigError(f"--json {path}: expected a file in a folder that exists")
    return path


def _machine() -> dict[str, str | int]:
    import os
    import platform

    import numpy as np

    return {
        "cores": os.cpu_count() or 1,
        "machine": platform.machine(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def _plain(row: BenchmarkRow) -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(row), "ratio": row.ratio, "meets_target": row.meets_target}


def _rate(value: float, unit: str) -> str:
    from corpus_assets.cli.amounts import amount

    return amount(value * 1e6, "B/s") if unit == "MB/s" else amount(value, unit)


def _show(rows: list[BenchmarkRow]) -> None:
    from corpus_assets.cli.console import say_table

    say_table(
        ("group", "measured", "rate", "compared with", "its rate", "ratio", "target", "met"),
        (
            (
                row.group,
                row.name,
                _rate(row.rate, row.unit),
                row.reference,
                _rate(row.reference_rate, row.unit) if row.reference else "",
                "" if row.ratio is None else f"{row.ratio:.3g} ×",
                "" if row.target is None else f"{row.target:g} ×",
                {None: "", True: "yes", False: "no"}[row.meets_target],
            )
            for row in rows
        ),
    )


def _show_codecs(rows: list[CodecRow]) -> None:
    from corpus_assets.cli.amounts import amount
    from corpus_assets.cli.console import say_table

    say_table(
        ("codec", "tokens per chunk", "size", "written at", "random windows", "read in order"),
        (
            (
                row.codec,
                row.chunk_size,
                f"{row.relative_size:.3f} ×",
                amount(row.write_rate * 1e6, "B/s"),
                amount(row.windows_per_second, "windows/s"),
                amount(row.sequential_rate * 1e6, "B/s"),
            )
            for row in rows
        ),
        title="Codecs on this corpus",
    )
