"""Commands whose help ends in examples and exit codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click


class CommandWithExamples(click.Command):
    """A subcommand with two more sections at the end of its help.

    Args:
        examples: command lines, each with what it does.
        exit_codes: what each exit code means.
    """

    def __init__(
        self,
        *args: Any,
        examples: Sequence[tuple[str, str]] = (),
        exit_codes: Sequence[tuple[str, str]] = (
            ("0", "done"),
            ("2", "it cannot be done, the message says why"),
        ),
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._sections = {"Examples": examples, "Exit codes": exit_codes}

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections in two columns."""
        super().format_epilog(ctx, formatter)
        write_sections(formatter, self._sections)


def write_sections(formatter: click.HelpFormatter, sections: dict[str, Sequence[tuple[str, str]]]) -> None:
    """Each section as a heading and two columns; empty ones are left out."""
    for title, rows in sections.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(list(rows), col_max=46)
