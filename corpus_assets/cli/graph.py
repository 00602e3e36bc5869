"""The asset graph as the commands use it: the project's own Dagster instance, builds with progress."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from corpus_assets.cli.amounts import amount, duration
from corpus_assets.cli.progress import ProgressDisplay
from corpus_assets.cli.project import Project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagster import DagsterInstance  # noqa: TID251  (a type)

    from corpus_assets.config import CorpusConfig
    from corpus_assets.defs.launch import BuildReport
    from corpus_assets.defs.progress import RunProgress

# What Dagster makes of a Ctrl-C while a step runs.
_INTERRUPTED = "DagsterExecutionInterruptedError"


@contextmanager
def open_instance(project: Project) -> Iterator[DagsterInstance]:
    """The project's persistent instance: what the UI shows.

    Raises:
        ConfigError: its folder, its settings or its storage cannot be used.
    """
    from corpus_assets.defs import home

    folder = home.dagster_home(project.folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Dagster's notes to developers: beta, preview
        with home.open_instance(folder) as instance:
            yield instance


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphBuild:
    """A build, and how far its partitions had got at the end; None where no partition was built."""

    report: BuildReport
    progress: RunProgress | None

    @property
    def megabytes_per_second(self) -> float | None:
        """Input read per second while the partitions were being built; None where none was read."""
        if self.progress is None or not self.progress.bytes_read:
            return None
        return self.progress.bytes_read / 1e6 / max(self.progress.seconds, 1e-9)


def build_through_graph(
    instance: DagsterInstance,
    config: CorpusConfig,
    *,
    keys: Sequence[str] | None = None,
    failed_only: bool = False,
    force: bool = False,
    workers: int | None = None,
) -> GraphBuild:
    """`build_corpus` with its progress on stderr.

    Raises:
        KeyboardInterrupt: the build was interrupted.
    """
    from corpus_assets.defs.launch import build_corpus

    last: RunProgress | None = None
    with ProgressDisplay() as display:

        def on_progress(progress: RunProgress) -> None:
            nonlocal last
            last = progress
            display.show(
                progress.bytes_done,
                progress.bytes_total,
                words=_words(progress),
                line=f"{config.name}: {progress}",
            )

        report = build_corpus(
            instance,
            config,
            keys=keys,
            failed_only=failed_only,
            force=force,
            workers=workers,
            on_progress=on_progress,
            on_stage=lambda stage: display.stage(f"{config.name}: {stage}"),
        )
    if any(_INTERRUPTED in reason for reason in (*report.failed.values(), report.refusal)):
        raise KeyboardInterrupt
    return GraphBuild(report=report, progress=last)


def _words(progress: RunProgress) -> str:
    seconds = max(progress.seconds, 1e-9)
    left = "" if progress.seconds_left is None else f", {duration(progress.seconds_left)} left"
    return (
        f"{progress.shards_done}/{progress.shards_total}, {amount(progress.rows / seconds, 'rows/s')}, "
        f"{amount(progress.tokens / seconds, 'tok/s')}, {amount(progress.bytes_read / seconds, 'B/s')}{left}"
    )
