from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from corpus_assets.cli import main
from corpus_assets.cli.group import COMMANDS, CorpusGroup
from corpus_assets.errors import ShardError
from corpus_assets_tests.cli.conftest import command_runner

CORPUS = Path(sys.executable).with_name("corpus")


def test_help_takes_less_than_half_a_second_and_does_not_import_dagster():
    seconds = []
    for _ in range(3):  # the best of three: the machine may be busy with something else
        began = time.perf_counter()
        shown = subprocess.run([CORPUS, "--help"], capture_output=True, text=True, check=True).stdout
        seconds.append(time.perf_counter() - began)
    assert min(seconds) < 0.5
    assert all(f"  {name} " in shown for name in COMMANDS)
    script = "import sys; from corpus_assets.cli import main; main(['-h'], standalone_mode=False); print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert not {"dagster", "h5py", "pandas", "numpy", "rich", "pydantic"} & set(modules.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_with_an_example_and_its_exit_codes(shell, name):
    shown = shell(name, "--help").stdout
    assert f"Usage: main {name}" in shown
    assert f"Examples:\n  corpus {name}" in shown
    assert "Exit codes:\n  0" in shown


def test_an_unknown_command_is_answered_with_the_nearest(shell):
    assert shell.refused("biuld") == "no command 'biuld'; did you mean 'build'?"
    assert shell.refused("x").startswith("no command 'x'; expected one of demo, init, build")


def run_raising(error: BaseException, *options: str):
    """What becomes of `corpus … fail` where the subcommand raises `error`."""

    class OneCommand(CorpusGroup):
        def list_commands(self, ctx):  # noqa: ARG002
            return ["fail"]

        def get_command(self, ctx, cmd_name):  # noqa: ARG002
            @click.command()
            def fail() -> None:
                raise error

            return fail

    group = OneCommand(name="corpus", params=main.params, callback=main.callback)
    return command_runner().invoke(group, [*options, "fail"])


HDF5_WRITES = """Can't synchronously write data (file write failed: time = Mon Nov 30 07:00:00 2026
, filename = '/x.h5', file descriptor = 5, errno = 28, error message = 'No space left on device', buf = 0x1)"""


@pytest.mark.parametrize(
    ("error", "exit_code", "message"),
    [
        (ShardError("a.h5: cut"), 2, "Error: a.h5: cut\n"),
        (PermissionError(13, "Permission denied", "/x"), 2, "Error: /x: Permission denied\n"),
        (OSError(28, "No space left on device"), 2, "Error: No space left on device\n"),
        (OSError(HDF5_WRITES), 2, "Error: No space left on device (/x.h5)\n"),
        (
            ZeroDivisionError("by zero"),
            2,
            "Error: unexpected ZeroDivisionError: by zero\n`corpus --debug …` shows where; please report it\n",
        ),
        (ShardError("name\x1b[31m\r\x07\x9b"), 2, "Error: name\\x1b[31m\\r\\x07\\x9b\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_every_error_ends_in_one_message(error, exit_code, message):
    result = run_raising(error)
    assert (result.exit_code, result.stderr, result.stdout) == (exit_code, message, "")


def test_debug_shows_the_traceback():
    error = ShardError("a.h5: cut")
    assert run_raising(error, "--debug").exception is error


def test_a_usage_error_is_exit_code_2(shell):
    assert shell.refused("build", "--workers", "0").startswith("Invalid value for '--workers'")
    assert shell.refused("validate").startswith("Missing argument 'NAME|PATH'")
