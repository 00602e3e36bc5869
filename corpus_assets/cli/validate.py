"""`corpus validate`: is every byte of a corpus what its index says?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from corpus_assets.cli.help import CommandWithExamples

if TYPE_CHECKING:
    from corpus_assets.config import CorpusConfig
    from corpus_assets.shards.validate import ValidationReport

FOUND_SOMETHING = 1


@click.command(
    cls=CommandWithExamples,
    short_help="Is every byte of a corpus what its index says?",
    examples=(
        ("corpus validate stdlib", "read and hash every byte"),
        ("corpus validate data/stdlib/corpus --quick", "sizes and attributes, by path"),
        ("corpus validate /mnt/web --json >report.json", "for a machine"),
    ),
    exit_codes=(("0", "sound"), ("1", "findings"), ("2", "the validation cannot run")),
)
@click.argument("corpus", metavar="NAME|PATH")
@click.option(
    "--quick", is_flag=True, help="Sizes, counts and attributes only; no byte of the tokens is read."
)
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Threads. Default: one a core.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON on stdout.")
@click.pass_obj
def command(config_file: str | None, corpus: str, *, quick: bool, workers: int | None, as_json: bool) -> None:
    """Compare a built corpus with its index and list everything that is wrong at once.

    NAME is a corpus of corpora.yaml; PATH is a shards.json, its folder or a released generation. The full
    validation re-hashes every shard; a flipped bit is reported with its shard and token range. A generation with
    findings is not released any more, until a full validation finds none.

    """
    path = index_path(config_file, corpus)
    config = _configured_at(path, config_file)
    report = _validate(path, quick=quick, workers=workers, config=config)
    if as_json:
        from corpus_assets.cli.console import say_json

        say_json(
            {
                "index": str(path),
                "ok": report.ok,
                "quick": quick,
                "fingerprint": report.fingerprint,
                "shard_count": report.shard_count,
                "token_bytes": report.token_bytes,
                "failed_shards": report.failed_shards,
                "findings": report.findings,
            }
        )
    else:
        _show(path, report, quick=quick)
    if not report.ok:
        click.get_current_context().exit(FOUND_SOMETHING)


def index_path(config_file: str | None, corpus: str) -> Path:
    """The shards.json that NAME or PATH stands for.

    A name of corpora.yaml wins over a folder of the same name; `./name` is always the folder.

    Raises:
        ConfigError: there is no such corpus, or it is not built.
    """
    from corpus_assets.cli.project import Project
    from corpus_assets.errors import ConfigError
    from corpus_assets.shards.index import INDEX

    if corpus.isidentifier():
        try:
            path = Project.load(config_file).corpus(corpus).index_path
        except ConfigError:
            if not Path(corpus).exists():
                raise
            path = Path(corpus)
    else:
        path = Path(corpus).expanduser()
    if path.is_dir():
        path = path / INDEX
    if path.suffix == ".h5":
        raise ConfigError(f"{path}: a single token shard; expected a shards.json, or use `corpus inspect`")
    if not path.exists():
        raise ConfigError(
            f"{path}: no such file, expected the index of a built corpus; `corpus build` makes it"
        )
    with path.open("rb"):  # says what stands in the way if it cannot be read
        return path


def _configured_at(path: Path, config_file: str | None) -> CorpusConfig | None:
    """The corpus of corpora.yaml whose index is at `path`; None where there is none."""
    from corpus_assets.cli.project import Project
    from corpus_assets.errors import ConfigError

    try:
        corpora = Project.load(config_file).corpora.values()
    except ConfigError:
        if config_file is not None:
            raise
        return None
    return next((corpus for corpus in corpora if corpus.index_path.resolve() == path.resolve()), None)


def _validate(
    path: Path, *, quick: bool, workers: int | None, config: CorpusConfig | None
) -> ValidationReport:
    import threading
    import time

    from corpus_assets.cli.amounts import amount, counted
    from corpus_assets.cli.progress import ProgressDisplay
    from corpus_assets.errors import IndexMismatchError
    from corpus_assets.shards.damage import record_validation
    from corpus_assets.shards.index import load_index
    from corpus_assets.shards.records import ShardIndex, ShardInfo
    from corpus_assets.shards.validate import validate_corpus

    index: ShardIndex | None
    try:
        index = load_index(path)
        total, count = sum(shard.file_bytes for shard in index.shards), len(index.shards)
    except IndexMismatchError:
        index, total, count = None, 0, 0  # a finding, which the validation reports
    done, shards, lock, began = 0, 0, threading.Lock(), time.monotonic()
    with ProgressDisplay() as display:
        display.stage(f"{'comparing' if quick else 'hashing'} {counted(count, 'shard')}")

        def on_shard(info: ShardInfo) -> None:
            nonlocal done, shards
            with lock:
                done, shards = done + info.file_bytes, shards + 1
                rate = "" if quick else f", {amount(done / max(1e-9, time.monotonic() - began), 'B/s')}"
                words = f"{shards}/{count} shards{rate}"
                display.show(done, total, words=words, line=f"validated {words}")

        report = validate_corpus(path, quick=quick, workers=workers, on_shard=on_shard, config=config)
        if index is not None and not (quick and report.ok):
            record_validation(index.root, report)
        return report


def _show(path: Path, report: ValidationReport, *, quick: bool) -> None:
    from corpus_assets.cli.amounts import amount, counted
    from corpus_assets.cli.console import say

    looked_at = counted(report.shard_count, "shard")
    looked_at += (
        " (quick: no token was read)" if quick else f", {amount(report.token_bytes, 'B')} of tokens hashed"
    )
    if report.ok:
        say(f"{path}: sound: {looked_at}, generation {str(report.fingerprint)[:16]}")
        return
    found, bad = counted(len(report.findings), "finding"), len(report.failed_shards)
    say(f"{path}: {found}, {bad} of {looked_at}")
    for finding in report.findings:
        say(f"  {finding.shard or 'index'}: {finding.check}: {finding.message}")
