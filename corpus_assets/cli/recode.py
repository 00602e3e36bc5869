"""`corpus recode`: the same corpus in another codec, in a folder of its own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from corpus_assets.cli.build import COMPRESSIONS
from corpus_assets.cli.help import CommandWithExamples

if TYPE_CHECKING:
    from corpus_assets.shards.records import ShardIndex, ShardInfo


@click.command(
    cls=CommandWithExamples,
    short_help="Copy a corpus into another codec, proven to be the same.",
    examples=(
        ("corpus recode web /mnt/small/web --compression zstd", "the corpus `web`, for a slow disk"),
        ("corpus recode /mnt/small/web web --compression none", "and back again, by path"),
        ("corpus bench web", "what each codec costs and saves, to choose by"),
    ),
    exit_codes=(
        ("0", "the copy is there, every digest is that of the source"),
        ("2", "it cannot be copied, or a source shard is damaged; no index is written"),
    ),
)
@click.argument("corpus", metavar="NAME|PATH")
@click.argument("target", type=click.Path(file_okay=False, path_type=Path))
@click.option("--compression", required=True, type=click.Choice(COMPRESSIONS), help="How the copy is stored.")
@click.option(
    "--chunk-size",
    type=click.IntRange(min=1),
    metavar="N",
    help="Tokens that are compressed together. Default: as in each shard.",
)
@click.pass_obj
def command(
    config_file: str | None, corpus: str, *, target: Path, compression: str, chunk_size: int | None
) -> None:
    """Copy a built corpus into the folder TARGET, stored another way; the source stays as it is.

    NAME is a corpus of corpora.yaml; PATH is a shards.json, its folder or a released generation. Every shard
    is read back from its new file and compared with the recorded digests before it counts. The generation
    stays the same, so a loader's state goes on with the copy. A copy that was interrupted goes on where it
    was when the command is given again. It has no release of its own: the source's checks are what they were.
    """
    from corpus_assets.cli.validate import index_path
    from corpus_assets.shards.index import load_index

    path = index_path(config_file, corpus)
    source = load_index(path)
    copy = _recode(path, source, target, compression=compression, chunk_size=chunk_size)
    _show(source, copy, target)


def _recode(
    path: Path, source: ShardIndex, target: Path, *, compression: str, chunk_size: int | None
) -> ShardIndex:
    from corpus_assets.cli.amounts import amount, counted
    from corpus_assets.cli.progress import ProgressDisplay
    from corpus_assets.shards.recode import recode_corpus

    sizes = {shard.key: shard.file_bytes for shard in source.shards}
    done, shards, began = 0, 0, time.monotonic()
    with ProgressDisplay() as display:
        display.stage(f"copying {counted(len(sizes), 'shard')} as {compression}, comparing each")

        def on_shard(info: ShardInfo) -> None:
            nonlocal done, shards
            done, shards = done + sizes[info.key], shards + 1
            rate = amount(done / max(1e-9, time.monotonic() - began), "B/s")
            words = f"{shards}/{len(sizes)} shards, {rate}"
            display.show(done, sum(sizes.values()), words=words, line=f"copied {words}")

        return recode_corpus(path, target, compression=compression, chunk_size=chunk_size, on_shard=on_shard)


def _show(source: ShardIndex, copy: ShardIndex, target: Path) -> None:
    from corpus_assets.cli.amounts import counted
    from corpus_assets.cli.console import say, say_table

    equal = sum(
        (old.key, old.token_count, old.sha256, old.column_sha256)
        == (new.key, new.token_count, new.sha256, new.column_sha256)
        for old, new in zip(source.shards, copy.shards, strict=True)
    )
    say(
        f"{target}: the same corpus: {counted(copy.token_count, 'token')}, generation {copy.fingerprint[:16]}"
    )
    say(f"{equal} of {counted(len(source.shards), 'shard')}, read back, with the digests of the source")
    before, behind = _stored(source), _stored(copy)
    say_table(
        ("", "codec", "tokens per chunk", "bytes of tokens", "bytes of files"),
        [("source", *before), ("copy", *behind)],
    )
    share = behind[-1] / before[-1] if before[-1] else 1.0
    say(f"the copy has {share:.3g} × the size of the source")


def _stored(index: ShardIndex) -> tuple[str, str, int, int]:
    """Codecs, chunk sizes, bytes of the stored tokens and of the files."""
    return (
        ", ".join(sorted({shard.compression for shard in index.shards})),
        ", ".join(f"{size:,}" for size in sorted({shard.chunk_size for shard in index.shards})),
        sum(shard.data_bytes for shard in index.shards),
        sum(shard.file_bytes for shard in index.shards),
    )
