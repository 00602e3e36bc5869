import json
import pickle
from collections import Counter
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus_assets.errors import IndexMismatchError, StateMismatchError
from corpus_assets.loading.document_loader import DocumentDataloader
from corpus_assets.loading.loader import SlidingWindowDataloader
from corpus_assets.loading.mixing import BLOCK, MixturePlan
from corpus_assets.loading.mixture import MixtureDataloader
from corpus_assets.loading.ragged import RaggedBatch
from corpus_assets.loading.record_loader import RecordDataloader
from corpus_assets.loading.skipping import SkipList
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets_tests.loading.corpora import random_shards, write_corpus_of
from corpus_assets_tests.loading.shaped import random_docs, write_shaped

WEIGHTS = {"web": 5, "code": 3, "books": 2}
SIZES = {"web": [400, 101], "code": [201], "books": [81, 20]}


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    root = tmp_path_factory.mktemp("mixture")
    opened = {}
    for seed, (name, sizes) in enumerate(SIZES.items()):
        write_shaped(root / name, random_docs(sizes, seed=seed))
        opened[name] = MmapTokenStore(root / name)
    yield opened
    for store in opened.values():
        store.close()


MIXED = ("batch_size", "rank", "world_size", "worker", "num_workers", "prefetch", "seed")


def _loader(stores, *, columns=(), skip=None, weights=WEIGHTS, **options):
    """A mixture of windows; `columns` are fields of its loaders, what is not an option of the mixture theirs too."""
    mixed = {name: options.pop(name) for name in MIXED if name in options}
    fields = options.pop("fields", ())
    loaders = {
        name: SlidingWindowDataloader(
            store,
            4,
            1,
            **{
                "seed": mixed.get("seed", 7),
                "order": "cyclic",
                "fields": columns,
                "skip": (skip or {}).get(name),
                **options,
            },
        )
        for name, store in stores.items()
    }
    return MixtureDataloader(loaders, weights, **{"batch_size": 6, "seed": 7, "fields": fields, **mixed})


def _take(loader, count):
    return [(inputs.tolist(), targets.tolist()) for inputs, targets in islice(loader, count)]


def test_every_block_has_the_weights_exactly():
    plan = MixturePlan([5, 3, 2], seed=1)
    corpora, numbers = plan.locate(np.arange(3 * BLOCK))
    for block in range(3):
        counts = np.bincount(corpora[block * BLOCK : (block + 1) * BLOCK])
        assert counts.tolist() == plan.quotas.tolist() == [32768, 19661, 13107]
    for corpus in range(3):
        own = numbers[corpora == corpus]
        assert np.array_equal(own, np.arange(len(own)))  # each corpus in its own order, nothing left out
    assert plan.drawn(100_000).tolist() == np.bincount(corpora[:100_000], minlength=3).tolist()
    assert plan.drawn(0).tolist() == [0, 0, 0]


@settings(max_examples=20, deadline=None)
@given(
    weights=st.lists(st.floats(0.01, 100), min_size=1, max_size=6),
    seed=st.integers(0, 2**64 - 1),
    samples=st.lists(st.integers(0, 2**45), min_size=1, max_size=3),
)
def test_any_sample_can_be_asked_for_alone(weights, seed, samples):
    plan = MixturePlan(weights, seed=seed)
    corpora, numbers = plan.locate(np.array(samples, np.int64))
    for sample, corpus, number in zip(samples, corpora.tolist(), numbers.tolist(), strict=True):
        assert plan.drawn(sample)[corpus] == number
        assert plan.drawn(sample + 1)[corpus] == number + 1
    assert abs(plan.quotas / BLOCK - np.array(weights) / sum(weights)).max() <= 1 / BLOCK


def test_rows_are_the_windows_of_each_corpus_in_its_own_order(stores):
    found = {name: [] for name in WEIGHTS}
    loader = _loader(stores, fields=["corpus"], columns=["weight", "document_ids"])
    for inputs, targets, fields in islice(loader, 100):
        for row in range(6):
            name = list(WEIGHTS)[fields["corpus"][row]]
            found[name].append(
                (
                    inputs[row].tolist(),
                    targets[row].tolist(),
                    fields["weight"][row].tolist(),
                    fields["document_ids"][row].tolist(),
                )
            )
    for name, store in stores.items():
        own = SlidingWindowDataloader(store, 4, 1, seed=7, order="cyclic", fields=["weight", "document_ids"])
        expected = [
            (inputs[0].tolist(), targets[0].tolist(), f["weight"][0].tolist(), f["document_ids"][0].tolist())
            for inputs, targets, f in islice(own, len(found[name]))
        ]
        assert found[name] == expected
    counts = {name: len(rows) for name, rows in found.items()}
    assert loader.shares == {name: count / 600 for name, count in counts.items()}
    assert abs(loader.shares["web"] - 0.5) < 0.08
    windows = {"web": 125, "code": 50, "books": 25}
    assert loader.epochs == {name: counts[name] / windows[name] for name in counts}
    assert loader.epochs["books"] > 3


