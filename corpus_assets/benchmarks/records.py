"""What a measurement says: rows for a table, and for JSON."""

from __future__ import annotations

from dataclasses import dataclass

from corpus_assets.benchmarks.timing import Rates


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkRow:
    """One rate beside another that was measured in turns with it.

    Attributes:
        group: `reading`, `compressed`, `cold` or `loading`.
        name: what was measured.
        unit: of both rates; more is better.
        rate: median over `repeats` rounds.
        reference: what it is compared with; empty where there is nothing to compare.
        reference_rate: median of the reference in the same rounds.
        target: what `ratio` should reach; None where the row only reports.
        repeats: counted rounds.
    """

    group: str
    name: str
    unit: str
    rate: float
    reference: str = ""
    reference_rate: float = 0.0
    target: float | None = None
    repeats: int = 1

    @property
    def ratio(self) -> float | None:
        """The rate over the reference_rate; None without a reference."""
        return self.rate / self.reference_rate if self.reference_rate else None

    @property
    def meets_target(self) -> bool | None:
        """Whether the target is reached; None without one."""
        return None if self.target is None or self.ratio is None else self.ratio >= self.target


def compared(
    name: str,
    rates: Rates,
    reference: str,
    reference_rates: Rates,
    *,
    group: str,
    unit: str,
    target: float | None,
    scale: float = 1.0,
) -> BenchmarkRow:
    """The row of two ways measured in turns; `scale` is what one call is worth in `unit`."""
    return BenchmarkRow(
        group=group,
        name=name,
        unit=unit,
        rate=rates.median * scale,
        reference=reference,
        reference_rate=reference_rates.median * scale,
        target=target,
        repeats=len(rates.rounds),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputRow:
    """How fast windows are read at one chunk size and compression, with a warm or a cold page cache.

    Attributes:
        chunk_size: tokens per HDF5 chunk.
        compression: `none`, `gzip`, `lzf` or `zstd`.
        cache: `warm`, or `cold`: the file's pages were dropped before.
        as_built: whether this is the corpus itself; else a sample of it, written anew.
        windows_per_second: through the loader.
        limit: windows per second at which finished batches are copied in memory.
    """

    chunk_size: int
    compression: str
    cache: str
    as_built: bool
    windows_per_second: float
    limit: float

    @property
    def share_of_limit(self) -> float:
        """windows_per_second / limit: comparable between machines."""
        return self.windows_per_second / self.limit
