"""Uses that are unusual: served where they mean something, else refused in one sentence, before anything is read."""

import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from corpus_assets.errors import StateMismatchError
from corpus_assets.loading.datasets import DocumentDataset, RecordDataset
from corpus_assets.loading.document_loader import DocumentDataloader
from corpus_assets.loading.loader import SlidingWindowDataloader
from corpus_assets.loading.mixture import MixtureDataloader
from corpus_assets.loading.record_loader import RecordDataloader
from corpus_assets.loading.skipping import SkipList
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets_tests.loading.shaped import random_docs, write_shaped


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("corpus")
    write_shaped(root, random_docs([57, 0, 3, 141]))
    with MmapTokenStore(root) as opened:
        yield opened


def _windows(store, **options):
    return SlidingWindowDataloader(store, **{"window_size": 4, "batch_size": 3, "seed": 7, **options})


def _mixture(store, **options):
    loaders = {name: _windows(store, batch_size=1) for name in "ab"}
    return MixtureDataloader(loaders, {"a": 1, "b": 1}, **{"batch_size": 3, "seed": 0, **options})


KINDS = {
    "windows": _windows,
    "documents": lambda store, **o: DocumentDataloader(store, **{"batch_size": 3, "seed": 7, **o}),
    "records": lambda store, **o: RecordDataloader(store, 10, **{"batch_size": 3, "seed": 7, **o}),
    "mixture": _mixture,
}
ALL_KINDS = pytest.mark.parametrize("kind", KINDS)


@ALL_KINDS
def test_numbers_of_numpy_give_states_that_json_can_hold(store, kind):
    numbers = {"batch_size": np.int32(2), "rank": np.int64(1), "world_size": np.int64(2), "seed": np.uint8(7)}
    loader = KINDS[kind](store, **numbers)
    loader.seek(np.int64(3))
    assert json.loads(json.dumps(loader.state_dict()))["step"] == 3


@ALL_KINDS
@pytest.mark.parametrize("step", [2**62, 2**64, 2**80])
def test_a_step_that_no_run_comes_to_is_refused(store, kind, step):
    loader = KINDS[kind](store)
    with pytest.raises(
        ValueError, match=f"step is {step}, expected below {2**62 // 3} at a global batch of 3"
    ):
        loader.seek(step)
    with pytest.raises(ValueError, match="step is -1, expected 0 or more"):
        loader.seek(-1)
    with pytest.raises(TypeError, match="'float' object cannot be interpreted as an integer"):
        loader.seek(1.5)
    assert loader.step == 0
    loader.seek(2**59)
    assert len(next(loader)) > 0


@ALL_KINDS
@pytest.mark.parametrize("name", ["rank", "world_size", "prefetch", "batch_size"])
def test_a_fraction_is_no_number_of_anything(store, kind, name):
    with pytest.raises(TypeError, match="'float' object cannot be interpreted as an integer"):
        KINDS[kind](store, **{"world_size": 2, name: 1.5})


@ALL_KINDS
@pytest.mark.parametrize(("prefetch", "threads"), [(0, 0), (2, 0), (0, 2), (2, 2)])
def test_a_transform_that_stops_iteration_ends_no_run_in_silence(store, kind, prefetch, threads):
    def exhausted(_):
        return next(iter(()))

    options = {"prefetch": prefetch, "transform": exhausted, "transform_threads": threads}
    with KINDS[kind](store, **options) as loader, pytest.raises(RuntimeError, match="StopIteration"):
        next(loader)


@ALL_KINDS
def test_a_transform_may_return_nothing(store, kind):
    with KINDS[kind](store, transform=lambda _: None, prefetch=2) as loader:
        assert list(islice(loader, 3)) == [None, None, None]
        assert loader.step == 3


def test_a_state_says_what_is_wrong_with_it(store):
    loader = _windows(store)
    state = loader.state_dict()
    for name in state.keys() - {"version"}:
        with pytest.raises(StateMismatchError, match=f"loader state: {name} is missing"):
            loader.load_state_dict({key: value for key, value in state.items() if key != name})
    for wrong, message in [
        ({"version": 4, "later": {}}, "version is 4, expected 3"),
        ({"later": {}}, "later is not known"),
        ({"cursor": {}}, "cursor is {}, expected origin"),
        ({"step": -1}, "step is -1, expected a whole number from 0 to"),
        ({"step": 2**61}, "is in no run"),
    ]:
        with pytest.raises(StateMismatchError, match=message):
            loader.load_state_dict({**state, **wrong})
    with pytest.raises(StateMismatchError, match="expected below"):
        _mixture(store).load_state_dict({**_mixture(store).state_dict(), "step": 2**61})


