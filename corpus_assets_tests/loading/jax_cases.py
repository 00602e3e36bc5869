"""Batches of the loaders on real JAX devices, four of the CPU's; run by test_jax.py in a process of its own."""

from itertools import islice

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from corpus_assets.loading.document_loader import DocumentDataloader
from corpus_assets.loading.loader import SlidingWindowDataloader
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets_tests.loading.shaped import random_docs, write_shaped
from corpus_assets_tests.loading.test_docs import run_page

jax.config.update("jax_num_cpu_devices", 4)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("corpus")
    write_shaped(root, random_docs([57, 0, 3, 4141]))
    with MmapTokenStore(root) as opened:
        yield opened


def _windows(store, **options):
    options = {"window_size": 4, "batch_size": 8, "seed": 7, "order": "cyclic", "dtype": np.int32, **options}
    return SlidingWindowDataloader(store, **options)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_arrays_on_a_device_stay_what_they_were(store, prefetch):
    # On the CPU a device array may share the batch's memory: no later batch may be written into it.
    expected = [inputs.copy() for inputs, _ in islice(_windows(store, window_size=1024), 12)]
    with _windows(store, window_size=1024, prefetch=prefetch) as loader:
        placed = [jax.device_put(batch)[0] for batch in islice(loader, 12)]
        for found, values in zip(placed, expected, strict=True):
            assert found.dtype == np.int32
            assert np.array_equal(found, values)


def test_batches_with_fields_are_trees_of_arrays(store):
    batch = next(_windows(store, fields=["weight", "document_ids", "cu_seqlens"]))
    placed = jax.device_put(batch)
    assert type(placed) is type(batch)
    assert set(placed.fields) == set(batch.fields)
    for name, values in batch.fields.items():
        assert np.array_equal(placed.fields[name], values)
    ragged = next(DocumentDataloader(store, 5, seed=0, dtype=np.int32))
    values, offsets = jax.device_put((ragged.values, ragged.cu_seqlens))
    assert np.array_equal(values, ragged.values)
    assert offsets.shape == (6,)


def test_a_global_batch_lies_over_all_devices(store):
    devices = np.array(jax.devices())
    assert len(devices) == 4
    sharding = NamedSharding(Mesh(devices, "data"), PartitionSpec("data"))
    loader = _windows(store, rank=jax.process_index(), world_size=jax.process_count())
    total = jax.jit(lambda ids: ids.sum())
    for inputs, _ in islice(loader, 3):
        spread = jax.make_array_from_process_local_data(sharding, inputs)
        assert spread.shape == (8, 4)
        for shard in spread.addressable_shards:
            assert np.array_equal(shard.data, inputs[shard.index])
        assert int(total(spread)) == inputs.sum()


def test_the_example_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "jax" in run_page(with_packages={"jax"})
