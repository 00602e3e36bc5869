from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus_assets.errors import CorpusError
from corpus_assets.loading.framing import WindowGrid
from corpus_assets.loading.order import WindowOrder


def _order(*, token_count=41, window_size=4, stride=4, order="sequential", seed=0, **options):
    grid = WindowGrid(token_count, window_size=window_size, stride=stride)
    return WindowOrder(grid, order=order, seed=seed, **options)


def test_sequential_is_by_position_and_begins_again():
    order = _order(token_count=14, global_batch=2)  # windows at 0, 4, 8
    assert order.window_count == 3
    assert order.starts([0, 1, 2], rank=0, batch_size=2).tolist() == [[0, 4], [8, 0], [4, 8]]


@pytest.mark.parametrize(
    ("tail", "steps_per_epoch", "expected"),
    [
        ("wrap", 2, [[0, 4], [8, 0], [4, 8], [0, 4]]),
        ("drop", 1, [[0, 4], [0, 4], [0, 4], [0, 4]]),
        ("pad", 2, [[0, 4], [8, 0], [0, 4], [8, 0]]),
    ],
)
def test_tail_decides_what_follows_the_last_whole_batch(tail, steps_per_epoch, expected):
    order = _order(token_count=14, global_batch=2, tail=tail)
    assert order.steps_per_epoch == steps_per_epoch
    assert order.starts(range(4), rank=0, batch_size=2).tolist() == expected


def test_pad_repeats_the_epoch_as_often_as_a_batch_needs():
    order = _order(token_count=14, global_batch=8, tail="pad")
    assert order.starts([0], rank=0, batch_size=8).tolist() == [[0, 4, 8, 0, 4, 8, 0, 4]]


def test_cyclic_epochs_are_permutations_that_differ():
    order = _order(token_count=4 * 100 + 1, order="cyclic", global_batch=10)
    epochs = order.starts(range(30), rank=0, batch_size=10).reshape(3, 100)
    for starts in epochs:
        assert sorted(starts.tolist()) == list(range(0, 400, 4))
    assert len({tuple(starts) for starts in epochs.tolist()}) == 3
    assert tuple(epochs[0]) != tuple(sorted(epochs[0]))


def test_epoch_option_skips_epochs():
    first = _order(token_count=401, order="random", global_batch=10)
    later = _order(token_count=401, order="random", global_batch=10, epoch=2)
    assert np.array_equal(
        first.starts(range(20, 50), rank=0, batch_size=10), later.starts(range(30), rank=0, batch_size=10)
    )


@settings(deadline=None)
@given(
    token_count=st.integers(5, 400),
    stride=st.integers(1, 9),
    seed=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 2**40),
)
def test_random_draws_one_start_of_each_cell(token_count, stride, seed, epoch):
    order = _order(token_count=token_count, stride=stride, order="random", seed=seed, epoch=epoch)
    starts = order.starts(range(order.window_count), rank=0, batch_size=1).ravel()
    assert sorted((starts // stride).tolist()) == list(range(order.window_count))
    assert starts.min() >= 0
    assert starts.max() + 4 + 1 <= token_count


def test_random_starts_are_uniform_inside_their_cells():
    order = _order(token_count=4 * 20_000 + 4, order="random", global_batch=20_000)
    starts = order.starts([0], rank=0, batch_size=20_000)[0]
    _, counts = np.unique(starts % 4, return_counts=True)
    assert counts.min() > 4_600
    assert counts.max() < 5_400


def test_every_position_that_can_start_a_window_does_sometimes():
    order = _order(token_count=14, order="random", global_batch=3)
    starts = order.starts(range(400), rank=0, batch_size=3)
    assert set(starts.ravel().tolist()) == set(
        range(10)
    )  # 10 + 4 is the last target, token 13 ... token 9 + 4


def test_replacement_draws_each_window_for_itself():
    order = _order(token_count=4 * 100 + 4, order="replacement", global_batch=10)  # 100 cells of 4 starts
    starts = order.starts(range(4_000), rank=0, batch_size=10).ravel()
    counts = np.bincount(starts, minlength=400)
    assert len(counts) == 400
    assert counts.min() > 55  # 100 is expected, 10 its standard deviation
    assert counts.max() < 150
    # Neither an epoch nor a batch knows what came before: 100 draws miss 1/e of the cells.
    missed = [100 - len(set(epoch // 4)) for epoch in starts.reshape(-1, 100)]
    assert 34 < np.mean(missed) < 40
    # A cell that comes again begins at any of its starts again.
    again = [(a, b) for a, b in pairwise(sorted(starts[:100])) if a // 4 == b // 4]
    assert len({b - a for a, b in again}) > 2
    assert abs(np.corrcoef(starts[:-1], starts[1:])[0, 1]) < 0.03


def test_replacement_leaves_out_what_is_skipped():
    order = _order(token_count=41, order="replacement", skipped=np.array([0, 3, 9]))
    cells = order.starts(range(500), rank=0, batch_size=1).ravel() // 4
    assert set(cells.tolist()) == {1, 2, 4, 5, 6, 7, 8}


@pytest.mark.parametrize("order", ["sequential", "cyclic", "random", "replacement"])
@pytest.mark.parametrize("tail", ["wrap", "drop", "pad"])
def test_ranks_part_the_global_batch(order, tail):
    whole = _order(token_count=60, order=order, tail=tail, global_batch=6)
    expected = whole.starts(range(9), rank=0, batch_size=6)
    parts = [whole.starts(range(9), rank=rank, batch_size=2) for rank in range(3)]
    assert np.array_equal(np.concatenate(parts, axis=1), expected)


@pytest.mark.parametrize("order", ["cyclic", "random", "replacement"])
def test_a_batch_needs_no_more_at_two_to_the_40_windows(order):
    huge = _order(token_count=2**50, window_size=1024, stride=1024, order=order, global_batch=4096)
    assert huge.window_count == 2**40 - 1
    starts = huge.starts([2**35], rank=0, batch_size=4096)
    assert len(np.unique(starts)) == 4096
    assert starts.max() > 2**49
    assert starts.max() + 1025 <= 2**50


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"token_count": 4}, "has 4 tokens, a window of 4 and its last target need 5"),
        ({"token_count": 0}, "has 0 tokens"),
        (
            {"global_batch": 11, "tail": "drop"},
            "an epoch has 10 windows, tail='drop' needs a global batch of 11",
        ),
        (
            {"order": "shuffled"},
            "order is 'shuffled', expected one of random, sequential, cyclic, replacement",
        ),
        ({"tail": "keep"}, "tail is 'keep'"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**64}, "seed is 18446744073709551616"),
        ({"epoch": -1}, "epoch is -1"),
        ({"stride": 0}, "stride is 0"),
        ({"window_size": 0}, "window_size is 0"),
    ],
)
def test_what_cannot_be_ordered_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        _order(**changes)


def test_a_short_corpus_is_an_error_of_the_corpus_too():
    with pytest.raises(CorpusError, match="has 4 tokens"):
        _order(token_count=4)
