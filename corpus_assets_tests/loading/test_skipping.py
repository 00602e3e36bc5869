import json
from itertools import islice
from random import Random

import numpy as np
import pytest

from corpus_assets.errors import StateMismatchError
from corpus_assets.loading.loader import SlidingWindowDataloader
from corpus_assets.loading.skipping import SkipList
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets_tests.loading.corpora import write_corpus_of

ORDERS = pytest.mark.parametrize("order", ["random", "sequential", "cyclic"])
# Token i has the id i + 1; 40 documents of 5 tokens, the fifth the boundary.
SHARDS = [[[10 * d + 1, 10 * d + 2, 10 * d + 3, 10 * d + 4] for d in range(40)]]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("corpus")
    write_corpus_of(root, SHARDS)
    with MmapTokenStore(root) as opened:
        yield opened


def _loader(store, **options):
    return SlidingWindowDataloader(store, **{"window_size": 5, "batch_size": 3, "seed": 7, **options})


def _windows(loader, steps):
    return [tuple(row) for inputs, _ in islice(loader, steps) for row in inputs.tolist()]


def test_what_is_skipped_by_hand(store):
    # Windows of 5 at 0, 5, …, each with the first token of the next document as last target: 39 of them.
    skip = SkipList(documents=[1, 10], tokens=[(100, 103)], windows=[(30, 32)])
    loader = _loader(store, order="sequential", batch_size=1, skip=skip)
    assert loader.window_count == 39 - 2 - 2 - 2 - 2
    skipped = {0, 1, 9, 10, 19, 20, 30, 31}
    firsts = [window[0] // 10 for window in _windows(loader, 31)]
    assert firsts == [d for d in range(39) if d not in skipped]


@ORDERS
@pytest.mark.parametrize("tail", ["wrap", "drop", "pad"])
def test_what_is_skipped_never_comes_and_the_rest_keeps_its_order(store, order, tail):
    skip = SkipList(documents=[3, 4, 20], tokens=[(150, 160)])
    forbidden = {10 * d + i for d in (3, 4, 20, 30, 31) for i in range(1, 5)}
    plain = _windows(_loader(store, order=order, batch_size=1), 39)
    loader = _loader(store, order=order, batch_size=1, tail=tail, skip=skip)
    kept = _windows(loader, loader.window_count)
    assert not any(set(window) & forbidden for window in kept)
    assert kept == [window for window in plain if window in set(kept)]
    assert len(kept) == loader.steps_per_epoch == len(set(kept))
    if order != "random":
        assert kept == [w for w in plain if not set(w) & forbidden and not _next(w) & forbidden]


def _next(window):
    """The last target of a window: the first token of the next document."""
    return {window[0] + 10}


@ORDERS
def test_ranks_and_epochs_part_what_is_left(store, order):
    skip = SkipList(documents=[3, 4, 20])
    count = _loader(store, order=order, skip=skip).window_count
    for epoch in (0, 5):
        whole = _windows(_loader(store, order=order, batch_size=count, epoch=epoch, skip=skip), 2)
        ranks = [
            _loader(store, order=order, epoch=epoch, skip=skip, batch_size=1, rank=rank, world_size=2)
            for rank in range(2)
        ]
        parts = [_windows(loader, count) for loader in ranks]
        assert [window for pair in zip(*parts, strict=True) for window in pair] == whole
        assert len(set(whole[:count])) == count
        if order != "random":
            assert set(whole[:count]) == set(whole[count:])


@ORDERS
@pytest.mark.parametrize("consumed", [0, 5, 13, 20])
def test_a_skip_list_that_grows_in_the_middle_of_a_run_leaves_out_just_that(store, order, consumed):
    before = SkipList(documents=[3])
    after = SkipList(documents=[3, 8, 9, 30])
    run = _loader(store, order=order, skip=before)
    seen = _windows(run, consumed)
    state = json.loads(json.dumps(run.state_dict()))
    would_come = _windows(run, 40)
    changed = _loader(store, order=order, skip=after)
    with pytest.raises(StateMismatchError, match=r"skip is .*\[3\].* in the state, .*\[3, 8, 9, 30\]"):
        changed.load_state_dict(state)
    changed.load_state_dict(state, allow_other_skip=True)
    assert changed.step == consumed
    come = _windows(changed, 30)
    if order == "random":  # what is left out there is whole cells, more than one can see from outside
        forbidden = set(would_come) - set(come)
        assert come[:60] == [w for w in would_come if w not in forbidden][:60]
    else:
        bad = {10 * d + i for d in (8, 9, 30) for i in range(1, 5)}
        assert come[:60] == [w for w in would_come if not (set(w) | _next(w)) & bad][:60]
    # A second resume is told by the state alone.
    again = _loader(store, order=order, skip=after)
    again.load_state_dict(changed.state_dict())
    assert _windows(again, 20) == _windows(changed, 20)
    assert len(seen) == 3 * consumed


def test_a_step_before_the_change_cannot_be_sought(store):
    run = _loader(store, order="sequential")
    run.seek(3)
    state = run.state_dict()
    changed = _loader(store, order="sequential", skip=SkipList(documents=[0, 1, 2]))
    changed.load_state_dict(state, allow_other_skip=True)
    with pytest.raises(ValueError, match="step is 0, which was before the skip list was changed"):
        changed.seek(0)


def test_with_fixed_epochs_the_list_changes_between_them(store):
    run = _loader(store, tail="drop")
    changed = _loader(store, tail="drop", skip=SkipList(documents=[8]))
    run.seek(5)
    with pytest.raises(StateMismatchError, match="can change where an epoch ends, not at step 5"):
        changed.load_state_dict(run.state_dict(), allow_other_skip=True)


def test_split_windows_of_skipped_documents_are_left_out(store):
    loader = _loader(
        store, order="sequential", batch_size=1, cross_documents="split", skip=SkipList(documents=[0, 2])
    )
    assert [window[0] // 10 for window in _windows(loader, 4)] == [1, 3, 4, 5]
    assert loader.window_count == 38


@pytest.mark.parametrize(
    ("skip", "message"),
    [
        ({"documents": [40]}, "skipped document is 40, the corpus has 40"),
        ({"tokens": [(0, 201)]}, r"skipped tokens are \[0, 201\], the corpus has 200"),
        ({"windows": [(0, 40)]}, r"skipped windows are \[0, 40\), the corpus has 39"),
        ({"tokens": [(0, 200)]}, "all 39 windows are skipped"),
        ({"documents": [-1]}, "document is -1"),
        ({"tokens": [(5, 5)]}, r"tokens to skip are \[5, 5\)"),
    ],
)
def test_a_list_that_does_not_fit_is_refused(store, skip, message):
    with pytest.raises((IndexError, ValueError), match=message):
        _loader(store, skip=SkipList(**skip))


def test_lists_are_equal_when_they_leave_out_the_same():
    one = SkipList(documents=[5, 1, 5], tokens=[(7, 9), (0, 3), (2, 5)])
    other = SkipList(documents=np.array([1, 5]), tokens=[(0, 5), (7, 9)])
    assert one == other == SkipList.from_dict(json.loads(json.dumps(one.to_dict())))
    assert not SkipList()
    with pytest.raises(StateMismatchError, match="skip is"):
        SkipList.from_dict({"tokens": [1]})


def test_no_damaged_state_is_accepted_or_fails_otherwise(store):
    """States with one value replaced, at random: refused, or as good as another."""
    random = Random(0)
    odd = [None, -1, 1.5, "x", [], {}, 10**30, True, {"tokens": [1]}, {"origin": -(10**30)}, {"origin": -5}]
    odd += [{"tokens": {"windows": [[0, 10**25]]}}, {"tokens": {"documents": "abc"}}, {"origin": 10**18}]

    def damaged(value):
        if isinstance(value, dict) and value and random.random() < 0.8:
            key = random.choice(list(value))
            return {**value, key: damaged(value[key])}
        return random.choice(odd)

    loader = _loader(store, skip=SkipList(documents=[2]))
    whole = loader.state_dict()
    refused = 0
    for _ in range(2000):
        loader.load_state_dict(whole)
        try:
            loader.load_state_dict(damaged(whole), allow_other_corpus=True, allow_other_skip=True)
        except StateMismatchError:
            refused += 1
        next(loader)
    assert refused > 1500
