"""How a token shard lies in its HDF5 file: names, creation properties, where the bytes end up.

A reader maps the tokens of an uncompressed shard without asking HDF5, so its chunks must follow each other
in one run. HDF5 places them so when nothing else is allocated between them: the metadata that indexes the
chunks gets one block at the start that is large enough for all of it, and every other dataset is written
after the last token.
"""

from __future__ import annotations

import math
from array import array
from pathlib import Path

import h5py
import numpy as np

from corpus_assets.shards.dictionary import ATTRIBUTE, CODEC, FILTER
from corpus_assets.shards.dictionary_chunks import has_dictionary_codec, read_values, write_chunks

TOKENS = "tokens"
DOCUMENT_ENDS = "document_ends"
DOCUMENT_ROWS = "document_rows"
TOKEN_CRC32 = "token_crc32"
FIELDS = "fields"
SPANS = "spans"
SPAN_PARTS: dict[str, np.dtype] = {
    "starts": np.dtype(np.int64),
    "stops": np.dtype(np.int64),
    "value_ends": np.dtype(np.int64),
    "values": np.dtype(np.uint8),
}
INDEX_CHUNK = 8 * 1024
PAGE = 64 * 1024
_SMALLEST_ALIGNMENT = 1024

# HDF5 1.10 brought SWMR; pinning its format keeps shards readable, and byte-identical, across releases.
_LIBVER = ("v110", "v110")
_ZSTD_FILTER = 32015


def create_file(
    path: Path, chunk_bytes: list[int], *, chunk_count: int, compression: str = "none"
) -> h5py.File:
    """A new file in which the chunks of a dataset that grows alone lie in one aligned run.

    Args:
        path: the file; it must not exist.
        chunk_bytes: chunk sizes of its datasets; what divides them all is the alignment, up to 64 KiB.
        chunk_count: chunks to expect. HDF5 uses about 8 bytes of metadata for each; more than fits the
            block at the start would stand between the chunks.
        compression: of the tokens; compressed chunks are packed, since nothing maps them.
    """
    alignment = math.gcd(PAGE, *chunk_bytes)
    if alignment < _SMALLEST_ALIGNMENT or compression != "none":
        # So small a threshold would move metadata too, and compressed chunks are no multiple of anything;
        # aligned values are all that is needed.
        alignment = min(alignment, 8)
    return h5py.File(
        path,
        "x",
        libver=_LIBVER,
        meta_block_size=max(PAGE, 1 << (16 * chunk_count).bit_length()),
        alignment_threshold=min(4096, alignment),
        alignment_interval=alignment,
    )


def reopen_file(path: Path) -> h5py.File:
    """The file once more, without SWMR, to add its attributes; a follower's lock does not stop it.

    HDF5 wants the same choice about locking from everyone in this process who has the file open.
    """
    try:
        return h5py.File(path, "r+", libver=_LIBVER, locking=False)
    except OSError:
        return h5py.File(path, "r+", libver=_LIBVER)


def open_file(path: Path) -> h5py.File:
    """A sealed shard for reading, whatever its compression."""
    import hdf5plugin  # noqa: F401  (registers the filters)

    return h5py.File(path, "r")


def create_dataset(
    file: h5py.File,
    name: str,
    dtype: np.dtype,
    *,
    chunk: int,
    compression: str = "none",
    dictionary: bytes = b"",
) -> h5py.Dataset:
    """An empty dataset without a bound to its length.

    Args:
        file: where it is made.
        name: of the dataset.
        dtype: of its values; they are stored little-endian.
        chunk: values of a chunk.
        compression: of the chunks.
        dictionary: what its frames are made with, where `compression` is `zstd-dict`.
    """
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk((chunk,))
    properties.set_obj_track_times(False)
    if compression != "none":
        _add_filter(properties, compression)
    links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
    links.set_create_intermediate_group(True)
    space = h5py.h5s.create_simple((0,), (h5py.h5s.UNLIMITED,))
    kind = h5py.h5t.py_create(dtype.newbyteorder("<"), logical=True)
    dataset = h5py.Dataset(h5py.h5d.create(file.id, name.encode(), kind, space, dcpl=properties, lcpl=links))
    if dictionary:
        dataset.attrs[ATTRIBUTE] = np.frombuffer(dictionary, np.uint8)
    return dataset


def _add_filter(properties: h5py.h5p.PropDCID, compression: str) -> None:
    if compression == "blosc2":
        import hdf5plugin

        # It shuffles by itself, block by block, and so gains nothing from HDF5's shuffle before it.
        blosc2 = hdf5plugin.Blosc2(cname="zstd", clevel=5, filters=hdf5plugin.Blosc2.SHUFFLE)
        properties.set_filter(blosc2.filter_id, h5py.h5z.FLAG_MANDATORY, blosc2.filter_options)
        return
    properties.set_shuffle()
    if compression == "gzip":
        properties.set_deflate(4)
    elif compression == "lzf":
        properties.set_filter(h5py.h5z.FILTER_LZF, h5py.h5z.FLAG_OPTIONAL)
    elif compression == "zstd":
        import hdf5plugin

        properties.set_filter(_ZSTD_FILTER, h5py.h5z.FLAG_MANDATORY, (3,))
    elif compression == CODEC:
        # HDF5 makes no dataset with a mandatory filter that it does not know.
        properties.set_filter(FILTER, h5py.h5z.FLAG_OPTIONAL)
    else:
        raise ValueError(f"compression is {compression!r}, expected none, gzip, lzf, zstd, {CODEC} or blosc2")


