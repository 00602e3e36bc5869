"""Starting a Python process of ours that is spoken to through a connection.

It is a program of its own: that needs no fork, and no `if __name__ == "__main__"` in the program that starts it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from multiprocessing.connection import Connection, Pipe
from pathlib import Path

import corpus_assets


def start_child(code: str, *, quiet: bool = False) -> tuple[subprocess.Popen[bytes], Connection]:
    """A process that runs `code`, with the number of its end of the connection as argument; and our end.

    Args:
        code: Python; it may import whatever this process can.
        quiet: drop what it writes to stderr.
    """
    here, there = Pipe()
    # A user's own format may come from wherever this program imports from.
    searched = [str(Path(corpus_assets.__file__).parents[1]), os.environ.get("PYTHONPATH"), *sys.path]
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(there.fileno())],
        pass_fds=[there.fileno()],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL if quiet else None,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, searched))},
    )
    there.close()
    return process, here


def describe_death(status: int) -> str:
    """What the exit status of a process that should not have ended says."""
    if status >= 0:
        return f"exit status {status}"
    name = signal.Signals(-status).name
    return f"killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
