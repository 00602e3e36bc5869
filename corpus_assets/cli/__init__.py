"""The `corpus` command.

group.py      the command itself: finds each subcommand when it is asked for, ends every error in a message
project.py    where the corpora, the Dagster home and the workspace of a project are
console.py    what is printed, escaped
progress.py   a bar on a terminal, plain lines elsewhere
the others    one subcommand each, named after it
"""

from corpus_assets.cli.group import main

__all__ = ["main"]