@pytest.mark.parametrize("make", [DocumentDataset, lambda store: RecordDataset(store, 10)])
def test_one_item_may_be_asked_for_by_an_array_without_dimensions(store, make):
    dataset = make(store)
    assert dataset[np.array(2)].tolist() == dataset[2].tolist()
    assert len(dataset[:0]) == 0


def test_an_empty_corpus_has_no_first_item(tmp_path):
    write_shaped(tmp_path, random_docs([0]))
    with MmapTokenStore(tmp_path) as empty, pytest.raises(IndexError, match="item is 0, but there are none"):
        DocumentDataset(empty)[0]


def test_names_are_a_list(store):
    for name in ("fields", "target_fields", "spans"):
        with pytest.raises(ValueError, match=f"{name} is 'weight', expected a list of names"):
            _windows(store, **{name: "weight"})
    for make in (DocumentDataset, lambda store, **o: RecordDataset(store, 10, **o), _mixture):
        with pytest.raises(ValueError, match="fields is 'weight', expected a list of names"):
            make(store, fields="weight")


def test_a_mask_or_a_fraction_is_no_number_to_skip():
    masks = {"documents": np.array([True])}, {"documents": [False, True]}
    for wrong in ({"documents": [1.5]}, {"tokens": [(0.0, 2.5)]}, *masks):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            SkipList(**wrong)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "mixture"])
def test_a_list_is_no_skip_list_and_a_path_no_store(store, kind):
    with pytest.raises(ValueError, match=r"skip is \[1, 2\], expected a SkipList, such as"):
        KINDS[kind](store, skip=[1, 2])
    with pytest.raises(ValueError, match=r"store is 'corpus', expected a store: MmapTokenStore\('corpus'\)"):
        KINDS[kind]("corpus")
    with pytest.raises(ValueError, match="store is None, expected a store"):
        KINDS[kind](None)


def test_a_path_is_no_stream(store):
    with pytest.raises(ValueError, match=r"stream phones is .*Path\('p'\), expected a store"):
        _windows(store, streams={"phones": Path("p")}, fields=["phones"])


def _pair(*, dtype=np.int64):
    return np.empty((3, 4), dtype), np.empty((3, 4), dtype)


SHARED = np.empty((3, 8), np.int64)


@pytest.mark.parametrize(
    ("buffers", "message"),
    [
        ([(SHARED[:, :4], SHARED[:, 2:6])], "buffers share memory"),
        ([_pair()[:1]], "buffers are not pairs"),
        ([np.empty((3, 4), np.int64)], "buffers are not pairs"),
        ([([0], [0])], "a buffer is a list, expected a NumPy array"),
    ],
)
def test_buffers_that_would_spoil_a_batch_are_refused(store, buffers, message):
    with pytest.raises(ValueError, match=message):
        _windows(store, buffers=buffers)


def test_halves_of_one_array_are_buffers(store):
    inputs, targets = next(_windows(store, buffers=[(SHARED[:, :4], SHARED[:, 4:])]))
    assert inputs[:, 1:].tolist() == targets[:, :-1].tolist()


def test_out_must_be_an_array(store):
    with pytest.raises(ValueError, match="out is a list, expected a NumPy array"):
        store.gather([0], 4, out=[[0] * 4])
    with pytest.raises(TypeError, match="'float' object cannot be interpreted as an integer"):
        store.gather([0], 4.0)


def test_a_window_of_no_tokens_has_all_its_fields(store):
    names = ["weight", "document_ids", "position_ids", "cu_seqlens"]
    window = store.window(7, 7, fields=names, spans=["topic"])
    assert {name: values.tolist() for name, values in window.fields.items()} == {
        "weight": [],
        "document_ids": [],
        "position_ids": [],
        "cu_seqlens": [0],
    }
    assert (window.fields["weight"].dtype, window.spans["topic"].values) == (np.float32, [])
    with pytest.raises(KeyError, match="no field 'mask'"):
        store.window(7, 7, fields=["mask"])
