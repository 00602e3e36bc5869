"""Progress of long work: a bar on a terminal, a plain line now and then elsewhere; always on stderr."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Self, TextIO

from corpus_assets.cli.amounts import duration
from corpus_assets.cli.console import printable

if TYPE_CHECKING:
    from corpus_assets.cli.bar import StageBar

LINE_SECONDS = 5.0
SILENCE_SECONDS = 10.0


class ProgressDisplay:
    """Shows the stage that a piece of work is at and how far it has got.

    A context manager; may be told from any thread. Where there is no bar, a stage that says nothing for
    `silence` seconds is named again with the time that it has taken.
    """

    def __init__(self, *, silence: float = SILENCE_SECONDS) -> None:
        self._silence = silence
        self._stream: TextIO = sys.stderr
        self._bar: StageBar | None = None
        self._stage = ""
        self._stage_began = self._last_line = time.monotonic()
        self._over = threading.Event()
        self._heart = threading.Thread(target=self._break_silence, daemon=True)
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        self._stream = self._resources.enter_context(_own_stderr())
        if self._stream.isatty():
            from corpus_assets.cli.bar import StageBar

            self._bar = StageBar(self._stream)
            self._bar.start()
            self._resources.callback(self._bar.stop)
        else:
            self._heart.start()
            self._resources.callback(self._heart.join)
            self._resources.callback(self._over.set)
        return self

    def __exit__(self, *error: object) -> None:
        self._resources.close()

    def stage(self, words: str) -> None:
        """A new stage begins; what it amounts to is not known yet."""
        words = printable(words)
        if self._bar is not None:
            self._bar.stage(words)
        else:
            self._stage_began = time.monotonic()
            self._stage = words
            self._line(words + " …")

    def show(self, done: float, total: float, *, words: str, line: str) -> None:
        """The stage has got `done` of `total` far.

        Args:
            done: in the unit of `total`.
            total: when the stage will be complete.
            words: short, beside the bar.
            line: the whole story, where there is no bar.
        """
        if self._bar is not None:
            self._bar.show(done, total, printable(words))
        elif time.monotonic() - self._last_line >= LINE_SECONDS:
            self._line(printable(line))

    def _line(self, text: str) -> None:
        self._last_line = time.monotonic()
        print(text, file=self._stream, flush=True)

    def _break_silence(self) -> None:
        while not self._over.wait(self._silence / 4):
            now = time.monotonic()
            if self._stage and now - self._last_line >= self._silence:
                self._line(f"{self._stage} … {duration(now - self._stage_began)} so far")


@contextmanager
def _own_stderr() -> Iterator[TextIO]:
    """Stderr as it is now: while a step runs, Dagster points descriptor 2 to the step's log file."""
    try:
        descriptor = os.dup(sys.stderr.fileno())
    except (OSError, ValueError):
        yield sys.stderr  # replaced by something that is no file
        return
    with open(descriptor, "w", encoding=sys.stderr.encoding, errors="backslashreplace") as stream:
        yield stream
