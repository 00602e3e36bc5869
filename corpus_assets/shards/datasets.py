"""The datasets that a shard file really holds, as opposed to those that it points to."""

from __future__ import annotations

from typing import Any

import h5py


def own_datasets(file: h5py.File) -> dict[str, h5py.Dataset]:
    """The datasets of `file` by name, without what a link leads to.

    HDF5 follows links to other files, and a dataset may lie in files of any kind (external storage) or be put
    together from other HDF5 files (virtual). None of them has chunks, which every dataset of a shard has.

    Raises:
        ValueError: a dataset that is not a row of chunks in this file.
    """
    found: dict[str, h5py.Dataset] = {}

    def visit(name: str, item: Any) -> None:
        if not isinstance(item, h5py.Dataset):
            return
        if item.chunks is None or len(item.chunks) != 1:
            raise ValueError(f"dataset {name} is not a row of chunks in this file")
        found[name] = item

    file.visititems(visit)  # goes along hard links, each object once
    return found