def _windows(store, size, **options):
    return SlidingWindowDataloader(store, 5, size, seed=7, **options)


def _documents(store, size, **options):
    return DocumentDataloader(store, size, seed=7, **options)


def _records(store, size, **options):
    return RecordDataloader(store, 10, size, seed=7, **options)


SKIP = SkipList(documents=[0, 1])
SHAPES = {
    "windows": (_windows, {"order": "random"}),
    "columns": (
        _windows,
        {
            "fields": ["loss_mask", "document_ids", "position_ids", "cu_seqlens"],
            "target_fields": ["weight"],
            "spans": ["topic"],
        },
    ),
    "padded": (_windows, {"partial": "pad", "fields": ["cu_seqlens"], "order": "replacement"}),
    "split": (_windows, {"cross_documents": "split", "fields": ["weight", "cu_seqlens"], "skip": SKIP}),
    "documents": (_documents, {"skip": SKIP}),
    "documents with fields": (_documents, {"fields": ["weight", "position_ids"]}),
    "records": (_records, {"order": "replacement"}),
    "records with fields": (_records, {"fields": ["weight", "document_ids"], "skip": SKIP}),
}


def _row_of(batch, row):
    """One sample of a batch as lists; `corpus` left out."""
    if isinstance(batch, RaggedBatch):
        inside = slice(*batch.cu_seqlens[row : row + 2].tolist())
        columns = {name: values[inside].tolist() for name, values in batch.fields.items()}
        columns.pop("corpus", None)
        return batch[row].tolist(), int(batch.documents[row]), columns
    if isinstance(batch, np.ndarray):
        return batch[row].tolist(), {}
    *arrays, fields = batch if isinstance(batch[-1], dict) else (*batch, {})
    width = arrays[0].shape[1]
    columns = {}
    for name, values in fields.items():
        if name == "cu_seqlens":
            inside = (values >= row * width) & (values < (row + 1) * width)
            columns[name] = (values[inside] - row * width).tolist()
        elif name != "corpus":
            columns[name] = values[row].tolist() if isinstance(values, np.ndarray) else values[row]
    return *(array[row].tolist() for array in arrays), columns


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_mixed_with_all_that_it_gives_alone(stores, shape):
    make, options = SHAPES[shape]
    loaders = {name: make(store, 1, **options) for name, store in stores.items()}
    mixture = MixtureDataloader(loaders, WEIGHTS, 6, seed=3, fields=["corpus"])
    without = MixtureDataloader(loaders, WEIGHTS, 6, seed=3)
    found = {name: [] for name in WEIGHTS}
    for batch, bare in zip(islice(mixture, 60), without, strict=False):
        columns = batch.fields if hasattr(batch, "fields") else batch[-1]
        corpora = columns["corpus"]
        if isinstance(batch, RaggedBatch):
            assert len(corpora) == len(batch.values)
            corpora = corpora[batch.cu_seqlens[:-1]]
        elif "cu_seqlens" in columns:
            assert columns["cu_seqlens"][-1] == 6 * 5
        assert len(corpora) == 6
        for row, corpus in enumerate(corpora.tolist()):
            found[list(WEIGHTS)[corpus]].append(_row_of(batch, row))
            assert _row_of(bare, row) == _row_of(batch, row)
        assert type(bare) is type(next(make(stores["web"], 1, **options)))
    for name, store in stores.items():
        alone = [_row_of(batch, 0) for batch in islice(make(store, 1, **options), len(found[name]))]
        assert found[name] == alone
        assert mixture.shares[name] == len(alone) / 360
        assert mixture.epochs[name] == len(alone) / loaders[name].sample_order.kept_count


