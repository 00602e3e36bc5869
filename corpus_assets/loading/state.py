"""LoaderState: what a loader must remember to go on exactly where its trainer stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from corpus_assets.errors import StateMismatchError

STATE_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderState:
    """The order of samples, what corpus it is an order of, and the next step.

    Rank, world size and number of workers are not part of it: any split of the same global batch goes on.

    Attributes:
        fingerprint: the corpus's index fingerprint.
        step: steps consumed; the step that comes next.
    """

    fingerprint: str
    window_size: int
    stride: int
    order: str
    seed: int
    epoch: int
    tail: str
    global_batch: int
    step: int
    version: int = STATE_VERSION

    def to_dict(self) -> dict[str, Any]:
        """The state as JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> LoaderState:
        """The state that `to_dict` gave.

        Raises:
            StateMismatchError: not a state of this version.
        """
        expected = {field.name: field.type for field in fields(cls)}
        if not isinstance(state, Mapping) or set(state) != set(expected):
            found = sorted(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
            raise StateMismatchError(f"not a loader state: found {found}, expected {sorted(expected)}")
        for name, kind in expected.items():
            value = state[name]
            if type(value).__name__ != kind or (kind == "int" and value < 0):
                raise StateMismatchError(f"loader state: {name} is {value!r}, expected {kind}")
        if state["version"] != STATE_VERSION:
            raise StateMismatchError(f"loader state: version is {state['version']}, expected {STATE_VERSION}")
        return cls(**state)

    def refuse_other(self, expected: LoaderState) -> None:
        """Raise StateMismatchError unless both name the same samples in the same order."""
        if self.fingerprint != expected.fingerprint:
            raise StateMismatchError(
                f"the state belongs to corpus {self.fingerprint}, this loader reads corpus "
                f"{expected.fingerprint}"
            )
        names = ("window_size", "stride", "order", "seed", "epoch", "tail", "global_batch")
        differing = [
            f"{name} is {getattr(self, name)!r} in the state, {getattr(expected, name)!r} in this loader"
            for name in names
            if getattr(self, name) != getattr(expected, name)
        ]
        if differing:
            raise StateMismatchError("; ".join(differing))
