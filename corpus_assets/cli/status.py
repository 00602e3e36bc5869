"""`corpus status`: what is built, what is not and why, what is released."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from corpus_assets.cli.help import CommandWithExamples

if TYPE_CHECKING:
    from corpus_assets.cli.state import CorpusState

_NAMED = 30


@click.command(
    cls=CommandWithExamples,
    short_help="What is built, stale or failed, and why; what is released.",
    examples=(
        ("corpus status", "every corpus"),
        ("corpus status stdlib --all", "every shard that is not up to date, by name"),
        ("corpus status --json", "for a machine, every shard by name"),
    ),
    exit_codes=(("0", "the status is complete"), ("2", "a part of it cannot be told, the message says why")),
)
@click.argument("name", required=False)
@click.option(
    "--all", "show_all", is_flag=True, help=f"Name more than {_NAMED} shards that are not up to date."
)
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON on stdout.")
@click.pass_obj
def command(config_file: str | None, name: str | None, *, show_all: bool, as_json: bool) -> None:
    """Show where the corpora stand; changes nothing and reads no input.

    NAME is a corpus of corpora.yaml; without it, all of them. A shard is built, missing, stale (its input,
    the tokenizer or an option changed) or failed (its last build did).
    """
    from dataclasses import asdict

    from corpus_assets.cli.console import say_json
    from corpus_assets.cli.project import Project
    from corpus_assets.cli.records import dagster_records
    from corpus_assets.cli.state import corpus_state
    from corpus_assets.errors import CorpusError

    project = Project.load(config_file)
    selected = project.select(name)
    records = dagster_records(project, selected)
    states = [corpus_state(config, records[config.name]) for config in selected]
    if as_json:
        say_json({"corpora": [{**asdict(state), "counts": state.counts} for state in states]})
    else:
        for state in states:
            _show(state, shown=None if show_all else _NAMED)
    problems = [f"{state.name}: {problem}" for state in states for problem in state.problems]
    if problems:
        raise CorpusError("\n".join(problems))


def _show(state: CorpusState, *, shown: int | None) -> None:
    from corpus_assets.cli.console import say, say_table

    say(f"{state.name}: {state.input} → {state.root}")
    counts = ", ".join(f"{count:,} {what}" for what, count in state.counts.items())
    say(f"  shards    {'unknown' if state.shards is None else counts}")
    say(f"  index     {_index(state)}")
    say(f"  ledger    {_ledger(state)}")
    say(f"  release   {_release(state)}")
    say(f"  leases    {_leases(state)}")
    say(f"  checks    {_findings(state)}")
    others = [shard for shard in state.shards or () if shard.state != "built"]
    if others:
        rows = [(shard.name, shard.state, shard.reason or "never built") for shard in others[:shown]]
        say_table(("input shard", "state", "why"), rows)
    if shown is not None and len(others) > shown:
        say(f"  and {len(others) - shown} more; --all names them")
    say()


def _index(state: CorpusState) -> str:
    index = state.index
    if index is None:
        return "none"
    facts = f"{index.shard_count:,} shards, {index.document_count:,} documents, {index.token_count:,} tokens"
    generation = f"generation {index.fingerprint[:16]} of {index.written}"
    return (
        f"{facts}; {generation}; {'behind the inputs: ' + index.pending if index.pending else 'up to date'}"
    )


def _ledger(state: CorpusState) -> str:
    ledger = state.ledger
    if ledger is None:
        return "none"
    rejects = ", ".join(f"{count:,} {reason}" for reason, count in sorted(ledger.rejected.items()))
    cut = f"; {ledger.truncated_documents:,} documents cut" if ledger.truncated_documents else ""
    return (
        f"{ledger.rows:,} rows = {ledger.documents:,} documents + {ledger.blank:,} blank "
        f"+ {ledger.rejected_count:,} rejected{f' ({rejects})' if rejects else ''}{cut}"
    )


def _release(state: CorpusState) -> str:
    release = state.release
    if release is None:
        return "none: training is refused"
    what = f"{release.fingerprint[:16]} of {release.created}, {len(release.evidence)} checks passed"
    if release.current:
        return f"{what}: the present index may be trained on"
    return f"{what}: of an earlier generation, the present index is not released"


def _leases(state: CorpusState) -> str:
    held = []
    for lease in state.leases:
        owner = f"process {lease.owner.pid} on {lease.owner.host}" if lease.owner else "an unknown owner"
        condition = "gone, free to take over" if lease.stale else f"refreshed {lease.age:.0f} s ago"
        held.append(f"{lease.key} by {owner} ({condition})")
    return "; ".join(held) or "none"


def _findings(state: CorpusState) -> str:
    from corpus_assets.cli.amounts import counted

    if not state.findings:
        return "none ran"
    passed = sum(finding.passed for finding in state.findings)
    lines = [f"{passed} of {counted(len(state.findings), 'blocking check')} passed"]
    lines += [f"            {item.check}: {item.detail}" for item in state.findings if not item.passed]
    return "\n".join(lines)
