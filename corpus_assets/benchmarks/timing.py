"""Rates of competing ways to do one thing, measured in turns so that a noisy machine disturbs all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

# One call does one piece of work; the argument counts the calls, so that no two need be alike.
Work = Callable[[int], object]

DEFAULT_REPEATS = 5
DEFAULT_ROUND_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Rates:
    """Calls per second of one way, one value per round; `median` is what is reported."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)


def measure_in_turns(
    ways: Mapping[str, Work],
    *,
    repeats: int = DEFAULT_REPEATS,
    round_seconds: float = DEFAULT_ROUND_SECONDS,
    before: Mapping[str, Callable[[], object]] | None = None,
) -> dict[str, Rates]:
    """Time every way `repeats` times, a round of each in turn; the first round warms up and is not counted.

    Args:
        ways: what to time, by name.
        repeats: counted rounds of each.
        round_seconds: about how long a round of one way takes; at least one call.
        before: what to do before each round of a way, by name; not timed.
    """
    rounds: dict[str, list[float]] = {name: [] for name in ways}
    calls = dict.fromkeys(ways, 0)
    for number in range(repeats + 1):
        for name, work in ways.items():
            if before and name in before:
                before[name]()
            first = calls[name]
            began = now = time.perf_counter()
            while now - began < round_seconds or calls[name] == first:
                work(calls[name])
                calls[name] += 1
                now = time.perf_counter()
            if number:
                rounds[name].append((calls[name] - first) / (now - began))
    return {name: Rates(tuple(values)) for name, values in rounds.items()}