def is_aligned(name: str) -> bool:
    """Whether a dataset has one value per token, and so the chunks and the codec of the tokens."""
    return name == TOKENS or name.startswith(f"{FIELDS}/")


def is_filtered(dataset: h5py.Dataset) -> bool:
    """Whether chunks are stored in another form than that of their values."""
    return dataset.id.get_create_plist().get_nfilters() > 0


def data_stretch(dataset: h5py.Dataset, run: int | None) -> tuple[int, int]:
    """First byte and number of bytes of the stretch of the file that holds the chunks of `dataset`.

    Of a dataset in one run, whose `run_offset` is `run`, only what its elements fill.
    """
    if not dataset.shape[0]:
        return 0, 0
    if run is not None:
        return run, dataset.shape[0] * dataset.dtype.itemsize
    placed = chunk_places(dataset)
    start = int(placed[:, 1].min())
    return start, int((placed[:, 1] + placed[:, 2]).max()) - start


def run_offset(dataset: h5py.Dataset) -> int | None:
    """Byte offset of a dataset whose chunks lie in one run in their order; None for any other."""
    if is_filtered(dataset) or not dataset.shape[0]:
        return None
    placed = chunk_places(dataset)
    if len(placed) != -(-dataset.shape[0] // dataset.chunks[0]):
        return None
    expected = placed[0, 1] + placed[:, 0] * dataset.dtype.itemsize
    return int(placed[0, 1]) if (placed[:, 1] == expected).all() else None


def run_between_ends(dataset: h5py.Dataset, chunk_count: int) -> int | None:
    """As `run_offset`, but by the number of its chunks and the places of the first and the last alone."""
    if is_filtered(dataset) or not dataset.shape[0]:
        return None
    (chunk,) = dataset.chunks
    last = (dataset.shape[0] - 1) // chunk
    start, end = (dataset.id.get_chunk_info_by_coord((k * chunk,)).byte_offset for k in (0, last))
    if start is None or end is None or chunk_count != last + 1:
        return None
    return int(start) if end - start == last * chunk * dataset.dtype.itemsize else None


def chunk_places(dataset: h5py.Dataset) -> np.ndarray:
    """(C, 4) int64 of each stored chunk, in order.

    The columns: its first element, its offset in the file, its stored bytes, the mask of filters not applied.
    """
    # Millions of chunks as Python tuples would be what a build takes most memory for.
    places = array("q")
    dataset.id.chunk_iter(lambda c: places.extend((c.chunk_offset[0], c.byte_offset, c.size, c.filter_mask)))
    found = np.frombuffer(places, dtype=np.int64).reshape(-1, 4)
    return found[np.argsort(found[:, 0], kind="stable")]


def extend(dataset: h5py.Dataset, block: np.ndarray) -> None:
    """Append `block` behind the last element, which is the last of its chunk.

    An uncompressed chunk goes to the file without a stay in HDF5's cache, the last one filled with zeros:
    the same content gives the same bytes.
    """
    start, chunk = dataset.shape[0], dataset.chunks[0]
    dataset.resize((start + len(block),))
    if has_dictionary_codec(dataset):
        write_chunks(dataset, start, block)
        return
    if is_filtered(dataset):
        dataset[start:] = block
        return
    whole = len(block) // chunk * chunk
    for first in range(0, whole, chunk):
        dataset.id.write_direct_chunk((start + first,), block[first : first + chunk].data)
    if whole < len(block):
        last = np.zeros(chunk, dtype=dataset.dtype)
        last[: len(block) - whole] = block[whole:]
        dataset.id.write_direct_chunk((start + whole,), last.data)


def read(dataset: h5py.Dataset, start: int, stop: int) -> np.ndarray:
    """The values [start, stop) of a dataset in any codec, as far as there are such.

    Raises:
        OSError, ValueError: they cannot be decoded.
    """
    if has_dictionary_codec(dataset):
        return read_values(dataset, start, min(stop, len(dataset)))
    values: np.ndarray = dataset[start:stop]
    return values


def datasets(file: h5py.File) -> dict[str, h5py.Dataset]:
    """All datasets of a shard by name, the tokens first."""
    found: dict[str, h5py.Dataset] = {TOKENS: file[TOKENS]}
    file.visititems(lambda name, item: found.update({name: item}) if isinstance(item, h5py.Dataset) else None)
    return found
