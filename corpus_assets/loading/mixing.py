"""MixturePlan: which corpus each sample of a mixture comes from; a function of (weights, seed), nothing stored.

Samples are taken in blocks of 65,536. Of each block every corpus gets the same number, its weight rounded to a whole
one, in an order that is a permutation keyed by (seed, block). So a realised share is never further from its weight
than the rounding and the block that is under way.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from corpus_assets.loading.permutation import permute

BLOCK = 2**16
_OWN_SEED = 0xA0761D6478BD642F  # keeps the mixture's permutations apart from those of its corpora
_KEPT_BLOCKS = 4


class MixturePlan:
    """Deals the samples of an endless run to corpora.

    Args:
        weights: one for each corpus, above 0; only their ratios count.
        seed: 0 to 2^64 - 1.

    Raises:
        ValueError: weights that are none, or a corpus that would get not one sample of a block.
    """

    def __init__(self, weights: Sequence[float], *, seed: int) -> None:
        shares = np.array(weights, np.float64)
        if not len(shares) or not np.isfinite(shares).all() or (shares <= 0).any():
            raise ValueError(f"weights are {list(weights)}, expected one or more numbers above 0")
        self.quotas = _quotas(shares / shares.sum())
        if (self.quotas == 0).any():
            raise ValueError(f"weights are {list(weights)}, expected none below 1/{BLOCK} of their sum")
        self._firsts = np.concatenate([[0], np.cumsum(self.quotas)])
        self._seed = seed ^ _OWN_SEED
        self._blocks: OrderedDict[int, tuple[np.ndarray, np.ndarray]] = OrderedDict()

    def locate(self, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The corpus of each sample, and which of that corpus's own samples it is; (N,) int64 both."""
        blocks, places = np.divmod(samples, BLOCK)
        corpora, numbers = np.empty_like(samples), np.empty_like(samples)
        for block in np.unique(blocks).tolist():
            inside = blocks == block
            corpus_of, number_of = self._block(block)
            corpora[inside] = corpus_of[places[inside]]
            numbers[inside] = number_of[places[inside]] + block * self.quotas[corpora[inside]]
        return corpora, numbers

    def drawn(self, sample_count: int) -> np.ndarray:
        """(C,) int64: how many of the first `sample_count` samples come from each corpus."""
        blocks, rest = divmod(sample_count, BLOCK)
        under_way = self._block(blocks)[0][:rest] if rest else np.empty(0, np.int64)
        return blocks * self.quotas + np.bincount(under_way, minlength=len(self.quotas))

    def _block(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Corpus of each place of a block, and how many of that corpus come before it in the block."""
        block = self._blocks.get(number)
        if block is None:
            dealt = permute(np.arange(BLOCK), BLOCK, seed=self._seed, epochs=number)
            corpora = np.searchsorted(self._firsts, dealt, side="right") - 1
            by_corpus = np.argsort(corpora, kind="stable")
            numbers = np.empty(BLOCK, np.int64)
            numbers[by_corpus] = np.arange(BLOCK) - np.repeat(self._firsts[:-1], self.quotas)
            block = self._blocks[number] = corpora, numbers
            if len(self._blocks) > _KEPT_BLOCKS:
                self._blocks.popitem(last=False)
        return block


def _quotas(shares: np.ndarray) -> np.ndarray:
    """Whole numbers that sum to BLOCK, by the method of largest remainders."""
    exact = shares * BLOCK
    quotas = np.floor(exact).astype(np.int64)
    missing = BLOCK - int(quotas.sum())
    largest = np.argsort(-(exact - quotas), kind="stable")[:missing]
    quotas[largest] += 1
    return quotas
