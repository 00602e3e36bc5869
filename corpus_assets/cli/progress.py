"""Progress of long work: a bar on a terminal, a plain line now and then elsewhere; always on stderr."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from corpus_assets.cli.console import console, note, printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LINE_SECONDS = 5.0
SILENCE_SECONDS = 10.0


class ProgressDisplay:
    """Shows the stage that a piece of work is at and how far it has got.

    A context manager; may be told from any thread. Where there is no bar, a stage that says nothing for
    `silence` seconds is named again with the time that it has taken.
    """

    def __init__(self, *, silence: float = SILENCE_SECONDS) -> None:
        self._silence = silence
        self._stage = ""
        self._stage_began = time.monotonic()
        self._over = threading.Event()
        self._heart = threading.Thread(target=self._break_silence, daemon=True)
        self._console = console(stderr=True)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            from rich.progress import (
                BarColumn,
                Progress,
                SpinnerColumn,
                TaskProgressColumn,
                TextColumn,
                TimeElapsedColumn,
            )

            self._bar = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                TaskProgressColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[words]}", markup=False),
                console=self._console,
            )
            self._bar.start()
        else:
            self._heart.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._bar is None:
            self._heart.join()
        else:
            self._end_task()
            self._bar.stop()

    def stage(self, words: str) -> None:
        """A new stage begins; what it amounts to is not known yet."""
        words = printable(words)
        if self._bar is None:
            note(words + " …")
            self._stage = words
            self._stage_began = self._last_line = time.monotonic()
            return
        self._end_task()
        self._task = self._bar.add_task(words, total=None, words="")

    def show(self, done: float, total: float, *, words: str, line: str) -> None:
        """The stage has got `done` of `total` far.

        Args:
            done: in the unit of `total`.
            total: when the stage will be complete.
            words: short, beside the bar.
            line: the whole story, where there is no bar.
        """
        if self._bar is not None:
            if self._task is not None:
                self._bar.update(self._task, completed=done, total=max(total, 1), words=printable(words))
        elif time.monotonic() - self._last_line >= LINE_SECONDS:
            self._last_line = time.monotonic()
            note(line)

    def _break_silence(self) -> None:
        while not self._over.wait(self._silence / 4):
            now = time.monotonic()
            if self._stage and now - self._last_line >= self._silence:
                self._last_line = now
                note(f"{self._stage} … {duration(now - self._stage_began)} so far")

    def _end_task(self) -> None:
        if self._bar is not None and self._task is not None:
            total = self._bar.tasks[-1].total or 1
            self._bar.update(self._task, total=total, completed=total)
            self._bar.stop_task(self._task)
            self._task = None


def amount(number: float, unit: str) -> str:
    """A quantity in three digits: 1234567 bytes are `1.23 MB` with the unit `B`."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{number / factor:.3g} {prefix}{unit}"
    return f"{number:.3g} {unit}"


def duration(seconds: float) -> str:
    """Seconds as a person reads them: `7 s`, `2 min 5 s`, `3 h 20 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
