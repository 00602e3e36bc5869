"""What the commands print: results on stdout, everything about the work on stderr, names escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

_PIPE_WIDTH = 200  # of a table where there is no terminal


def printable(text: str) -> str:
    """`text` with every character that a terminal would obey written as an escape; line ends stay."""
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in text
    )


def say(text: str = "") -> None:
    """One line of a result, on stdout."""
    click.echo(printable(text))


def note(text: str) -> None:
    """One line about the work, on stderr."""
    click.echo(printable(text), err=True)


def say_json(document: Any) -> None:
    """A record or a dictionary as indented JSON on stdout, and nothing else."""
    import orjson

    click.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS))


def say_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """A table on stdout; numbers are grouped and stand to the right."""
    from rich import box
    from rich.table import Table

    rows = [list(row) for row in rows]
    table = Table(title=title, box=box.SIMPLE, title_justify="left", pad_edge=False)
    for number, name in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[number], int | float) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        assert len(row) == len(columns), "a cell for every column"
        table.add_row(*(_cell(value) for value in row))
    console().print(table)


def console(*, stderr: bool = False) -> Console:
    """A rich console that takes no text for markup."""
    from rich.console import Console

    made = Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    if not made.is_terminal:
        made.width = _PIPE_WIDTH
    return made


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return printable(str(value))
