from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from corpus_assets.cli.amounts import amount, duration
from corpus_assets.cli.bar import StageBar
from corpus_assets.cli.console import printable
from corpus_assets.cli.progress import ProgressDisplay

CORPUS = Path(sys.executable).with_name("corpus")


def test_a_hostile_name_cannot_steer_the_terminal():
    assert printable("a\x1b[2J\x9bb\u202ec\td\né [red]x[/]") == ("a\\x1b[2J\\x9bb\\u202ec\\td\né [red]x[/]")


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1_234_567, "1.23 MB"), (5.5e12, "5.5 TB")],
)
def test_an_amount_has_three_digits(number, expected):
    assert amount(number, "B") == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.4, "0 s"), (59.4, "59 s"), (59.5, "1 min 0 s"), (125, "2 min 5 s"), (12_000, "3 h 20 min")],
)
def test_a_duration_reads_like_one(seconds, expected):
    assert duration(seconds) == expected


def read_terminal(terminal: int) -> str:
    """Everything that was written to a terminal whose other side is closed."""
    shown = b""
    while True:
        try:
            block = os.read(terminal, 65536)
        except OSError:
            return shown.decode()
        if not block:
            return shown.decode()
        shown += block


def test_a_terminal_gets_a_bar_and_a_pipe_gets_plain_lines(built):
    piped = subprocess.run([CORPUS, "validate", "c"], capture_output=True, text=True, check=True)
    assert piped.stderr == "hashing 2 shards …\n"
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    with subprocess.Popen(
        [CORPUS, "validate", "c"], stderr=theirs, stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        os.close(theirs)
        shown = read_terminal(ours)
        os.close(ours)
        output, _ = process.communicate()
    assert output == piped.stdout
    assert "✓ hashing 2 shards, 2/2 shards, " in shown


def test_a_bar_shows_how_far_the_stage_is():
    ours, theirs = pty.openpty()
    with open(theirs, "w") as terminal:
        bar = StageBar(terminal)
        bar.start()
        bar.stage("building [red] 4 shards")
        bar.show(1, 4, "1/4, 3 s left")
        shown = ""
        while " 25% 1/4, 3 s left" not in shown:
            shown += os.read(ours, 4096).decode()
        bar.stop()
    assert "building [red] 4 shards" in shown
    assert "✓ building [red] 4 shards, 1/4, 3 s left, 0 s" in read_terminal(ours)
    os.close(ours)


def test_silence_is_broken_where_there_is_no_bar(capfd):
    with ProgressDisplay(silence=0.01) as display:
        display.stage("checking")
        shown = ""
        while "checking … 0 s so far" not in shown:
            shown += capfd.readouterr().err
    assert shown.startswith("checking …\n")


def test_progress_stays_visible_while_stderr_is_redirected(capfd):
    with ProgressDisplay() as display:
        before, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        display.stage("building")
        os.dup2(before, 2)
        os.close(before)
        os.close(nowhere)
    assert capfd.readouterr().err == "building …\n"
