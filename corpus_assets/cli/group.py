"""`corpus`: its options, its subcommands, and how it ends when something is wrong."""

from __future__ import annotations

import difflib
import importlib
import logging
from typing import Any, NoReturn

import click

from corpus_assets.cli.help import write_sections
from corpus_assets.errors import CorpusError, system_error

# In the order in which a newcomer needs them.
COMMANDS = (
    "demo",
    "init",
    "build",
    "status",
    "rejects",
    "validate",
    "audit",
    "inspect",
    "bench",
    "ui",
    "repair",
    "recode",
    "gc",
)
_EXAMPLES = (
    ("corpus demo", "a corpus from Python's own sources, and batches from it; nothing to configure"),
    ("corpus ui", "that build in the Dagster UI"),
    ("corpus init mine", "a project of your own: edit mine/data/corpora.yaml"),
    ("corpus build", "build what is missing, changed or failed, check it, release it"),
    ("corpus status", "what is built, what is stale, what failed and why"),
)
_EXIT_CODES = (
    ("0", "all is well"),
    ("1", "`corpus validate` or `corpus audit` found something"),
    ("2", "it cannot be done, the message says why"),
)
CANNOT_RUN = 2
INTERRUPTED = 130


class Refusal(click.ClickException):
    """Ends the command with one message on stderr and exit code 2."""

    exit_code = CANNOT_RUN

    def show(self, file: Any = None) -> None:
        """Print the message, hostile file names escaped."""
        from corpus_assets.cli.console import printable

        click.echo(f"Error: {printable(self.message)}", file=file, err=file is None)


class CorpusGroup(click.Group):
    """Imports a subcommand's module when it is asked for; no error ends in a traceback without --debug."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The subcommands, in their order."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The subcommand from the module of its name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"corpus_assets.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The subcommand that `args` begins with; an unknown one is answered with the nearest."""
        if args and not args[0].startswith("-") and args[0] not in (known := self.list_commands(ctx)):
            near = difflib.get_close_matches(args[0], known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(known)}"
            ctx.fail(f"no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Where to begin, and the exit codes."""
        super().format_epilog(ctx, formatter)
        write_sections(formatter, {"Examples": _EXAMPLES, "Exit codes": _EXIT_CODES})

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand; whatever it raises ends in one message."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except Exception as error:
            if ctx.params.get("debug"):
                raise
            _refuse(error)


def _refuse(error: Exception) -> NoReturn:
    if isinstance(error, CorpusError):
        raise Refusal(str(error)) from error
    if isinstance(error, BrokenPipeError):
        raise error  # whoever read the output has gone; click ends quietly
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        raise Refusal(f"{place}{error.strerror}") from error
    if (reason := system_error(error)) is not None:
        raise Refusal(reason) from error
    what = f"unexpected {type(error).__name__}: {error}".rstrip(": ")
    raise Refusal(f"{what}\n`corpus --debug …` shows where; please report it") from error


@click.group(cls=CorpusGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="corpus-assets", prog_name="corpus")
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="The corpora.yaml to use. Default: $CORPUS_CONFIG, else data/corpora.yaml here or in a folder above.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error, and what the library logs.")
@click.pass_context
def main(ctx: click.Context, config_file: str | None, debug: bool) -> None:
    """Turn raw text shards into a verified token corpus, and look after it."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    logging.getLogger("corpus_assets").setLevel(logging.DEBUG if debug else logging.INFO)
    ctx.obj = config_file
