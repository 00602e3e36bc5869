"""How a token shard lies in its HDF5 file: names, creation properties, where the bytes end up.

Two kinds of file have this layout. A shard *grows* with SWMR on, its datasets interleaved chunk by chunk.
It is then *sealed*: written once more with every size known, so that HDF5 can allocate the chunks of each
uncompressed dataset early and in one contiguous run, which a reader maps without asking HDF5.
"""

from __future__ import annotations

import math
from pathlib import Path

import h5py
import numpy as np

TOKENS = "tokens"
DOCUMENT_ENDS = "document_ends"
DOCUMENT_ROWS = "document_rows"
TOKEN_CRC32 = "token_crc32"
INDEX_CHUNK = 8 * 1024
PAGE = 64 * 1024

# HDF5 1.10 brought SWMR; pinning its format keeps shards readable, and byte-identical, across releases.
_LIBVER = ("v110", "v110")
_ZSTD_FILTER = 32015


def create_growing(path: Path) -> h5py.File:
    """A new file that SWMR readers can follow once `swmr_mode` is on."""
    return h5py.File(path, "x", libver=_LIBVER)


def create_sealed(path: Path, datasets: dict[str, tuple[np.dtype, int]], chunk_count: int) -> h5py.File:
    """A new file whose raw data is aligned so that chunks of every dataset can follow each other.

    Args:
        path: the file; it must not exist.
        datasets: dtype and chunk length of each dataset to come.
        chunk_count: chunks of all datasets together; their index must fit one block of metadata, or
            it would stand between the chunks.
    """
    interval = math.gcd(PAGE, *(dtype.itemsize * chunk for dtype, chunk in datasets.values()))
    metadata = max(PAGE, 1 << (32 * chunk_count).bit_length())
    return h5py.File(
        path,
        "x",
        libver=_LIBVER,
        meta_block_size=metadata,
        alignment_threshold=4096,
        alignment_interval=interval,
    )


def create_dataset(
    file: h5py.File, name: str, dtype: np.dtype, *, length: int, chunk: int, compression: str = "none"
) -> h5py.Dataset:
    """A resizable dataset; uncompressed and of known length, its chunks are allocated at once, in one run."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk((chunk,))
    properties.set_obj_track_times(False)
    if compression == "none":
        properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER if length else h5py.h5d.FILL_TIME_IFSET)
        properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY if length else h5py.h5d.ALLOC_TIME_INCR)
    else:
        _add_filter(properties, compression)
    links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
    links.set_create_intermediate_group(True)
    space = h5py.h5s.create_simple((length,), (h5py.h5s.UNLIMITED,))
    kind = h5py.h5t.py_create(dtype.newbyteorder("<"), logical=True)
    return h5py.Dataset(h5py.h5d.create(file.id, name.encode(), kind, space, dcpl=properties, lcpl=links))


def _add_filter(properties: h5py.h5p.PropDCID, compression: str) -> None:
    properties.set_shuffle()
    if compression == "gzip":
        properties.set_deflate(4)
    elif compression == "lzf":
        properties.set_filter(h5py.h5z.FILTER_LZF, h5py.h5z.FLAG_OPTIONAL)
    elif compression == "zstd":
        import hdf5plugin  # noqa: F401  (registers the filter)

        properties.set_filter(_ZSTD_FILTER, h5py.h5z.FLAG_MANDATORY, (3,))
    else:
        raise ValueError(f"compression is {compression!r}, expected none, gzip, lzf or zstd")


def run_offset(dataset: h5py.Dataset) -> int | None:
    """Byte offset of a dataset whose chunks lie in one run in their order; None for any other."""
    if dataset.id.get_create_plist().get_nfilters() or not dataset.shape[0]:
        return None
    chunks: list[tuple[int, int]] = []
    dataset.id.chunk_iter(lambda chunk: chunks.append((chunk.chunk_offset[0], chunk.byte_offset)))
    placed = np.array(sorted(chunks), dtype=np.int64)
    expected = placed[0, 1] + placed[:, 0] * dataset.dtype.itemsize
    whole = len(placed) == -(-dataset.shape[0] // dataset.chunks[0])
    return int(placed[0, 1]) if whole and (placed[:, 1] == expected).all() else None


def write_padded(dataset: h5py.Dataset, start: int, block: np.ndarray) -> None:
    """Write `block` at `start`, a chunk boundary, filling the last chunk with zeros.

    HDF5 would leave whatever its chunk cache held behind the last element, and the same content would
    not give the same bytes.
    """
    chunk = dataset.chunks[0]
    whole = len(block) // chunk * chunk
    if whole:
        dataset[start : start + whole] = block[:whole]
    if whole == len(block):
        return
    if dataset.id.get_create_plist().get_nfilters():
        dataset[start + whole : start + len(block)] = block[whole:]
        return
    last = np.zeros(chunk, dtype=dataset.dtype)
    last[: len(block) - whole] = block[whole:]
    dataset.id.write_direct_chunk((start + whole,), last.tobytes())
