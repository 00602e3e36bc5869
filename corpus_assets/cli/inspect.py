"""`corpus inspect`: what one token shard holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from corpus_assets.cli.help import CommandWithExamples

if TYPE_CHECKING:
    from corpus_assets.shards.contents import ShardContents
    from corpus_assets.tokenizers.protocol import Tokenizer

_SHOWN_CHARACTERS = 300
_SHOWN_VALUE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSample:
    """One document of a shard.

    Attributes:
        row: its row in the input shard.
        start: its first token in the shard.
        stop: behind its boundary token.
        ids: its first ids.
        text: the text of these ids; None without the tokenizer.
    """

    row: int
    start: int
    stop: int
    ids: list[int]
    text: str | None


@click.command(
    cls=CommandWithExamples,
    short_help="What one token shard holds: attributes, datasets, documents.",
    examples=(
        ("corpus inspect shards/part-0.jsonl-5f….h5", "decoded by the corpus's tokenizer"),
        ("corpus inspect shard.h5 --tokenizer ./tokenizer.json", "decoded by a given tokenizer"),
        ("corpus inspect shard.h5 --documents 0 --json", "its facts, for a machine"),
    ),
)
@click.argument("file", metavar="FILE.h5", type=click.Path(path_type=Path))
@click.option(
    "--documents", default=3, show_default=True, type=click.IntRange(min=0), help="How many to show."
)
@click.option(
    "--tokens", default=256, show_default=True, type=click.IntRange(min=1), help="Of each document."
)
@click.option(
    "--tokenizer",
    "spec",
    metavar="SPEC",
    help="What decodes the ids: byte, a tokenizer.json, an encoding. Default: that of a corpus in corpora.yaml.",
)
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON on stdout.")
@click.pass_obj
def command(
    config_file: str | None, file: Path, *, documents: int, tokens: int, spec: str | None, as_json: bool
) -> None:
    """Show the attributes, datasets and first documents of one token shard."""
    from corpus_assets.cli.console import note, say_json
    from corpus_assets.shards.contents import read_contents

    contents = read_contents(file, documents=documents, tokens=tokens)
    tokenizer = _tokenizer_of(contents.attributes, config_file, spec)
    if tokenizer is None and documents:
        name = contents.attributes.get("tokenizer_name", "(unnamed)")
        note(f"no tokenizer here is the one of this shard, {name}: showing ids; --tokenizer names it")
    samples = first_documents(contents, tokenizer=tokenizer)
    if as_json:
        facts = {"attributes": contents.attributes, "datasets": contents.datasets}
        say_json({"file": str(file), **facts, "documents": samples})
    else:
        _show(file, contents, samples)


def first_documents(contents: ShardContents, *, tokenizer: Tokenizer | None) -> list[DocumentSample]:
    """The documents of `contents` with their texts, where `tokenizer` made them."""
    return [
        DocumentSample(
            row=document.row,
            start=document.start,
            stop=document.stop,
            ids=document.ids,
            text=None if tokenizer is None else tokenizer.decode(document.ids),
        )
        for document in contents.documents
    ]


def _tokenizer_of(attributes: dict[str, Any], config_file: str | None, spec: str | None) -> Tokenizer | None:
    """The tokenizer that made the shard, found by its fingerprint; None if it is not here."""
    from corpus_assets.cli.project import Project
    from corpus_assets.errors import ConfigError, ShardError, TokenizerError
    from corpus_assets.tokenizers import load_tokenizer

    wanted = attributes.get("tokenizer_fingerprint")
    if spec is not None:
        given = load_tokenizer(spec)
        if given.fingerprint != wanted:
            raise ShardError(
                f"--tokenizer {spec}: its fingerprint is {given.fingerprint}, the shard was made with {wanted}"
            )
        return given
    specs: list[tuple[str, str | None]] = [("byte", None)]
    try:
        corpora = Project.load(config_file).corpora.values()
        specs += [(corpus.tokenizer, corpus.boundary_token) for corpus in corpora]
    except ConfigError:
        if config_file is not None:
            raise
    for name, boundary in dict.fromkeys(specs):
        try:
            tokenizer = load_tokenizer(name, boundary_token=boundary)
        except TokenizerError:
            continue  # of another corpus; this shard may well be readable without it
        if tokenizer.fingerprint == wanted:
            return tokenizer
    return None


def _show(file: Path, contents: ShardContents, samples: list[DocumentSample]) -> None:
    from corpus_assets.cli.console import say, say_table

    say(str(file))
    say_table(("attribute", "value"), ((name, _short(value)) for name, value in contents.attributes.items()))
    say_table(
        ("dataset", "length", "dtype", "chunk", "stored bytes", "dictionary bytes", "in one run at"),
        (
            (
                name,
                facts.length,
                facts.dtype,
                facts.chunk,
                facts.stored_bytes,
                facts.dictionary_bytes or "",
                "no" if facts.run_offset is None else str(facts.run_offset),
            )
            for name, facts in contents.datasets.items()
        ),
    )
    for number, sample in enumerate(samples):
        say(f"document {number}: row {sample.row}, tokens {sample.start} to {sample.stop}")
        shown = " ".join(map(str, sample.ids)) if sample.text is None else repr(sample.text)
        more = " …" if len(shown) > _SHOWN_CHARACTERS or len(sample.ids) < sample.stop - sample.start else ""
        say(f"  {shown[:_SHOWN_CHARACTERS]}{more}")


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN_VALUE else f"{text[:_SHOWN_VALUE]} …"
