"""`corpus repair`: rebuild exactly the damaged shards, and prove that they are what they were."""

from __future__ import annotations

import click

from corpus_assets.cli.help import CommandWithExamples


@click.command(
    cls=CommandWithExamples,
    short_help="Rebuild the damaged shards of a corpus from their inputs.",
    examples=(
        ("corpus repair stdlib", "what a full validation finds damaged"),
        ("corpus repair stdlib --shard a.jsonl", "this shard, without looking at the others"),
    ),
    exit_codes=(
        ("0", "every digest is the recorded one again"),
        ("2", "a shard cannot be repaired, and why"),
    ),
)
@click.argument("name")
@click.option(
    "--shard",
    "shards",
    multiple=True,
    metavar="KEY",
    help="Only this shard, by partition key as `corpus validate` names it; may be repeated.",
)
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Processes. Default: one a core.")
@click.pass_obj
def command(config_file: str | None, name: str, *, shards: tuple[str, ...], workers: int | None) -> None:
    """Rebuild the damaged shards of the corpus NAME from their inputs.

    A shard comes back only with the digests that the index records, so the generation and its release stay
    what they were. Where the input or an option has changed since, `corpus build` is what helps.
    """
    from corpus_assets.cli.amounts import counted
    from corpus_assets.cli.console import say
    from corpus_assets.cli.progress import ProgressDisplay
    from corpus_assets.cli.project import Project
    from corpus_assets.errors import ShardError
    from corpus_assets.shards.repair import repair_corpus

    config = Project.load(config_file).corpus(name)
    with ProgressDisplay() as display:
        display.stage(f"{name}: looking for damage and rebuilding what is damaged")
        repairs = repair_corpus(config, keys=list(shards) or None, workers=workers)
    for repair in repairs:
        if repair.error is None:
            say(f"{repair.key}: repaired, its digests are the recorded ones")
    failed = [repair.error for repair in repairs if repair.error is not None]
    if failed:
        raise ShardError(
            f"{len(failed)} of {counted(len(repairs), 'shard')} not repaired:\n  " + "\n  ".join(failed)
        )
    say(f"{name}: {counted(len(repairs), 'shard')} repaired" if repairs else f"{name}: no shard is damaged")
