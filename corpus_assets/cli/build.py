"""`corpus build`: build, check and release through the asset graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from corpus_assets.cli.help import CommandWithExamples

if TYPE_CHECKING:
    from corpus_assets.cli.graph import GraphBuild
    from corpus_assets.config import CorpusConfig
    from corpus_assets.defs.launch import BuildReport

COMPRESSIONS = (
    "none",
    "gzip",
    "lzf",
    "zstd",
    "zstd-dict",
    "blosc2",
)  # those of config.py, which is slow to import
_NAMED = 20


@click.command(
    cls=CommandWithExamples,
    short_help="Build what is missing, changed or failed; check and release it.",
    examples=(
        ("corpus build", "every corpus"),
        ("corpus build stdlib --workers 4", "one corpus, in four processes"),
        ("corpus build stdlib --failed", "once broken inputs are mended"),
        ("corpus build stdlib --shard a.jsonl --force", "one shard, although it is up to date"),
    ),
    exit_codes=(("0", "built and released"), ("2", "something failed, the message says what")),
)
@click.argument("name", required=False)
@click.option(
    "--shard",
    "shards",
    multiple=True,
    metavar="KEY",
    help="Only this input shard, by file name or partition key; may be repeated.",
)
@click.option("--failed", is_flag=True, help="Only the shards whose last build failed.")
@click.option("--force", is_flag=True, help="Rebuild shards that are up to date, too.")
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Processes. Default: one a core.")
@click.option(
    "--compression",
    type=click.Choice(COMPRESSIONS),
    help="For this build, instead of what corpora.yaml says.",
)
@click.option(
    "--max-document-tokens",
    type=click.IntRange(min=1),
    metavar="N",
    help="Cut longer documents; for this build, instead of what corpora.yaml says.",
)
@click.pass_obj
def command(
    config_file: str | None,
    name: str | None,
    *,
    shards: tuple[str, ...],
    failed: bool,
    force: bool,
    workers: int | None,
    compression: str | None,
    max_document_tokens: int | None,
) -> None:
    """Build what is missing, changed or failed; then index, check and release.

    NAME is a corpus of corpora.yaml; without it every corpus is built. The work goes through the asset
    graph, so `corpus ui` shows it. A broken input stops no other; the corpus is released only when every
    input shard is built and every check passed.

    """
    from corpus_assets.cli.project import Project

    project = Project.load(config_file)
    if shards and failed:
        raise click.UsageError("--shard and --failed choose different shards; give one of them")
    selected = project.select(name)
    if shards and len(selected) > 1:
        raise click.UsageError(f"--shard needs the NAME of a corpus: {', '.join(project.corpora)}")
    changes = {"compression": compression, "max_document_tokens": max_document_tokens}
    changes = {key: value for key, value in changes.items() if value is not None}

    from corpus_assets.cli.amounts import counted
    from corpus_assets.cli.console import note
    from corpus_assets.cli.graph import build_through_graph, open_instance
    from corpus_assets.errors import CorpusError

    problems = []
    with open_instance(project) as instance:
        for config in selected:
            changed = warn_of_changes(project.config_file.name, config, changes)
            try:
                build = build_through_graph(
                    instance,
                    changed,
                    keys=list(shards) or None,
                    failed_only=failed,
                    force=force,
                    workers=workers,
                )
            except KeyboardInterrupt:
                note(f"{config.name}: the shards that are built are kept; the next build goes on from there")
                raise
            except CorpusError as error:
                problems.append(f"{config.name}: {error}")
                continue
            show_build(config, build)
            left = _left_by_choice(changed, build.report) if shards or failed else 0
            if left:
                note(f"{config.name}: not released: {counted(left, 'other input shard')} not up to date")
            else:
                problems += objections(config, build.report)
    if problems:
        raise CorpusError("\n".join(problems))


def _left_by_choice(config: CorpusConfig, report: BuildReport) -> int:
    """How many shards stand in the way of a release although all that were asked for are built."""
    from corpus_assets.shards.corpus import stale_keys
    from corpus_assets.shards.manifest import load_manifest

    manifest = load_manifest(config.root)
    if report.failed or manifest is None:
        return 0
    return len(stale_keys(config, manifest).keys() - report.planned.keys())


def warn_of_changes(where: str, config: CorpusConfig, changes: dict[str, Any]) -> CorpusConfig:
    """`config` with the options of this command; says what they mean for every later build."""
    from corpus_assets.cli.console import note

    differing = {key: value for key, value in changes.items() if getattr(config, key) != value}
    if not differing:
        return config
    given = ", ".join(f"{key}: {value}" for key, value in differing.items())
    written = ", ".join(f"{key}: {_yaml(getattr(config, key))}" for key in differing)
    note(
        f"Note: {config.name} is built with {given}, but {where} says {written}.\n"
        "  To every later build without these options, the nightly one included, these shards are stale:\n"
        "  it rebuilds them. To keep them, write the options above into the corpus's entry."
    )
    return config.model_copy(update=differing)


def show_build(config: CorpusConfig, build: GraphBuild) -> None:
    """What was built, and the corpus as it is now."""
    from corpus_assets.cli.amounts import counted, duration
    from corpus_assets.cli.console import say, say_table

    report, index, rate = build.report, build.report.index, build.megabytes_per_second
    if report.planned:
        at = "" if rate is None else f" at {rate:,.1f} MB/s"
        built = f"{counted(len(report.built), 'shard')} built{at}"
        reused = f"{len(report.reused)} reused, " if report.reused else ""
        say(f"{config.name}: {built}, {reused}{len(report.failed)} failed, {duration(report.seconds)}")
    elif report.ok and not report.run_ids:
        say(f"{config.name}: every shard is up to date and the index is released; nothing was run")
    else:
        say(f"{config.name}: no shard to build")
    if index is None:
        say(f"{config.name}: no index yet: it needs every input shard")
        return
    passed = sum(item.passed for item in report.evidence)
    say_table(
        ("shards", "documents", "tokens", "rejected", "checks passed", "released"),
        [
            (
                len(index.shards),
                index.document_count,
                index.token_count,
                index.ledger.rejected_count,
                f"{passed} of {len(report.evidence)}",
                report.released,
            )
        ],
    )
    say(f"{config.index_path}, generation {index.fingerprint[:16]}")


def objections(config: CorpusConfig, report: BuildReport) -> list[str]:
    """What keeps the build from being a success, in the words of a message."""
    from corpus_assets.cli.amounts import counted

    lines = []
    if report.failed:
        named = sorted(report.failed.items())[:_NAMED]
        lines.append(
            f"{config.name}: {len(report.failed)} of {counted(len(report.planned), 'input shard')} failed:"
        )
        lines += [f"  {key}: {reason}" for key, reason in named]
        if len(report.failed) > _NAMED:
            lines.append(
                f"  and {len(report.failed) - _NAMED} more: `corpus status {config.name}` lists them"
            )
        lines.append(f"  once they are mended: corpus build {config.name} --failed")
    elif report.refusal:
        lines.append(f"{config.name}: {report.refusal.removeprefix(f'{config.name}: ')}")
        lines += [f"  {item.check}: {item.detail}" for item in report.evidence if not item.passed]
    return lines


def _yaml(value: Any) -> str:
    return "null" if value is None else str(value)
