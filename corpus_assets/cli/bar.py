"""The progress bar of a terminal: the stage on one line, how far it has got on the next."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TextIO

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TaskID
from rich.table import Table
from rich.text import Text

from corpus_assets.cli.amounts import duration


class StageBar:
    """One live stage; stages that are over stay above it as a line each. Fits 80 columns.

    Args:
        stream: the terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        console = Console(file=stream, markup=False, highlight=False, emoji=False)
        self._progress = _TwoLines(console=console)
        self._task: TaskID | None = None
        self._began = time.monotonic()

    def start(self) -> None:
        self._progress.start()

    def stop(self) -> None:
        self._end()
        self._progress.stop()

    def stage(self, words: str) -> None:
        """End the present stage and begin another, of unknown size."""
        self._end()
        self._began = time.monotonic()
        self._task = self._progress.add_task(words, total=None, words="")

    def show(self, done: float, total: float, words: str) -> None:
        """How far the present stage has got."""
        if self._task is not None:
            self._progress.update(self._task, completed=done, total=max(total, 1), words=words)

    def _end(self) -> None:
        if self._task is None:
            return
        task = next(task for task in self._progress.tasks if task.id == self._task)
        told = [task.description, task.fields["words"], duration(time.monotonic() - self._began)]
        self._progress.remove_task(self._task)
        self._progress.console.print("✓ " + ", ".join(text for text in told if text), style="green")
        self._task = None


class _TwoLines(Progress):
    _spinner = SpinnerColumn()
    _bar = BarColumn(bar_width=20)

    def get_renderables(self) -> Iterable[RenderableType]:
        for task in self.tasks:
            first = Table.grid(padding=(0, 1))
            first.add_row(
                self._spinner.render(task), Text(task.description), Text(duration(task.elapsed or 0))
            )
            yield first
            if task.total is not None:
                yield self._second(task)

    def _second(self, task: Task) -> Table:
        second = Table.grid(padding=(0, 1))
        words = Text(task.fields["words"], no_wrap=True, overflow="ellipsis")
        second.add_row(Text(" "), self._bar.render(task), Text(f"{task.percentage:3.0f}%"), words)
        return second