def test_streams_are_mixed_and_their_corpora_are_part_of_the_state(stores, tmp_path):
    def mixture(twin):
        loaders = {
            "web": _windows(stores["web"], 1, streams={"twin": stores["web"]}, target_fields=["twin"]),
            "code": _windows(stores["code"], 1, streams={"twin": twin}, target_fields=["twin"]),
        }
        return MixtureDataloader(loaders, {"web": 1, "code": 1}, 4, seed=0)

    run = mixture(stores["code"])
    for batch in islice(run, 10):
        assert np.array_equal(batch.fields["twin"], batch.target_ids)
    mixture(stores["code"]).load_state_dict(json.loads(json.dumps(run.state_dict())))
    write_shaped(tmp_path, random_docs(SIZES["code"], seed=9))
    with MmapTokenStore(tmp_path) as other, pytest.raises(StateMismatchError, match="as twin of code"):
        mixture(other).load_state_dict(run.state_dict())


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (lambda s: _windows(s, 2), "loader b has global_batch=2, expected 1 in a mixture"),
        (lambda s: _windows(s, 1, prefetch=1), "loader b has prefetch=1, expected 0"),
        (lambda s: _windows(s, 1, rank=1, world_size=2), "loader b has rank=1, expected 0"),
        (
            lambda s: _windows(s, 1, fields=["weight"]),
            r"loader b has fields {'weight': '.*'}, loader a has {}",
        ),
        (lambda s: _windows(s, 1, dtype=np.int32), "loader b has dtype int32, loader a has int64"),
        (lambda s: _documents(s, 1), "loader b has batches of documents, loader a has windows"),
        (lambda s: SlidingWindowDataloader(s, 6, 1, seed=0), "loader b has window_size 6, loader a has 5"),
        (lambda s: DocumentDataloader(s, max_tokens=9, seed=0), "loader b has max_tokens"),
        (lambda s: s, "b is a MmapTokenStore, expected a loader of windows, documents or records"),
    ],
)
def test_loaders_that_do_not_fit_together_are_refused(stores, second, message):
    loaders = {"a": _windows(stores["web"], 1), "b": second(stores["code"])}
    with pytest.raises(ValueError, match=message):
        MixtureDataloader(loaders, {"a": 1, "b": 1}, 4, seed=0)


def test_a_state_that_is_refused_leaves_a_mixture_where_it_was(stores):
    state = _loader(stores).state_dict()
    expected = _take(_loader(stores), 12)
    with _loader(stores, prefetch=2) as loader:
        assert _take(loader, 3) == expected[:3]
        damaged = {**state, "cursor": {**state["cursor"], "origin of web": 5, "origin of books": -(2**61)}}
        with pytest.raises(StateMismatchError, match="is in no run"):
            loader.load_state_dict(damaged)
        assert _take(loader, 9) == expected[3:]


@pytest.mark.parametrize("order", ["random", "sequential", "cyclic", "replacement"])
@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("consumed", [0, 1, 17])
def test_a_resumed_run_is_the_run_that_never_stopped(stores, order, prefetch, consumed):
    expected = _take(_loader(stores, order=order), consumed + 12)
    with _loader(stores, order=order, prefetch=prefetch) as first:
        _take(first, consumed)
        state = json.loads(json.dumps(first.state_dict()))
    with _loader(stores, order=order, prefetch=prefetch) as second:
        second.load_state_dict(state)
        assert _take(second, 4) == expected[consumed : consumed + 4]
        with pickle.loads(pickle.dumps(second)) as third:
            assert _take(third, 8) == expected[consumed + 4 :]
        assert sum(second.shares.values()) == pytest.approx(1)


def test_ranks_and_workers_part_the_mixture(stores):
    expected = _take(_loader(stores), 12)
    ranks = []
    for rank in range(2):
        workers = [
            _loader(stores, batch_size=3, rank=rank, world_size=2, worker=worker, num_workers=3)
            for worker in range(3)
        ]
        ranks.append([_take(workers[i % 3], 1)[0] for i in range(12)])
    for step, (inputs, targets) in enumerate(expected):
        assert ranks[0][step][0] + ranks[1][step][0] == inputs
        assert ranks[0][step][1] + ranks[1][step][1] == targets


def test_seeds_give_other_mixtures(stores):
    runs = [
        [tuple(f["corpus"].tolist()) for _, _, f in islice(_loader(stores, seed=seed, fields=["corpus"]), 20)]
        for seed in (1, 2)
    ]
    assert runs[0] != runs[1]


