"""`corpus demo`: a real corpus from Python's own sources, through the graph, and batches from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from corpus_assets.cli.help import CommandWithExamples

if TYPE_CHECKING:
    from corpus_assets.cli.graph import GraphBuild
    from corpus_assets.cli.project import Project
    from corpus_assets.config import CorpusConfig
    from corpus_assets.defs.launch import BuildReport
    from corpus_assets.demo import DemoExport

DEMO_CORPUS = "stdlib"
BATCH_COUNT = 10
BATCH_SIZE = 16
SEED = 0


@click.command(
    cls=CommandWithExamples,
    short_help="Build a first corpus, and read batches from it.",
    examples=(
        ("corpus demo", "then `corpus ui` shows the run"),
        ("corpus demo --workers 1", "in one process"),
    ),
)
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Processes. Default: one a core.")
@click.pass_obj
def command(config_file: str | None, *, workers: int | None) -> None:
    """Build a real corpus from the source files of Python's standard library; no download.

    It exports the sources as JSON Lines to the input folder of the corpus `stdlib` in corpora.yaml, builds,
    checks and releases that corpus through the asset graph, and reads ten batches from the release. Run it
    again: what is up to date is not built again, and the batches are the same.
    """
    from corpus_assets.cli.build import objections
    from corpus_assets.cli.graph import build_through_graph, open_instance
    from corpus_assets.cli.project import Project
    from corpus_assets.errors import CorpusError

    project = Project.load(config_file)
    config = _demo_corpus(project)
    _export(config)
    with open_instance(project) as instance:
        build = build_through_graph(instance, config, workers=workers)
    if problems := objections(config, build.report):
        raise CorpusError("\n".join(problems))
    _show_corpus(build)
    _show_batches(config)
    _say_where_next(config, build.report)


def _demo_corpus(project: Project) -> CorpusConfig:
    from corpus_assets.errors import ConfigError

    if DEMO_CORPUS not in project.corpora:
        raise ConfigError(
            f"{project.config_file}: no corpus `{DEMO_CORPUS}` to build; found {', '.join(project.corpora)}, "
            f"expected an entry `{DEMO_CORPUS}` with `input` and `root`, as `corpus init FOLDER` writes it"
        )
    config = project.corpus(DEMO_CORPUS)
    if not Path(config.input).is_absolute() or any(char in config.input for char in "*?["):
        raise ConfigError(
            f"{project.config_file}: corpus {DEMO_CORPUS}: input is {config.input}, "
            "expected a local folder that the demo can export to"
        )
    return config


def _export(config: CorpusConfig) -> DemoExport:
    """Export the sources and say what they are."""
    from corpus_assets.cli.console import note
    from corpus_assets.cli.progress import ProgressDisplay
    from corpus_assets.demo import MIN_TEXT_BYTES, export_standard_library

    with ProgressDisplay() as display:
        display.stage("exporting the sources of the standard library")
        export = export_standard_library(Path(config.input))
    note(
        f"{export.folder}: {export.shard_count} input shards, {export.document_count:,} documents, "
        f"{export.text_bytes / 1e6:,.1f} MB of text; {export.written} written, the others were up to date"
    )
    if len(export.origins) > 1:
        note(
            f"  The Python sources of this standard library are less than {MIN_TEXT_BYTES / 1e6:.0f} MB, "
            "so there is more than them:"
        )
        for origin in export.origins:
            note(f"  {origin.text_bytes / 1e6:8,.1f} MB  {origin.document_count:6,} documents  {origin.what}")
    if export.left_out:
        note(
            f"  {len(export.left_out)} files are broken on purpose and left out: {', '.join(export.left_out)}"
        )
    return export


def _show_corpus(build: GraphBuild) -> None:
    from corpus_assets.cli.console import say_table

    report, index, rate = build.report, build.report.index, build.megabytes_per_second
    assert index is not None, "a build without objections has an index"
    passed = sum(item.passed for item in report.evidence)
    say_table(
        ("shards", "documents", "tokens", "MB/s", "checks passed", "released"),
        [
            (
                len(index.shards),
                index.document_count,
                index.token_count,
                "up to date" if rate is None else rate,
                f"{passed} of {len(report.evidence)}",
                report.released,
            )
        ],
    )


def _show_batches(config: CorpusConfig) -> None:
    """The first batches of a loader on the released corpus; the same wherever the corpus is the same."""
    import zlib

    from corpus_assets.cli.console import say_table
    from corpus_assets.loading.loader import SlidingWindowDataloader
    from corpus_assets.loading.store import MmapTokenStore

    with MmapTokenStore(config.index_path, require_release=True) as store:
        loader = SlidingWindowDataloader(store, config.window_size, BATCH_SIZE, seed=SEED)
        rows = []
        for number, (inputs, targets) in zip(range(BATCH_COUNT), loader, strict=False):
            checksum = zlib.crc32(targets.tobytes(), zlib.crc32(inputs.tobytes()))
            rows.append(
                (str(number), str(inputs.shape), str(targets.shape), inputs.dtype.name, f"{checksum:08x}")
            )
    say_table(("batch", "input_ids", "target_ids", "dtype", "crc32"), rows)


def _say_where_next(config: CorpusConfig, report: BuildReport) -> None:
    from corpus_assets.cli.amounts import counted
    from corpus_assets.cli.console import say

    runs = (
        f"the {counted(len(report.run_ids), 'run')} of this build"
        if report.run_ids
        else "the runs of earlier builds"
    )
    say(
        f"The corpus is at {config.root}; `corpus ui` shows {runs}, `corpus validate {config.name}` checks it."
    )
