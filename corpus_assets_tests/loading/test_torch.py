"""Loaders inside torch's DataLoader and torchdata's StatefulDataLoader, with real workers."""

import json
import warnings
from itertools import islice

import numpy as np
import pytest

pytest.importorskip("torchdata.stateful_dataloader", reason="needs the torch extra, and torchdata")

import torch
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from corpus_assets.loading.document_loader import DocumentDataloader
from corpus_assets.loading.loader import SlidingWindowDataloader
from corpus_assets.loading.mixture import MixtureDataloader
from corpus_assets.loading.skipping import SkipList
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets.loading.torch import (
    BatchIterableDataset,
    DeviceBatches,
    RaggedTensors,
    WindowMapDataset,
    as_tensors,
    has_accelerator,
)
from corpus_assets_tests.loading.shaped import random_docs, write_shaped

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*multi-threaded.*fork:DeprecationWarning",  # Python 3.12, of any fork beside a thread
    "ignore:.*pin_memory.*no accelerator:UserWarning",
    "ignore:'set_vital' is deprecated:UserWarning",  # torchdata 0.11 calls it in torch 2.13
    "ignore:This DataLoader will create:UserWarning",  # torch, of more workers than cores
)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("corpus")
    write_shaped(root, random_docs([57, 0, 3, 141]))  # 201 tokens: 50 windows of 4
    with MmapTokenStore(root) as opened:
        yield opened


def _windows(store, **options):
    return SlidingWindowDataloader(store, **{"window_size": 4, "batch_size": 3, "seed": 7, **options})


def _documents(store, **options):
    return DocumentDataloader(store, **{"max_tokens": 40, "seed": 7, **options})


def _mixture(store, **options):
    loaders = {
        name: SlidingWindowDataloader(store, 4, 1, seed=seed, order="cyclic")
        for seed, name in enumerate("ab")
    }
    return MixtureDataloader(loaders, {"a": 1, "b": 2}, 3, seed=7, **options)


LOADERS = {"windows": _windows, "documents": _documents, "mixture": _mixture}


def _plain(batch):
    """A batch as lists, so that batches can be compared."""
    if isinstance(batch, dict):
        return {name: _plain(part) for name, part in batch.items()}
    return [_plain(part) for part in batch] if isinstance(batch, tuple | list) else batch.tolist()


def _alone(loader, count):
    return [_plain(as_tensors(batch)) for batch in islice(loader, count)]


def _through(dataset, workers, **options):
    return DataLoader(dataset, batch_size=None, num_workers=workers, **options)


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_batches_of_forked_workers_are_the_loaders_alone(store, kind, workers):
    expected = _alone(LOADERS[kind](store), 11)
    dataset = BatchIterableDataset(LOADERS[kind](store), until="forever")
    options = {"multiprocessing_context": "fork"} if workers else {}
    assert [_plain(batch) for batch in islice(_through(dataset, workers, **options), 11)] == expected


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_batches_of_other_workers_are_the_loaders_alone(store, method):
    expected = _alone(_windows(store, fields=["weight", "document_ids"]), 7)
    loader = _windows(store, fields=["weight", "document_ids"], prefetch=2)
    dataset = BatchIterableDataset(loader, until="forever")
    through = _through(dataset, 2, multiprocessing_context=method)
    assert [_plain(batch) for batch in islice(through, 7)] == expected


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("tail", ["wrap", "drop", "pad"])
def test_epochs_with_workers_that_live_on_or_not(store, persistent, tail):
    loader = _windows(store, tail=tail)
    expected = [_alone(loader.rest_of_epoch(), 100) for _ in range(3)]
    dataset = BatchIterableDataset(_windows(store, tail=tail))
    through = _through(dataset, 3, multiprocessing_context="fork", persistent_workers=persistent)
    for epoch, batches in enumerate(expected):
        dataset.set_epoch(epoch)
        assert [_plain(batch) for batch in through] == batches
    dataset.set_epoch(1)
    assert [_plain(batch) for batch in through] == expected[1]
    del through


def test_an_iteration_that_was_broken_off_begins_again(store):
    expected = _alone(_windows(store).rest_of_epoch(), 100)
    dataset = BatchIterableDataset(_windows(store))
    through = _through(dataset, 2, multiprocessing_context="fork", persistent_workers=True)
    assert [_plain(batch) for batch in islice(through, 4)] == expected[:4]
    assert [_plain(batch) for batch in through] == expected
    dataset.seek(5)
    assert [_plain(batch) for batch in through] == expected[5:]


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("consumed", [0, 5])
def test_a_stateful_data_loader_resumes_in_the_middle(store, kind, workers, consumed):
    options = {"batch_size": None, "num_workers": workers}
    if workers:
        options["multiprocessing_context"] = "fork"
    expected = _alone(LOADERS[kind](store), consumed + 9)
    first = StatefulDataLoader(BatchIterableDataset(LOADERS[kind](store), until="forever"), **options)
    batches = iter(first)
    assert [_plain(next(batches)) for _ in range(consumed)] == expected[:consumed]
    state = first.state_dict()
    del batches, first
    second = StatefulDataLoader(BatchIterableDataset(LOADERS[kind](store), until="forever"), **options)
    second.load_state_dict(state)
    assert [_plain(batch) for batch in islice(second, 9)] == expected[consumed:]


