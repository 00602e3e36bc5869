"""What an HDF5 file says of itself, found out in a process that can be killed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpus_assets.shards.hdf5_process import ask_hdf5
from corpus_assets.shards.regular import open_regular


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetContents:
    """One dataset of a shard file.

    Attributes:
        length, dtype, chunk: as HDF5 says; chunk in elements, dtype by name where it is little-endian.
        stored_bytes: bytes of its chunks in the file.
        run_offset: where its chunks lie in one run, uncompressed; else None.
        attributes: by name, a dictionary aside.
        dictionary_bytes: length of the zstd dictionary that its chunks are made with.
        dictionary: in hexadecimal digits; empty unless the chunks are asked for.
        filters: HDF5 numbers of its filters, in the order in which they were applied.
        chunks: (first element, byte offset, stored bytes, mask of filters not applied) of each stored chunk, in
            order; empty unless asked for.
        chunk_count: how many chunks are stored.
    """

    length: int
    dtype: str
    chunk: int
    stored_bytes: int
    run_offset: int | None
    attributes: dict[str, Any]
    filters: tuple[int, ...]
    chunk_count: int
    dictionary_bytes: int = 0
    dictionary: str = ""
    chunks: tuple[tuple[int, int, int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentContents:
    """One document of a shard: row of its input, first token, past the boundary, and its first ids."""

    row: int
    start: int
    stop: int
    ids: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardContents:
    """What a shard file says of itself. Nothing of it need be true."""

    attributes: dict[str, Any]
    datasets: dict[str, DatasetContents]
    documents: tuple[DocumentContents, ...]


def read_contents(
    path: str | os.PathLike[str],
    *,
    chunks_of: str | None = None,
    every_chunk: bool = True,
    documents: int = 0,
    tokens: int = 0,
    time_limit: float | None = None,
) -> ShardContents:
    """What the file at `path` says of itself; HDF5 opens it in another process only.

    Args:
        path: the file.
        chunks_of: the dataset whose chunks are listed.
        every_chunk: whether datasets in one run are known by the place of every chunk; else by the first and the
            last, which takes a fourth of the time and is enough for a file whose frame is the one that was sealed.
        documents: how many of its first documents are read, and
        tokens: how many ids of each.
        time_limit: seconds after which HDF5 counts as hanging; default: 30.

    Raises:
        ShardError: not a shard file, or HDF5 hangs or crashes on it.
        OSError: there is no such file, or it is not a regular one.
    """
    open_regular(path).close()
    answer, _ = ask_hdf5(
        path,
        "contents",
        time_limit=time_limit,
        chunks_of=chunks_of,
        every_chunk=every_chunk,
        documents=documents,
        tokens=tokens,
    )
    return ShardContents(
        attributes=answer["attributes"],
        datasets={
            name: DatasetContents(
                **facts | {"filters": tuple(facts["filters"]), "chunks": tuple(map(tuple, facts["chunks"]))}
            )
            for name, facts in answer["datasets"].items()
        },
        documents=tuple(DocumentContents(**document) for document in answer["documents"]),
    )


def look(
    *, path: str, chunks_of: str | None, every_chunk: bool, documents: int, tokens: int
) -> tuple[dict[str, Any], bytes]:
    """The answer of the process that asks HDF5."""
    from corpus_assets.shards import layout
    from corpus_assets.shards.datasets import own_datasets

    with layout.open_file(Path(path)) as file:
        found = own_datasets(file)
        if layout.TOKENS not in found:
            raise ValueError(f"no dataset `{layout.TOKENS}`")
        facts = {
            "attributes": dict(sorted(file.attrs.items())),
            "datasets": {
                name: _facts(dataset, with_chunks=name == chunks_of, every_chunk=every_chunk)
                for name, dataset in found.items()
            },
            "documents": _first_documents(found, documents, tokens) if documents else [],
        }
        return facts, b""


def _facts(dataset: Any, *, with_chunks: bool, every_chunk: bool) -> dict[str, Any]:
    from corpus_assets.shards import layout
    from corpus_assets.shards.dictionary import ATTRIBUTE
    from corpus_assets.shards.dictionary_chunks import dictionary_of, filters_of

    kind, dictionary, filters = dataset.dtype, dictionary_of(dataset), filters_of(dataset)
    chunk_count = dataset.id.get_num_chunks()  # each look at all chunks takes HDF5 a while
    chunk_bytes = dataset.chunks[0] * kind.itemsize
    places = layout.chunk_places(dataset) if with_chunks else None
    return {
        "length": dataset.shape[0],
        "dtype": kind.name if kind == kind.newbyteorder("<") else kind.str,
        "chunk": dataset.chunks[0],
        "stored_bytes": dataset.id.get_storage_size() if filters else chunk_count * chunk_bytes,
        "run_offset": (
            layout.run_offset(dataset) if every_chunk else layout.run_between_ends(dataset, chunk_count)
        ),
        "attributes": {name: dataset.attrs[name] for name in dataset.attrs if name != ATTRIBUTE},
        "filters": filters,
        "chunk_count": chunk_count,
        "dictionary_bytes": len(dictionary),
        "dictionary": dictionary.hex() if with_chunks else "",
        "chunks": [] if places is None else places.tolist(),
    }


def _first_documents(datasets: dict[str, Any], count: int, tokens: int) -> list[dict[str, Any]]:
    from corpus_assets.shards import layout

    ids = datasets[layout.TOKENS]
    ends = datasets[layout.DOCUMENT_ENDS][:count].tolist()
    rows = datasets[layout.DOCUMENT_ROWS][:count].tolist()
    documents, start = [], 0
    for row, stop in zip(rows, ends, strict=True):
        if not start < stop <= len(ids):
            raise ValueError(f"a document ends at {stop}, expected more than {start}")
        shown = layout.read(ids, start, min(stop, start + tokens)).tolist()
        documents.append({"row": row, "start": start, "stop": stop, "ids": shown})
        start = stop
    return documents
