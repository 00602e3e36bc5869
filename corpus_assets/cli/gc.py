"""`corpus gc`: remove the files of a corpus that nothing refers to."""

from __future__ import annotations

import click

from corpus_assets.cli.help import CommandWithExamples


@click.command(
    cls=CommandWithExamples,
    short_help="Remove the files of a corpus that nothing refers to.",
    examples=(
        ("corpus gc --dry-run", "what could go, in every corpus"),
        ("corpus gc stdlib --keep-releases 3", "older releases go, too"),
    ),
)
@click.argument("name", required=False)
@click.option("--dry-run", is_flag=True, help="Say what would go, remove nothing.")
@click.option(
    "--keep-releases",
    type=click.IntRange(min=1),
    metavar="N",
    help="Keep the latest N releases and their shards. Default: all.",
)
@click.pass_obj
def command(config_file: str | None, name: str | None, dry_run: bool, keep_releases: int | None) -> None:
    """Remove token shards that no index, release, running build or open reader refers to.

    NAME is a corpus of corpora.yaml; without it, all of them. The present generation is never touched.

    """
    from corpus_assets.cli.amounts import amount, counted
    from corpus_assets.cli.console import say, say_table
    from corpus_assets.cli.project import Project
    from corpus_assets.shards.gc import find_garbage, remove_garbage

    for config in Project.load(config_file).select(name):
        garbage = find_garbage(config.root, keep_releases=keep_releases)
        size = amount(sum(item.size for item in garbage), "B")
        if garbage:
            rows = [(item.path.relative_to(config.root), item.size, item.reason) for item in garbage]
            say_table(("file", "bytes", "why"), rows, title=config.name)
        if dry_run:
            say(f"{config.name}: {counted(len(garbage), 'file')}, {size}, would be removed")
        else:
            remove_garbage(config.root, garbage)
            say(f"{config.name}: {counted(len(garbage), 'file')}, {size}, removed")
