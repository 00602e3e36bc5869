"""`corpus audit`: do the shards hold what their inputs say?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from corpus_assets.cli.help import CommandWithExamples
from corpus_assets.cli.validate import FOUND_SOMETHING

if TYPE_CHECKING:
    from corpus_assets.config import CorpusConfig
    from corpus_assets.shards.records import ShardIndex


@click.command(
    cls=CommandWithExamples,
    short_help="Encode a sample of documents anew and compare it with the shards.",
    examples=(
        ("corpus audit web", "8 documents of each shard"),
        ("corpus audit web --documents 100 --seed 7", "more of them, and others"),
        ("corpus audit web --json >audit.json", "for a machine"),
    ),
    exit_codes=(
        ("0", "every document of the sample gives what is stored"),
        ("1", "findings"),
        ("2", "the audit cannot run"),
    ),
)
@click.argument("name")
@click.option(
    "--documents",
    default=8,
    show_default=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="How many of each shard.",
)
@click.option("--seed", default=0, show_default=True, metavar="S", help="Of the sample.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON on stdout.")
@click.pass_obj
def command(config_file: str | None, name: str, *, documents: int, seed: int, as_json: bool) -> None:
    """Read a sample of documents of the corpus NAME from their inputs, encode them anew, compare.

    Tokens, fields and annotations must be the same, in every format.

    `corpus validate` proves that the files are what was written; this shows that the right thing was written.
    A document that differs is reported with its input row and its tokens; an input that changed or is gone
    cannot be audited and is reported, too.
    """
    from corpus_assets.cli.console import say_json
    from corpus_assets.cli.progress import ProgressDisplay
    from corpus_assets.cli.project import Project
    from corpus_assets.loading.audit import audit_corpus
    from corpus_assets.shards.index import load_index

    config = Project.load(config_file).corpus(name)
    index = load_index(config.index_path)
    _refuse_unlike(config, index)
    sample = sum(min(documents, shard.document_count) for shard in index.shards)
    with ProgressDisplay() as display:
        display.stage(f"{name}: encoding {sample:,} of {index.document_count:,} documents anew")
        findings = audit_corpus(config, index, documents_per_shard=documents, seed=seed)
    if as_json:
        say_json(
            {
                "index": str(config.index_path),
                "ok": not findings,
                "fingerprint": index.fingerprint,
                "seed": seed,
                "document_count": sample,
                "findings": findings,
            }
        )
    else:
        _show(index, sample, [f"{finding.check}: {finding.message}" for finding in findings], name)
    if findings:
        click.get_current_context().exit(FOUND_SOMETHING)


def _refuse_unlike(config: CorpusConfig, index: ShardIndex) -> None:
    """Raise where every document would differ for a reason that is no damage; warn where many may."""
    from corpus_assets.cli.amounts import counted
    from corpus_assets.cli.console import note
    from corpus_assets.errors import IndexMismatchError
    from corpus_assets.formats import content_fingerprint
    from corpus_assets.shards.build import build_identity
    from corpus_assets.tokenizers import load_tokenizer

    fingerprint = load_tokenizer(config.tokenizer, boundary_token=config.boundary_token).fingerprint
    built_with = index.tokenizer.fingerprint if index.tokenizer else fingerprint
    if fingerprint != built_with:
        raise IndexMismatchError(
            f"{config.name}: the tokenizer's fingerprint is {fingerprint}, its shards were made with "
            f"{built_with}: the tokenizer changed; build the corpus first"
        )
    content = content_fingerprint(config)
    other = sum(
        shard.build != build_identity(shard.input_sha256, fingerprint, content) for shard in index.shards
    )
    if other:
        note(
            f"Note: {counted(other, 'shard')} of {config.name} were built with other options than corpora.yaml "
            "says now; what differs may come from that"
        )


def _show(index: ShardIndex, sample: int, lines: list[str], name: str) -> None:
    from corpus_assets.cli.amounts import counted
    from corpus_assets.cli.console import say

    looked_at = f"{counted(sample, 'document')} of {counted(len(index.shards), 'shard')}"
    if not lines:
        say(f"{name}: {looked_at} encoded anew: nothing differs, generation {index.fingerprint[:16]}")
        return
    say(f"{name}: {counted(len(lines), 'finding')}, {looked_at} in the sample")
    for line in lines:
        say(f"  {line}")