@pytest.mark.parametrize("workers", [0, 3])
def test_a_stateful_data_loader_ends_the_epoch_that_it_resumed_in(store, workers):
    options = {"batch_size": None, "num_workers": workers}
    if workers:
        options["multiprocessing_context"] = "fork"
    expected = _alone(_windows(store, tail="pad").rest_of_epoch(), 100)
    for consumed in (1, len(expected) - 1):
        first = StatefulDataLoader(BatchIterableDataset(_windows(store, tail="pad")), **options)
        batches = iter(first)
        for _ in range(consumed):
            next(batches)
        state = first.state_dict()
        del batches, first
        second = StatefulDataLoader(BatchIterableDataset(_windows(store, tail="pad")), **options)
        second.load_state_dict(state)
        assert [_plain(batch) for batch in second] == expected[consumed:]


@pytest.mark.parametrize("workers", [0, 2])
def test_windows_by_number_under_a_sampler_of_torchs(store, workers):
    dataset = WindowMapDataset(_windows(store, order="cyclic", fields=["weight"]))
    assert len(dataset) == 50
    loader = _windows(store, order="sequential", batch_size=50, fields=["weight"])
    inputs, targets, fields = next(loader)
    window = dataset[7]
    assert window.input_ids.tolist() == inputs[7].tolist()
    assert window.fields["weight"].tolist() == fields["weight"][7].tolist()
    options = {"multiprocessing_context": "fork"} if workers else {}
    order = torch.Generator().manual_seed(1)
    through = DataLoader(dataset, batch_size=8, shuffle=True, num_workers=workers, generator=order, **options)
    seen = [row for batch in through for row in batch.target_ids.tolist()]
    assert sorted(seen) == sorted(targets.tolist())
    assert seen != targets.tolist()
    with pytest.raises(IndexError, match="items are 50 to 50"):
        dataset[50]


def test_windows_by_number_pass_over_what_is_skipped(store):
    skip = SkipList(windows=[(1, 4), (6, 7)])
    dataset = WindowMapDataset(_windows(store, skip=skip))
    whole = WindowMapDataset(_windows(store))
    assert len(dataset) == 46
    assert [dataset[i][0].tolist() for i in range(4)] == [whole[i][0].tolist() for i in (0, 4, 5, 7)]


def test_tensors_share_the_memory_of_the_batch(store):
    batch = next(_windows(store, fields=["weight", "cu_seqlens"], spans=["topic"]))
    tensors = as_tensors(batch)
    assert type(tensors) is type(batch)
    tensors.input_ids[0, 0] = 12_345
    assert batch.input_ids[0, 0] == 12_345
    assert tensors.fields["topic"] is batch.fields["topic"]
    ragged = as_tensors(next(_documents(store, fields=["weight"])))
    assert isinstance(ragged, RaggedTensors)
    assert ragged.cu_seqlens.dtype == torch.int32
    assert len(ragged.values) == ragged.cu_seqlens[-1] == len(ragged.fields["weight"])


def test_batches_on_a_device_resume_as_the_loader_does(store):
    expected = _alone(_windows(store), 9)
    batches = DeviceBatches(_windows(store, prefetch=2), device="cpu", pin_memory=True)
    first = [next(batches) for _ in range(4)]
    assert all(isinstance(part, torch.Tensor) for batch in first for part in batch)
    assert all(part.is_pinned() == has_accelerator() for batch in first for part in batch)
    assert [_plain(batch) for batch in first] == expected[:4]
    again = DeviceBatches(_windows(store))
    again.load_state_dict(json.loads(json.dumps(batches.state_dict())))
    assert [_plain(batch) for batch in islice(again, 5)] == expected[4:]
    meta = next(DeviceBatches(_windows(store, fields=["weight"]), device="meta"))
    assert meta.input_ids.device.type == meta.fields["weight"].device.type == "meta"
    assert next(DeviceBatches(_documents(store), device="meta")).values.device.type == "meta"


def test_pinning_by_the_data_loader_does_no_harm(store):
    expected = _alone(_windows(store), 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch: no accelerator is found
        through = _through(BatchIterableDataset(_windows(store), until="forever"), 0, pin_memory=True)
        assert [_plain(batch) for batch in islice(through, 5)] == expected


def test_what_does_not_fit_is_refused(store):
    with pytest.raises(ValueError, match="until is 'end', expected epoch or forever"):
        BatchIterableDataset(_windows(store), until="end")
    with pytest.raises(ValueError, match="step is -1"):
        BatchIterableDataset(_windows(store)).seek(-1)
    with pytest.raises(ValueError, match="a mixture has no epochs of its own"):
        next(iter(BatchIterableDataset(_mixture(store))))
    with pytest.raises(ValueError, match="worker is 2, expected 0 to 1"):
        _windows(store).as_worker(2, 2)


def test_ids_beyond_int64_types_are_tensors_too(store):
    for dtype in (np.int32, np.uint16):
        assert (
            next(BatchIterableDataset(_windows(store, dtype=dtype)).__iter__())[0].tolist()
            == (_alone(_windows(store), 1)[0][0])
        )
