"""What an HDF5 file says of itself, found out in a child process.

HDF5 may hang or crash on metadata that is damaged or forged: of 10,000 token shards with a few bytes changed, it
hung on four. So whatever is said about a file that nobody vouches for comes from a process that can be killed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from corpus_assets.errors import ShardError, one_line
from corpus_assets.shards.child import describe_death, start_child
from corpus_assets.shards.regular import open_regular

TIME_LIMIT = 30.0
_IDLE_SECONDS = 10.0
_MEMORY_BYTES = 8 * 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetContents:
    """One dataset of a shard file.

    Attributes:
        length, dtype, chunk: as HDF5 says; chunk in elements, dtype by name where it is little-endian.
        stored_bytes: bytes of its chunks in the file.
        run_offset: where its chunks lie in one run, uncompressed; else None.
        attributes: by name.
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
    documents: int = 0,
    tokens: int = 0,
    time_limit: float | None = None,
) -> ShardContents:
    """What the file at `path` says of itself; HDF5 opens it in another process only.

    Args:
        path: the file.
        chunks_of: the dataset whose chunks are listed.
        documents: how many of its first documents are read, and
        tokens: how many ids of each.
        time_limit: seconds after which HDF5 counts as hanging; default: 30.

    Raises:
        ShardError: not a shard file, or HDF5 hangs or crashes on it.
        OSError: there is no such file, or it is not a regular one.
    """
    open_regular(path).close()
    question = {
        "path": os.path.abspath(path),
        "chunks_of": chunks_of,
        "documents": documents,
        "tokens": tokens,
    }
    answer = _child.ask(question, time_limit=time_limit or TIME_LIMIT)
    if "error" in answer:
        raise ShardError(f"{path}: {answer['error']}; expected a token shard (HDF5)")
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


class _Child:
    """The process that asks HDF5; started when needed, ends by itself when idle. Used by one thread at a time."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, leaving the child to whoever started it: after a fork."""
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def ask(self, question: dict[str, Any], *, time_limit: float) -> dict[str, Any]:
        """The answer, or an `error`."""
        with self._lock:
            for _ in range(2):
                try:
                    connection = self._connected()
                    connection.send_bytes(json.dumps(question).encode())
                except OSError:  # it has just ended because it was idle
                    self._stop()
                    continue
                return self._answer(connection, time_limit)
        return {"error": "the process that reads HDF5 cannot be started"}

    def _connected(self) -> Connection:
        if self._process is not None and self._process.poll() is not None:
            self._stop()
        if self._connection is None:
            self._process, self._connection = start_child(_CODE, quiet=True)
        return self._connection

    def _answer(self, connection: Connection, time_limit: float) -> dict[str, Any]:
        try:
            if not connection.poll(time_limit):
                self._stop()
                return {"error": f"HDF5 gave no answer in {time_limit:g} s: its metadata is damaged"}
            answer: dict[str, Any] = json.loads(connection.recv_bytes())
            return answer
        except (EOFError, OSError):
            return {"error": f"HDF5 crashed on it ({describe_death(self._stop())}): its metadata is damaged"}

    def _stop(self) -> int:
        """End the process; its exit status."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if connection is not None:
            connection.close()
        if process is None:
            return 0
        with suppress(subprocess.TimeoutExpired):
            return process.wait(timeout=1)
        process.kill()
        return process.wait()


_child = _Child()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_child.forget)

_CODE = "from corpus_assets.shards.contents import serve; serve()"


def serve() -> None:
    """Answer questions until the other end closes the connection or nothing is asked any more."""
    import resource

    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    connection = Connection(int(sys.argv[1]))
    with suppress(EOFError, OSError, KeyboardInterrupt):
        while connection.poll(_IDLE_SECONDS):
            question = json.loads(connection.recv_bytes())
            try:
                answer = _look_at(**question)
            except Exception as error:  # HDF5 and h5py raise whatever a broken file makes them raise
                answer = {"error": one_line(error) or type(error).__name__}
            connection.send_bytes(json.dumps(answer, default=_plain).encode())


def _look_at(*, path: str, chunks_of: str | None, documents: int, tokens: int) -> dict[str, Any]:
    from corpus_assets.shards import layout
    from corpus_assets.shards.datasets import own_datasets

    with layout.open_file(Path(path)) as file:
        found = own_datasets(file)
        if layout.TOKENS not in found:
            raise ValueError(f"no dataset `{layout.TOKENS}`")
        return {
            "attributes": dict(sorted(file.attrs.items())),
            "datasets": {
                name: _facts(dataset, with_chunks=name == chunks_of) for name, dataset in found.items()
            },
            "documents": _first_documents(found, documents, tokens) if documents else [],
        }


def _facts(dataset: Any, *, with_chunks: bool) -> dict[str, Any]:
    from corpus_assets.shards import layout

    chunks: list[tuple[int, int, int, int]] = []
    dataset.id.chunk_iter(
        lambda chunk: chunks.append((chunk.chunk_offset[0], chunk.byte_offset, chunk.size, chunk.filter_mask))
    )
    properties, kind = dataset.id.get_create_plist(), dataset.dtype
    return {
        "length": dataset.shape[0],
        "dtype": kind.name if kind == kind.newbyteorder("<") else kind.str,
        "chunk": dataset.chunks[0],
        "stored_bytes": sum(size for _, _, size, _ in chunks),
        "run_offset": layout.run_offset(dataset),
        "attributes": dict(dataset.attrs.items()),
        "filters": [properties.get_filter(number)[0] for number in range(properties.get_nfilters())],
        "chunk_count": len(chunks),
        "chunks": sorted(chunks) if with_chunks else [],
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
        shown = ids[start : min(stop, start + tokens)].tolist()
        documents.append({"row": row, "start": start, "stop": stop, "ids": shown})
        start = stop
    return documents


def _plain(value: Any) -> Any:
    """NumPy values as JSON has them; anything else as it is written."""
    return value.tolist() if hasattr(value, "tolist") else repr(value)
