"""ShardedTokenizationPipeline: many input shards → many token shards, in parallel processes."""

from __future__ import annotations

import os
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING

from corpus_assets.errors import one_line
from corpus_assets.shards.build import OnProgress
from corpus_assets.shards.child import describe_death, start_child
from corpus_assets.shards.lease import STALE_AFTER, clear_stale
from corpus_assets.shards.space import require_space
from corpus_assets.shards.worker import (
    COMMAND,
    BuildTask,
    DocumentAnnounced,
    DocumentsEncoded,
    Message,
    ShardOutcome,
)

if TYPE_CHECKING:
    from corpus_assets.config import CorpusConfig
    from corpus_assets.shards.manifest import InputFile
    from corpus_assets.shards.records import ShardInfo

HELD_RETRY_SECONDS = 1.0
MAX_REFUSED_ROWS = 20
TIMED_OUT = "tokenizer_timeout"
CRASHED = "tokenizer_crash"


class ShardedTokenizationPipeline:
    """Builds the token shards of a corpus; one bad shard, or a worker that dies of it, stops no other.

    A shard whose worker dies or falls silent for `document_timeout` seconds is built once more with every
    document announced; the one that it dies of becomes a reject. A partition that another builder holds is
    waited for, while there is other work last.

    Args:
        config: the corpus.
        workers: processes; default: the configuration's, else one a core.
        stale_after: seconds after which another builder's lease may be taken over.
    """

    def __init__(
        self, config: CorpusConfig, *, workers: int | None = None, stale_after: float = STALE_AFTER
    ) -> None:
        self._config = config
        self._cores = workers or config.workers or os.cpu_count() or 1
        self._stale_after = stale_after

    def run(
        self,
        files: Sequence[InputFile],
        *,
        force: bool = False,
        on_progress: OnProgress | None = None,
        expected: Mapping[str, ShardInfo] | None = None,
    ) -> Iterator[ShardOutcome]:
        """Build the shard of each input; outcomes come as they are reached, one for each input.

        Args:
            files: the inputs.
            force: build even where the current shard was made from the same.
            on_progress: called with a BuildProgress after each batch.
            expected: by key, the only shard to publish.
        """
        clear_stale(self._config.root, stale_after=self._stale_after)
        require_space(self._config, files)
        count = max(1, min(self._cores, len(files)))
        tasks = deque(
            BuildTask(
                file=file,
                config=self._config,
                force=force,
                threads=max(1, self._cores // count),
                stale_after=self._stale_after,
                expected=(expected or {}).get(file.key),
            )
            for file in sorted(files, key=lambda file: -file.size)
        )
        workers = [_Worker(self._config.document_timeout) for _ in range(count)] if files else []
        resume_at = 0.0
        try:
            while tasks or any(worker.task for worker in workers):
                for worker in workers:
                    if worker.task is None and tasks and time.monotonic() >= resume_at:
                        worker.start(tasks.popleft())
                for worker in _ready(workers):
                    outcome = worker.receive(on_progress)
                    if outcome is None:
                        continue
                    task = worker.finish()
                    if outcome.held:
                        resume_at = time.monotonic() + (0 if tasks else HELD_RETRY_SECONDS)
                        tasks.append(task)
                    else:
                        yield outcome
        finally:
            for worker in workers:
                worker.stop()
            # What a worker had drafted when it died goes now, not with the next build.
            clear_stale(self._config.root, stale_after=self._stale_after)


def _ready(workers: Sequence[_Worker]) -> list[_Worker]:
    """Busy workers with a message, a closed connection or an overdue document."""
    busy = {worker.connection: worker for worker in workers if worker.task is not None}
    if not busy:
        time.sleep(0.05)
        return []
    spoke = {busy[connection] for connection in wait(busy, timeout=0.2)}  # type: ignore[index]
    return [worker for worker in busy.values() if worker in spoke or worker.overdue]


class _Worker:
    """One worker process and the task that it is at."""

    def __init__(self, document_timeout: float) -> None:
        self._timeout = document_timeout
        self._process: subprocess.Popen[bytes] | None = None
        self.connection: Connection
        self.task: BuildTask | None = None
        self._row: int | None = None
        self._heard = 0.0
        self._watched = True

    @property
    def overdue(self) -> bool:
        return self._watched and time.monotonic() - self._heard > self._timeout

    def start(self, task: BuildTask) -> None:
        if self._process is None:
            self._process, self.connection = start_child(COMMAND)
        self.task, self._row, self._heard, self._watched = task, None, time.monotonic(), True
        with suppress(BrokenPipeError, ConnectionResetError):  # dead; whoever waits for its answer finds out
            self.connection.send(task)

    def finish(self) -> BuildTask:
        task, self.task = self.task, None
        assert task is not None
        return task

    def receive(self, on_progress: OnProgress | None) -> ShardOutcome | None:
        """Handle one message; the outcome if it was the last of its task."""
        if not self.connection.poll() and self.overdue:
            return self._recover(TIMED_OUT, f"no progress for {self._timeout:g} s")
        try:
            message: Message = self.connection.recv()
        except (EOFError, ConnectionResetError):
            return self._recover(CRASHED, describe_death(self._reap()))
        self._heard = time.monotonic()
        if isinstance(message, ShardOutcome):
            return message
        if isinstance(message, DocumentAnnounced):
            self._row = message.row
        elif isinstance(message, DocumentsEncoded):
            self._row, self._watched = None, False
        elif on_progress is not None:
            on_progress(message)
        return None

    def _recover(self, reason: str, found: str) -> ShardOutcome | None:
        """After a death or a silence: once more, carefully; then without the row that it died of."""
        self.stop()
        task = self.task
        assert task is not None
        row = self._row
        if not task.careful:
            self.start(replace(task, careful=True))
        elif row is not None and len(task.refuse_rows) < MAX_REFUSED_ROWS:
            self.start(replace(task, refuse_rows={**task.refuse_rows, row: reason}))
        else:
            place = "" if row is None else f" at row {row}"
            error = f"{one_line(task.file.name)}: the worker process ended{place}: {found}"
            return ShardOutcome(key=task.file.key, info=None, error=error, seconds=0.0)
        return None

    def _reap(self) -> int:
        assert self._process is not None
        return self._process.wait()

    def stop(self) -> None:
        """End the process; a build in flight publishes nothing."""
        if self._process is None:
            return
        self.connection.close()
        if self.task is not None:
            self._process.kill()
        self._process.wait()
        self._process = None
