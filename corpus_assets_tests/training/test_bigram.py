"""The bigram model is a distribution, learns, and its bar is the entropy of the token frequencies."""

import numpy as np
import pytest

from corpus_assets.training import bigram
from corpus_assets.training.bigram import BigramModel, unigram_entropy


class Tokens:
    """A corpus in memory."""

    def __init__(self, *ids):
        self._ids = np.array(ids, np.uint16)

    def __len__(self):
        return len(self._ids)

    def get_slice(self, start, stop):
        return self._ids[start:stop].copy()


def probabilities(model, previous):
    targets = np.arange(model.vocab_size)
    return [np.exp(-model.loss(np.array([previous]), targets[i : i + 1])) for i in targets]


def test_an_untrained_model_is_uniform():
    assert BigramModel(5).loss(np.array([0, 3]), np.array([1, 4])) == pytest.approx(np.log(5))


def test_probabilities_are_witten_bell():
    model = BigramModel(3)
    model.update(np.array([0, 0, 0, 1]), np.array([1, 1, 2, 0]))
    # After 0: three targets of two kinds. Unigram, add one over 4 targets and 3 ids: 2/7, 3/7, 2/7.
    expected = [(0 + 2 * 2 / 7) / 5, (2 + 2 * 3 / 7) / 5, (1 + 2 * 2 / 7) / 5]
    assert probabilities(model, 0) == pytest.approx(expected)


@pytest.mark.parametrize("max_cells", [1 << 24, 20, 1])
def test_probabilities_sum_to_one_when_rows_are_shared(monkeypatch, max_cells):
    monkeypatch.setattr(bigram, "MAX_CELLS", max_cells)
    model = BigramModel(7)
    rng = np.random.default_rng(0)
    for _ in range(3):
        model.update(rng.integers(0, 7, 50), rng.integers(0, 7, 50))
    for previous in range(7):
        assert sum(probabilities(model, previous)) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("vocab_size", "rows"),
    [
        (257, 257),
        (4096, 4096),  # 2^24 cells: the last size with a row for each token
        (4097, 4095),
        (32_000, 524),
        (200_000, 83),
        (1 << 25, 1),
    ],
)
def test_memory_does_not_grow_with_the_vocabulary(vocab_size, rows):
    assert BigramModel(vocab_size).rows == rows


def test_a_deterministic_sequence_is_learned():
    model = BigramModel(10)
    inputs = np.arange(1000) % 10
    model.update(inputs, (inputs + 1) % 10)
    assert model.loss(inputs, (inputs + 1) % 10) < 0.05


def test_unigram_entropy_by_hand():
    assert unigram_entropy(Tokens(1, 1, 2, 2), 3) == pytest.approx(np.log(2))
    assert unigram_entropy(Tokens(0, 1, 1, 0, 2, 2), 3, without=0) == pytest.approx(np.log(2))
    assert unigram_entropy(Tokens(5, 5, 5), 6) == 0


def test_unigram_entropy_of_a_large_corpus_is_sampled_over_all_of_it(monkeypatch):
    monkeypatch.setattr(bigram, "SLICE_TOKENS", 2)
    monkeypatch.setattr(bigram, "MAX_ENTROPY_SLICES", 3)
    # Slices 0 1, 2 3, …, 8 9 stepped by two: the first, third and fifth are counted.
    tokens = Tokens(0, 0, 3, 3, 1, 1, 3, 3, 0, 1)
    assert unigram_entropy(tokens, 4) == pytest.approx(np.log(2))


def test_a_large_vocabulary_is_learned_below_its_unigram_entropy():
    vocab_size, rng = 50_000, np.random.default_rng(3)
    ids = np.minimum(rng.zipf(1.3, 120_000), vocab_size) - 1
    ids[1::2] = (ids[::2] * 31 + 7) % vocab_size  # every second token follows from the one before
    model, losses = BigramModel(vocab_size), []
    for batch in np.split(ids, 60):
        losses.append(model.loss(batch[:-1], batch[1:]))
        model.update(batch[:-1], batch[1:])
    assert sum(losses[-6:]) / 6 < unigram_entropy(Tokens(*ids), vocab_size)
