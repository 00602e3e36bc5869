"""`corpus rejects`: the rows that did not become documents, to be looked at, mended and fed back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from corpus_assets.cli.help import CommandWithExamples

if TYPE_CHECKING:
    from corpus_assets.cli.quarantined import QuarantinedRow, QuarantineFile

_SHOWN = 20
_SHOWN_BYTES = 200
_NAMED = 10


@click.command(
    cls=CommandWithExamples,
    short_help="The rows that did not become documents, and why.",
    examples=(
        ("corpus rejects web", "how many for which reason, and the first of them"),
        ("corpus rejects web --reason bad_json --rows 100", "more of one kind"),
        ("corpus rejects web --export mended.jsonl", "their bytes, to be mended and fed back"),
        ("corpus rejects web --json", "every row, for a machine"),
    ),
)
@click.argument("name")
@click.option("--shard", metavar="KEY", help="Of this input shard only, by file name or partition key.")
@click.option("--reason", metavar="R", help="Only the rows that were rejected for this reason.")
@click.option(
    "--rows", type=click.IntRange(min=0), metavar="N", help=f"Show N. Default: {_SHOWN}; with --json all."
)
@click.option(
    "--export",
    metavar="FILE.jsonl",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the bytes of the rows to a new file, a line each.",
)
@click.option("--json", "as_json", is_flag=True, help="Counts and rows as JSON on stdout.")
@click.pass_obj
def command(
    config_file: str | None,
    name: str,
    *,
    shard: str | None,
    reason: str | None,
    rows: int | None,
    export: Path | None,
    as_json: bool,
) -> None:
    """List the rows of the corpus NAME that are in quarantine: where they stood, why, and what they are.

    Control characters are shown as escapes. To feed rows back: --export writes exactly their bytes; mend
    that file, move it into the input folder under a name of its own, build. It is one more input shard; the
    rows stay counted as rejects of the shard that they came from, whose file is not touched.
    """
    from corpus_assets.cli.console import note, say_json
    from corpus_assets.cli.project import Project
    from corpus_assets.cli.quarantined import quarantine_files

    target = None if export is None else _free(export)
    files = quarantine_files(Project.load(config_file).corpus(name), shard=shard)
    by_shard = {file.key: _counts(file, reason) for file in files}
    total = sum(by_shard.values(), Counter[str]())
    if reason is not None and not total:
        note(f"no row of {name} was rejected for {reason!r}")
    shown = list(islice(_matching(files, reason), rows if as_json else _SHOWN if rows is None else rows))
    if as_json:
        say_json(_document(name, files, by_shard, shown))
    else:
        _show(name, files, by_shard, shown)
    if target is not None:
        _export(target, _matching(files, reason))


def _matching(files: Iterable[QuarantineFile], reason: str | None) -> Iterator[QuarantinedRow]:
    from corpus_assets.cli.quarantined import rows_of

    return (row for file in files for row in rows_of(file) if reason in (None, row.reason))


def _counts(file: QuarantineFile, reason: str | None) -> Counter[str]:
    return Counter(row.reason for row in _matching([file], reason))


def _free(path: Path) -> Path:
    """`path`, refused where something stands there: it may be what somebody has mended."""
    from corpus_assets.errors import ConfigError

    if path.exists():
        raise ConfigError(f"--export {path}: there already, expected a new file")
    if not path.parent.is_dir():
        raise ConfigError(f"--export {path}: expected a file in a folder that exists")
    return path


def _export(target: Path, rows: Iterable[QuarantinedRow]) -> None:
    """Write each row that can be a line; name those that cannot, which must be taken from the input."""
    from corpus_assets.cli.amounts import counted
    from corpus_assets.cli.console import note
    from corpus_assets.shards.publish import published

    written, left_out = 0, []
    with published(target, scratch=target.parent) as draft, draft.open("wb") as file:
        for row in rows:
            if (why := row.why_no_line) is not None:
                left_out.append(f"  row {row.row} of {row.name}: {why}")
                continue
            file.write(row.raw + b"\n")
            written += 1
    note(f"wrote {counted(written, 'row')} to {target}")
    if left_out:
        more = [f"  and {len(left_out) - _NAMED:,} more"] if len(left_out) > _NAMED else []
        note(f"left out {counted(len(left_out), 'row')}, to be taken from the input:")
        note("\n".join(left_out[:_NAMED] + more))


def _document(
    name: str, files: list[QuarantineFile], by_shard: dict[str, Counter[str]], shown: list[QuarantinedRow]
) -> dict[str, Any]:
    return {
        "corpus": name,
        "rejected": dict(sum(by_shard.values(), Counter[str]())),
        "shards": [
            {"key": file.key, "name": file.name, "built": file.built, "rejected": dict(by_shard[file.key])}
            for file in files
        ],
        "rows": [
            {
                "key": row.key,
                "name": row.name,
                "row": row.row,
                "reason": row.reason,
                "detail": row.detail,
                **_raw(row.raw),
            }
            for row in shown
        ],
    }


def _raw(raw: bytes) -> dict[str, str]:
    import base64

    try:
        return {"raw": raw.decode("utf-8")}
    except UnicodeDecodeError:
        return {"raw_base64": base64.b64encode(raw).decode("ascii")}


def _show(
    name: str, files: list[QuarantineFile], by_shard: dict[str, Counter[str]], shown: list[QuarantinedRow]
) -> None:
    from corpus_assets.cli.amounts import counted
    from corpus_assets.cli.console import say, say_table

    total = sum(by_shard.values(), Counter[str]())
    in_shards = sum(bool(counts) for counts in by_shard.values())
    say(f"{name}: {counted(total.total(), 'row')} in quarantine, of {counted(in_shards, 'input shard')}")
    if not total:
        return
    say_table(("reason", "rows"), total.most_common())
    for file in files:
        if not file.built and by_shard[file.key]:
            say(
                f"{file.name} is not built: its last build failed with {by_shard[file.key].total():,} rejects"
            )
    if shown:
        say_table(
            ("input shard", "row", "reason", "what was found", "bytes"),
            [(row.name, str(row.row), row.reason, row.detail, _escaped(row.raw)) for row in shown],
        )
    if total.total() > len(shown):
        say(f"  and {total.total() - len(shown):,} more; --rows N shows them, --export writes them")


def _escaped(raw: bytes) -> str:
    """The beginning of `raw`, every byte that is no printable character as an escape."""
    cut = raw[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")
    more = f" … ({len(raw):,} bytes)" if len(raw) > _SHOWN_BYTES else ""
    return (
        "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in cut) + more
    )
