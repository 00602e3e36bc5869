"""A bigram language model of counts, and the entropy that it has to beat."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

MAX_CELLS = 1 << 24
SLICE_TOKENS = 1 << 22
MAX_ENTROPY_SLICES = 64


class TokenRange(Protocol):
    """What `unigram_entropy` needs of a store."""

    def __len__(self) -> int:
        """Number of tokens."""

    def get_slice(self, start: int, stop: int) -> np.ndarray:
        """Tokens [start, stop)."""


class BigramModel:
    """p(target | previous token), learned online by counting.

    Witten-Bell smoothing: p(y|x) = (count(x, y) + kinds(x) * p(y)) / (count(x) + kinds(x)), where kinds(x)
    is the number of different targets seen after x and p(y) the add-one unigram. Sums to 1 over y
    (Witten and Bell 1991, method C).

    A table of one row per previous token has vocab_size**2 cells. Above MAX_CELLS (64 MiB of float32)
    previous tokens share rows modulo the number of rows that fit; the model is coarser, still a
    distribution, and its memory does not grow with the vocabulary.
    """

    def __init__(self, vocab_size: int) -> None:
        if vocab_size < 1:
            raise ValueError(f"vocab_size is {vocab_size}, expected at least 1")
        self.vocab_size = vocab_size
        self.rows = max(1, min(vocab_size, MAX_CELLS // vocab_size))
        self._pair_counts = np.zeros(self.rows * vocab_size, np.float32)
        self._row_counts = np.zeros(self.rows, np.float64)
        self._row_kinds = np.zeros(self.rows, np.float64)
        self._target_counts = np.zeros(vocab_size, np.float64)

    def loss(self, inputs: np.ndarray, targets: np.ndarray) -> float:
        """Mean -ln p(target | input) in nats over two equally long 1-d arrays of ids."""
        rows = inputs.astype(np.int64) % self.rows
        unigram = (self._target_counts[targets] + 1) / (self._target_counts.sum() + self.vocab_size)
        kinds = np.maximum(self._row_kinds[rows], 1)
        pairs = self._pair_counts[rows * self.vocab_size + targets]
        return float(-np.log((pairs + kinds * unigram) / (self._row_counts[rows] + kinds)).mean())

    def update(self, inputs: np.ndarray, targets: np.ndarray) -> None:
        """Count the pairs."""
        rows = inputs.astype(np.int64) % self.rows
        cells, counts = np.unique(rows * self.vocab_size + targets, return_counts=True)
        new = cells[self._pair_counts[cells] == 0]
        self._row_kinds += np.bincount(new // self.vocab_size, minlength=self.rows)
        self._pair_counts[cells] += counts
        self._row_counts += np.bincount(rows, minlength=self.rows)
        self._target_counts += np.bincount(targets, minlength=self.vocab_size)


def unigram_entropy(store: TokenRange, vocab_size: int, *, without: int | None = None) -> float:
    """Entropy in nats of the token frequencies: the loss of the best model that ignores the context.

    Args:
        store: the corpus; one above 64 slices of 4 Mi tokens is sampled in evenly spaced slices.
        vocab_size: number of ids.
        without: an id to leave out, the boundary where its targets are masked.
    """
    counts = np.zeros(vocab_size, np.float64)
    for start, stop in _slices(len(store)):
        counts += np.bincount(store.get_slice(start, stop), minlength=vocab_size)
    if without is not None:
        counts[without] = 0
    shares = counts[counts > 0] / max(counts.sum(), 1)
    return float(-(shares * np.log(shares)).sum())


def _slices(token_count: int) -> Iterator[tuple[int, int]]:
    """Slices of SLICE_TOKENS that cover the corpus, or MAX_ENTROPY_SLICES of them spread over it."""
    starts = range(0, token_count, SLICE_TOKENS)
    step = max(1, -(-len(starts) // MAX_ENTROPY_SLICES))
    for start in starts[::step]:
        yield start, min(start + SLICE_TOKENS, token_count)
