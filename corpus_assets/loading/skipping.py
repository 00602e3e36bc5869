"""SkipList: what is left out of a corpus after the fact; nothing is renumbered."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np

from corpus_assets.errors import StateMismatchError
from corpus_assets.loading.document_index import DocumentIndex
from corpus_assets.loading.framing import Framing, numbers_in

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SkipList:
    """Documents and ranges that no loader yields.

    A window is left out when it touches a token of them; where starts are drawn also when it could, so
    that every epoch has the same number of windows. Positions, document ids and window numbers stay what they were.

    Attributes:
        documents: numbers of documents in the corpus.
        tokens: ranges [start, stop) of positions in the corpus.
        windows: ranges [first, last) of window numbers, at the loader's own window size and stride; of record
            numbers for a loader of records.
    """

    documents: tuple[int, ...] = ()
    tokens: Ranges = ()
    windows: Ranges = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "documents", tuple(sorted(set(map(_whole, self.documents)))))
        for name in ("tokens", "windows"):
            object.__setattr__(self, name, _merged(getattr(self, name), name))
        if self.documents and self.documents[0] < 0:
            raise ValueError(f"document is {self.documents[0]}, expected 0 or more")

    def __bool__(self) -> bool:
        return bool(self.documents or self.tokens or self.windows)

    def windows_of(self, framing: Framing, documents: DocumentIndex | None, *, moving: bool) -> np.ndarray:
        """(S,) int64 numbers of the windows that are left out, sorted.

        Args:
            framing: how the corpus is framed.
            documents: its documents, needed for a list of some.
            moving: whether window starts are drawn.

        Raises:
            IndexError: a document, range or window outside the corpus.
        """
        ranges = [framing.touching(start, stop, moving=moving) for start, stop in self.stretches(documents)]
        for first, last in self.windows:
            if last > framing.count:
                raise IndexError(f"skipped windows are [{first}, {last}), the corpus has {framing.count}")
            ranges.append((first, last))
        return numbers_in(ranges)

    def stretches(self, documents: DocumentIndex | None) -> list[tuple[int, int]]:
        """The ranges [start, stop) of tokens that are left out: `tokens`, and those of `documents`.

        Raises:
            IndexError: a document outside the corpus.
        """
        if not self.documents:
            return list(self.tokens)
        assert documents is not None
        starts, stops = documents.bounds(self._checked_documents(documents))
        return [*self.tokens, *zip(starts.tolist(), stops.tolist(), strict=True)]

    def documents_of(self, documents: DocumentIndex) -> np.ndarray:
        """(S,) int64 numbers of the documents that are left out, sorted: those listed, and those in `tokens`.

        Raises:
            IndexError: a document outside the corpus.
            ValueError: the list has windows, which documents have not.
        """
        if self.windows:
            raise ValueError(
                "the skip list names windows, expected documents or tokens for a loader of documents"
            )
        listed = self._checked_documents(documents)
        edges = np.array(self.tokens, np.int64).reshape(-1, 2) - [0, 1]
        touched = documents.containing(edges.ravel()).reshape(-1, 2).tolist()
        return np.union1d(listed, numbers_in((first, last + 1) for first, last in touched))

    @classmethod
    def given(cls, skip: SkipList | None, token_count: int) -> SkipList:
        """What a caller leaves out of a corpus of `token_count` tokens; None is nothing.

        Raises:
            IndexError: a range outside the corpus.
            ValueError: it is no SkipList.
        """
        if skip is None:
            return cls()
        if not isinstance(skip, cls):
            raise ValueError(f"skip is {skip!r}, expected a SkipList, such as SkipList(documents=[1, 2])")
        return skip.check(token_count)

    def check(self, token_count: int) -> SkipList:
        """This list, for a corpus of `token_count` tokens.

        Raises:
            IndexError: a range outside the corpus.
        """
        if self.tokens and self.tokens[-1][1] > token_count:
            raise IndexError(f"skipped tokens are {list(self.tokens[-1])}, the corpus has {token_count}")
        return self

    def _checked_documents(self, documents: DocumentIndex) -> np.ndarray:
        numbers = np.array(self.documents, np.int64)
        if numbers.size and int(numbers[-1]) >= len(documents):
            raise IndexError(f"skipped document is {numbers[-1]}, the corpus has {len(documents)}")
        return numbers

    def to_dict(self) -> dict[str, Any]:
        """The list as JSON can hold it; empty for nothing."""
        return {
            name: [list(item) if isinstance(item, tuple) else item for item in getattr(self, name)]
            for name in ("documents", "tokens", "windows")
            if getattr(self, name)
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> SkipList:
        """The list that `to_dict` gave.

        Raises:
            StateMismatchError: it is no such list.
        """
        try:
            return cls(
                documents=tuple(stored.get("documents", ())),
                tokens=tuple((start, stop) for start, stop in stored.get("tokens", ())),
                windows=tuple((start, stop) for start, stop in stored.get("windows", ())),
            )
        except (TypeError, ValueError, AttributeError) as error:
            raise StateMismatchError(f"loader state: skip is {stored!r}: {error}") from error


def _whole(number: SupportsIndex) -> int:
    """A number of a list. Raises TypeError for a fraction, or a truth value, which an entry of a mask is."""
    if isinstance(number, bool | np.bool_):
        raise TypeError(f"{number!r} cannot be interpreted as an integer; expected numbers, not a mask")
    return operator.index(number)


def _merged(ranges: Iterable[tuple[int, int]], name: str) -> Ranges:
    """The same numbers in ranges that are sorted and do not touch."""
    merged: list[tuple[int, int]] = []
    for start, stop in sorted((_whole(start), _whole(stop)) for start, stop in ranges):
        if not 0 <= start < stop:
            raise ValueError(f"{name} to skip are [{start}, {stop}), expected 0 <= start < stop")
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
        else:
            merged.append((start, stop))
    return tuple(merged)
