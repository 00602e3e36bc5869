"""How far a run's builds are: rates, megabytes and time left, said at a bounded rate."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from corpus_assets.shards.build import BuildProgress
from corpus_assets.shards.worker import ShardOutcome

LOG_SECONDS = 5.0  # a stored log line costs Dagster about 40 ms


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """All partitions of one run together; bytes are raw bytes of the inputs.

    What is reused counts as done, but not in the rates: it was not read.
    """

    shards_done: int
    shards_reused: int
    shards_failed: int
    shards_total: int
    rows: int
    tokens: int
    bytes_done: int
    bytes_reused: int
    bytes_total: int
    seconds: float

    @property
    def bytes_read(self) -> int:
        """What was read to build or to fail."""
        return self.bytes_done - self.bytes_reused

    @property
    def seconds_left(self) -> float | None:
        """At the rate so far; None before anything was read."""
        left = max(0, self.bytes_total - self.bytes_done)
        if not self.bytes_read:
            return None if left else 0.0
        return self.seconds * left / self.bytes_read

    def __str__(self) -> str:
        seconds = max(self.seconds, 1e-9)
        left = "unknown" if self.seconds_left is None else f"{self.seconds_left:,.0f} s"
        reused = f", {self.shards_reused} reused" if self.shards_reused else ""
        failed = f", {self.shards_failed} failed" if self.shards_failed else ""
        return (
            f"{self.shards_done} of {self.shards_total} shards{reused}{failed}; "
            f"{self.rows / seconds:,.0f} rows/s, {self.tokens / seconds:,.0f} tokens/s, "
            f"{self.bytes_done / 1e6:,.1f} of {self.bytes_total / 1e6:,.1f} MB "
            f"({self.bytes_read / 1e6 / seconds:,.1f} MB/s), {left} left"
        )


OnRunProgress = Callable[[RunProgress], None]


@dataclass(slots=True)
class BuildListener:
    """Where a run's progress goes besides its log; the `corpus` command shows it as a bar."""

    on_progress: OnRunProgress | None = None


@dataclass(slots=True)
class ProgressMeter:
    """Adds up the progress of a run's partitions; logs it every LOG_SECONDS and tells the listener.

    Each report costs the same whatever the number of partitions.
    """

    sizes: dict[str, int]
    log: Callable[[str], None]
    on_progress: OnRunProgress | None = None
    _reading: dict[str, BuildProgress] = field(default_factory=dict)
    _rows: int = 0
    _tokens: int = 0
    _bytes: int = 0
    _bytes_reused: int = 0
    _bytes_total: int = field(init=False)
    _done: int = 0
    _reused: int = 0
    _failed: int = 0
    _began: float = field(default_factory=time.monotonic)
    _logged: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._bytes_total = sum(self.sizes.values())

    def advance(self, progress: BuildProgress) -> None:
        """One shard has got further."""
        before = self._reading.get(progress.key)
        self._rows += progress.rows - (before.rows if before else 0)
        self._tokens += progress.tokens - (before.tokens if before else 0)
        self._bytes += progress.bytes_read - (before.bytes_read if before else 0)
        self._reading[progress.key] = progress
        self._tell()

    def finish(self, outcome: ShardOutcome) -> None:
        """One shard is done: its whole input counts."""
        last, size = self._reading.pop(outcome.key, None), self.sizes.get(outcome.key, 0)
        self._bytes += size - (last.bytes_read if last else 0)
        self._bytes_reused += size if outcome.reused else 0
        self._done += 1
        self._reused += outcome.reused
        self._failed += outcome.info is None
        self._tell()

    def now(self) -> RunProgress:
        """The totals at this moment."""
        return RunProgress(
            shards_done=self._done,
            shards_reused=self._reused,
            shards_failed=self._failed,
            shards_total=len(self.sizes),
            rows=self._rows,
            tokens=self._tokens,
            bytes_done=self._bytes,
            bytes_reused=self._bytes_reused,
            bytes_total=self._bytes_total,
            seconds=time.monotonic() - self._began,
        )

    def _tell(self) -> None:
        if self.on_progress is not None:
            self.on_progress(self.now())
        if time.monotonic() - self._logged >= LOG_SECONDS:
            self._logged = time.monotonic()
            self.log(str(self.now()))
