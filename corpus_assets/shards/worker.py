"""A process that builds shards one after the other for `pipeline`.

Started as a program of its own with one end of a connection: that needs no fork, and no
`if __name__ == "__main__"` in the program that asked for it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from corpus_assets.errors import CorpusError, one_line, system_error
from corpus_assets.shards.build import BuildProgress, build_shard
from corpus_assets.shards.lease import LeaseHeldError
from corpus_assets.sources.unpacking import limit_memory
from corpus_assets.tokenizers import load_tokenizer

if TYPE_CHECKING:
    from corpus_assets.config import CorpusConfig
    from corpus_assets.shards.manifest import InputFile
    from corpus_assets.shards.records import ShardInfo
    from corpus_assets.tokenizers.protocol import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildTask:
    """One shard to build.

    Attributes:
        expected: publish only this very shard.
        careful: announce each document before it is encoded.
        refuse_rows: rows to reject, with the reason.
    """

    file: InputFile
    config: CorpusConfig
    force: bool
    threads: int
    stale_after: float
    expected: ShardInfo | None = None
    careful: bool = False
    refuse_rows: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentAnnounced:
    """The row that the worker is about to encode; None where it is at none."""

    row: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentsEncoded:
    """No document is left: what the worker does now, sealing and syncing, takes as long as the disk takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardOutcome:
    """How the build of one shard ended: `info`, or the `error` that stopped it.

    Attributes:
        reused: the shard was there, made from the same; nothing was built.
        held: another builder holds the partition.
        seconds: time it took.
    """

    key: str
    info: ShardInfo | None
    error: str | None
    seconds: float
    reused: bool = False
    held: bool = False


Message = BuildProgress | DocumentAnnounced | DocumentsEncoded | ShardOutcome


def run_task(
    task: BuildTask, load: Callable[[CorpusConfig], Tokenizer], connection: Connection
) -> ShardOutcome:
    """Build the shard of `task` with the tokenizer that `load` gives, reporting through `connection`."""
    started = time.perf_counter()
    key = task.file.key

    def ended(info: ShardInfo | None, error: str | None, **flags: bool) -> ShardOutcome:
        seconds = time.perf_counter() - started
        # It names files, and quotes what libraries say of their content.
        shown = None if error is None else one_line(error, limit=4000)
        return ShardOutcome(key=key, info=info, error=shown, seconds=seconds, **flags)

    def announce(row: int | None) -> None:
        connection.send(DocumentAnnounced(row=row))

    try:
        info, reused = build_shard(
            task.file,
            task.config,
            load(task.config),
            force=task.force,
            threads=task.threads,
            on_progress=connection.send,
            on_document=announce if task.careful else None,
            on_encoded=lambda: connection.send(DocumentsEncoded()),
            refuse_rows=task.refuse_rows,
            stale_after=task.stale_after,
            expected=task.expected,
        )
    except LeaseHeldError as error:
        return ended(None, str(error), held=True)
    except CorpusError as error:
        return ended(None, str(error))
    except Exception as error:
        if (reason := system_error(error, place=task.config.root)) is not None:
            return ended(None, f"{task.file.name}: {reason}")
        # A defect of ours must not take the neighbours down, and must not be taken for a bad input.
        return ended(None, f"{task.file.name}: unexpected {type(error).__name__}: {error}")
    return ended(info, None, reused=reused)


COMMAND = "from corpus_assets.shards.worker import serve; serve()"


def serve() -> None:
    """Serve tasks until the other end closes the connection."""
    limit_memory()
    connection = Connection(int(sys.argv[1]))
    # The last one: a task after the other has the same.
    loaded = lru_cache(1)(lambda spec, boundary_token: load_tokenizer(spec, boundary_token=boundary_token))
    while True:
        try:
            task: BuildTask = connection.recv()
            outcome = run_task(
                task, lambda config: loaded(config.tokenizer, config.boundary_token), connection
            )
            connection.send(outcome)
        except (EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
            return