def test_skipped_documents_of_one_corpus_never_come(stores):
    skip = {"books": SkipList(documents=[0, 1])}
    run, changed = _loader(stores), _loader(stores, skip=skip)
    stop = stores["books"].documents.bounds(np.array([1]))[1][0]
    bad = set(stores["books"].get_slice(0, stop).tolist()) - {0}
    _take(run, 10)
    with pytest.raises(StateMismatchError, match="skip is"):
        changed.load_state_dict(run.state_dict())
    changed.load_state_dict(run.state_dict(), allow_other_skip=True)
    rows = [row for inputs, _ in _take(changed, 60) for row in inputs]
    assert not any(set(row) & bad for row in rows)
    again = _loader(stores, skip=skip)
    again.load_state_dict(json.loads(json.dumps(changed.state_dict())))
    assert _take(again, 10) == _take(changed, 10)
    # The other corpora go on as if nothing had happened.
    web = set(stores["web"].get_slice(0, 501).tolist())
    plain = _loader(stores)
    _take(plain, 10)
    of_web = [
        [row for inputs, _ in _take(loader, 1) for row in inputs if set(row) <= web] for loader in (plain,)
    ]
    assert Counter(map(tuple, of_web[0])) <= Counter(map(tuple, rows))


def test_a_corpus_that_grew_is_accepted_where_it_is_proven(stores, tmp_path):
    write_shaped(tmp_path, [*random_docs(SIZES["code"], seed=1), *random_docs([50], seed=9)])
    with MmapTokenStore(tmp_path) as grown:
        changed = {**stores, "code": grown}
        options = {"order": "sequential"}
        run = _loader(stores, **options)
        expected = _take(_loader(stores, **options), 12)
        _take(run, 8)
        with pytest.raises(
            StateMismatchError, match=f"{grown.fingerprint} as code: s00001 is only in this corpus"
        ):
            _loader(changed, **options).load_state_dict(run.state_dict())
        loader = _loader(changed, **options)
        loader.load_state_dict(run.state_dict(), allow_other_corpus=True)
        assert _take(loader, 4) == expected[8:]
        _take(run, 60)
        with pytest.raises(StateMismatchError, match="not proven"):
            loader.load_state_dict(run.state_dict(), allow_other_corpus=True)


def test_corpora_of_different_tokenizers_are_refused(stores, tmp_path):
    write_corpus_of(tmp_path, random_shards([100], max_token_id=50_000), max_token_id=50_000)
    with (
        MmapTokenStore(tmp_path) as other,
        pytest.raises(IndexMismatchError, match="corpus code has tokenizer"),
    ):
        _loader({"web": stores["web"], "code": other}, weights={"web": 1, "code": 1})


@pytest.mark.parametrize(
    ("weights", "options", "message"),
    [
        ({"web": 1}, {}, r"weights are of \['web'\], expected one for each of"),
        ({**WEIGHTS, "web": 0}, {}, "expected one or more numbers above 0"),
        ({**WEIGHTS, "web": float("nan")}, {}, "expected one or more numbers above 0"),
        ({**WEIGHTS, "web": 1e-9}, {}, "expected none below 1/65536 of their sum"),
        (WEIGHTS, {"batch_size": 0}, "batch_size is 0"),
        (WEIGHTS, {"fields": ["weight"]}, "fields have weight, expected corpus alone"),
        (WEIGHTS, {"tail": "drop"}, "loader web has tail='drop', expected 'wrap' in a mixture"),
    ],
)
def test_options_that_do_not_fit_are_refused(stores, weights, options, message):
    with pytest.raises(ValueError, match=message):
        _loader(stores, weights=weights, **options)


def test_a_state_of_other_weights_is_refused(stores):
    state = _loader(stores).state_dict()
    other = _loader(stores, weights={**WEIGHTS, "web": 6})
    with pytest.raises(StateMismatchError, match=r"weights is .*5\.0.* in the state, .*6\.0.* in this"):
        other.load_state_dict(state)
    with pytest.raises(StateMismatchError, match="cursor is"):
        _loader(stores).load_state_dict({**state, "cursor": {}})
    with pytest.raises(
        StateMismatchError, match="order of web is 'cyclic' in the state, 'random' in this loader"
    ):
        _loader(stores, order="random").load_state_dict(state)
    with pytest.raises(ValueError, match="a mixture has no epochs of its own"):
        next(other.rest_of_epoch())
