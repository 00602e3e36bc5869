"""Quantities and durations as a person reads them."""

from __future__ import annotations


def amount(number: float, unit: str) -> str:
    """A quantity in three digits: 1234567 bytes are `1.23 MB` with the unit `B`."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{number / factor:.3g} {prefix}{unit}"
    return f"{number:.3g} {unit}"


def duration(seconds: float) -> str:
    """Seconds as a person reads them: `7 s`, `2 min 5 s`, `3 h 20 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def counted(number: int, noun: str) -> str:
    """`1 shard`, `2 shards`, `31,526,997 tokens`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
