"""LoaderState: what a loader must remember to go on exactly where its trainer stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from corpus_assets.errors import StateMismatchError
from corpus_assets.loading.permutation import MAX_LENGTH
from corpus_assets.loading.provenance import CorpusRecord, differing_shards

STATE_VERSION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderState:
    """The order of samples, what corpora it is an order of, and the next step.

    Rank, world size and number of workers are not part of it: any split of the same global batch goes on.

    Attributes:
        kind: which loader it belongs to: windows, documents, records or mixture.
        corpora: what is read, by name; the corpus of a loader of one is named tokens.
        options: all that decides the order, by name.
        skip: what is left out, by corpus; see `SkipList`.
        step: steps consumed; the step that comes next.
        cursor: where that step begins, for what the step alone does not tell.
    """

    kind: str
    corpora: dict[str, CorpusRecord]
    options: dict[str, Any]
    step: int
    skip: dict[str, Any] = field(default_factory=dict)
    cursor: dict[str, int] = field(default_factory=dict)
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
        expected = {item.name: str(item.type).partition("[")[0] for item in fields(cls)}
        if not isinstance(state, Mapping) or "version" not in state:
            found = sorted(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
            raise StateMismatchError(f"not a loader state: found {found}, expected {sorted(expected)}")
        if state["version"] != STATE_VERSION:
            raise StateMismatchError(
                f"loader state: version is {state['version']!r}, expected {STATE_VERSION}"
            )
        if odd := sorted(expected.keys() ^ {str(name) for name in state}):
            fault = "is missing" if odd[0] in expected else "is not known"
            raise StateMismatchError(f"loader state: {odd[0]} {fault}, expected {sorted(expected)}")
        for name, kind in expected.items():
            value = state[name]
            if type(value).__name__ != kind or (kind == "int" and not 0 <= value < MAX_LENGTH):
                wanted = f"a whole number from 0 to {MAX_LENGTH - 1}" if kind == "int" else kind
                raise StateMismatchError(f"loader state: {name} is {value!r}, expected {wanted}")
        if not all(type(value) is int and abs(value) < MAX_LENGTH for value in state["cursor"].values()):
            raise StateMismatchError(f"loader state: cursor is {state['cursor']!r}, expected whole numbers")
        corpora = {name: CorpusRecord.from_dict(record) for name, record in state["corpora"].items()}
        return cls(**{**state, "corpora": corpora})

    def refuse_other_order(self, expected: LoaderState) -> None:
        """Raise StateMismatchError, naming both values of each option, unless both order samples alike."""
        mine, own = (
            {"loader": state.kind, "corpora": sorted(state.corpora), **state.options}
            for state in (self, expected)
        )
        differing = [
            f"{name} is {mine.get(name)!r} in the state, {own.get(name)!r} in this loader"
            for name in {**own, **mine}
            if mine.get(name) != own.get(name)
        ]
        if differing:
            raise StateMismatchError("; ".join(differing))
        if self.cursor.keys() != expected.cursor.keys():
            raise StateMismatchError(
                f"loader state: cursor is {self.cursor}, expected {' and '.join(sorted(expected.cursor))}"
            )

    def refuse_other_corpus(self, expected: LoaderState) -> None:
        """Raise StateMismatchError, naming both fingerprints and what differs, unless both read the same."""
        for name, own in expected.corpora.items():
            found = self.corpora[name]
            if found.fingerprint != own.fingerprint:
                raise StateMismatchError(
                    f"the state belongs to corpus {found.fingerprint}, this loader reads corpus "
                    f"{own.fingerprint}{'' if name == 'tokens' else f' as {name}'}: {differing_shards(found, own)}"
                )

    def refuse_other_skip(self, expected: LoaderState) -> None:
        """Raise StateMismatchError, naming both lists, unless both leave out the same."""
        if self.skip != expected.skip:
            raise StateMismatchError(
                f"skip is {self.skip} in the state, {expected.skip} in this loader; "
                "allow_other_skip=True goes on with this loader's"
            )
