"""Which states of another corpus a loader accepts on request, and what it says of those it refuses."""

from itertools import islice

import pytest

from corpus_assets.errors import StateMismatchError
from corpus_assets.loading.loader import SlidingWindowDataloader
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets_tests.loading.corpora import random_shards, write_corpus_of

BASE = random_shards([60, 40, 100])  # 200 tokens: 39 windows of 5
OTHER = random_shards([100], seed=8)
ALLOWED = {"allow_other_corpus": True}


def _open(root, shards):
    write_corpus_of(root, shards)
    return MmapTokenStore(root)


@pytest.fixture
def corpora(tmp_path):
    """name -> store: the base, one that grew, one whose last shard was replaced, one whose first was."""
    cut = {
        "base": BASE,
        "grown": [*BASE, *random_shards([30], seed=9)],
        "replaced": [*BASE[:2], *OTHER],
        "reordered": [BASE[1], BASE[0], BASE[2]],
        "shorter": BASE[:2],
    }
    stores = {name: _open(tmp_path / name, shards) for name, shards in cut.items()}
    yield stores
    for store in stores.values():
        store.close()


def _loader(store, **options):
    return SlidingWindowDataloader(store, **{"window_size": 5, "batch_size": 3, "seed": 7, **options})


def _take(loader, count):
    return [(inputs.tolist(), targets.tolist()) for inputs, targets in islice(loader, count)]


def _state(store, steps, **options):
    loader = _loader(store, **options)
    loader.seek(steps)
    return loader.state_dict()


def test_a_refusal_names_both_fingerprints_and_the_shards_that_differ(corpora):
    state = _state(corpora["base"], 4)
    for name, said in [
        ("grown", "s00003 is only in this corpus"),
        ("replaced", "s00002 has other content"),
        ("shorter", "s00002 is only in the state"),
        ("reordered", "s00000 has other content; s00001 has other content"),
    ]:
        store = corpora[name]
        with pytest.raises(StateMismatchError) as refused:
            _loader(store).load_state_dict(state)
        assert all(
            part in str(refused.value) for part in (store.fingerprint, corpora["base"].fingerprint, said)
        )


def test_a_sequential_run_goes_on_over_a_corpus_that_grew(corpora):
    options = {"order": "sequential"}
    grown = _loader(corpora["grown"], **options)
    grown.load_state_dict(_state(corpora["base"], 13, **options), **ALLOWED)  # 39 windows: all there were
    whole = _loader(corpora["grown"], **options)
    assert _take(whole, 16)[13:] == _take(grown, 3)
    assert grown.state_dict()["corpora"]["tokens"]["fingerprint"] == corpora["grown"].fingerprint
    with pytest.raises(
        StateMismatchError, match="windows of its 14 steps are not proven to be the same: s00003"
    ):
        _loader(corpora["grown"], **options).load_state_dict(
            _state(corpora["base"], 14, **options), **ALLOWED
        )


@pytest.mark.parametrize("split", ["join", "split"])
def test_a_sequential_run_goes_on_while_it_has_read_shared_shards_only(corpora, split):
    options = {"order": "sequential", "cross_documents": split, "batch_size": 1}
    state = _state(corpora["base"], 17, **options)
    _loader(corpora["replaced"], **options).load_state_dict(state, **ALLOWED)
    _loader(corpora["shorter"], **options).load_state_dict(state, **ALLOWED)
    for name in ("replaced", "shorter"):
        with pytest.raises(StateMismatchError, match="not proven"):
            _loader(corpora[name], **options).load_state_dict(
                _state(corpora["base"], 45, **options), **ALLOWED
            )


@pytest.mark.parametrize("order", ["cyclic", "random"])
def test_a_shuffled_run_goes_on_while_no_window_touched_a_replaced_shard(corpora, order):
    options = {"order": order, "batch_size": 1}
    run, changed = _loader(corpora["base"], **options), _loader(corpora["replaced"], **options)
    same = [old == new for old, new in zip(_take(run, 39), _take(changed, 39), strict=True)]
    consumed = same.index(False)
    assert 0 < consumed < 39
    _loader(corpora["replaced"], **options).load_state_dict(
        _state(corpora["base"], consumed, **options), **ALLOWED
    )
    with pytest.raises(StateMismatchError, match="s00002 has other content"):
        _loader(corpora["replaced"], **options).load_state_dict(
            _state(corpora["base"], consumed + 1, **options), **ALLOWED
        )
    with pytest.raises(StateMismatchError, match="not proven"):  # another number of windows, another order
        _loader(corpora["grown"], **options).load_state_dict(_state(corpora["base"], 1, **options), **ALLOWED)


@pytest.mark.parametrize("name", ["grown", "replaced", "reordered", "shorter"])
@pytest.mark.parametrize("order", ["cyclic", "random", "sequential"])
def test_at_step_0_every_corpus_will_do_when_asked_for(corpora, order, name):
    loader = _loader(corpora[name], order=order)
    loader.load_state_dict(_state(corpora["base"], 0, order=order), **ALLOWED)
    assert _take(loader, 2) == _take(_loader(corpora[name], order=order), 2)


def test_moved_shards_are_no_proof(corpora):
    state = _state(corpora["base"], 1, order="sequential")
    with pytest.raises(StateMismatchError, match="not proven"):
        _loader(corpora["reordered"], order="sequential").load_state_dict(state, **ALLOWED)


def test_a_damaged_list_of_shards_is_refused(corpora):
    state = _state(corpora["base"], 1)
    for shards in ("", "AAAA", "eJw="):
        damaged = {**state, "corpora": {"tokens": {"fingerprint": "other", "shards": shards}}}
        with pytest.raises(StateMismatchError, match="list of shards is damaged"):
            _loader(corpora["base"]).load_state_dict(damaged)
    for record in (None, {"fingerprint": "x"}, {"fingerprint": 1, "shards": 2}):
        with pytest.raises(StateMismatchError, match="loader state: "):
            _loader(corpora["base"]).load_state_dict({**state, "corpora": {"tokens": record}})
