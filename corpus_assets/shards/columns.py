"""Columns of a shard that is being written: values arrive in any portions and memory stays flat."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path

import h5py
import numpy as np
from isal import isal_zlib

from corpus_assets.shards.layout import FIELDS, SPAN_PARTS, SPANS, extend, is_filtered, run_offset
from corpus_assets.shards.publish import start_writing

_SPOOL_BLOCK = 1024 * 1024
_BYTES_TO_START = 16 * 1024 * 1024


def combined_digest(fields: Iterable[str], spans: Iterable[str], digests: Mapping[str, bytes]) -> str:
    """One digest of all fields and spans; empty without any.

    Args:
        fields: names of the fields, in order.
        spans: names of the annotations, in order.
        digests: sha256 of the values of each dataset, by its name in the file.
    """
    names = [f"{FIELDS}/{name}" for name in fields]
    names += [f"{SPANS}/{name}/{part}" for name in spans for part in SPAN_PARTS]
    parts = [(name, digests[name]) for name in names]
    return hashlib.sha256(repr(parts).encode()).hexdigest() if parts else ""


class TokenColumn:
    """The tokens: buffers one chunk, extends by whole chunks, and takes the digests on the way.

    After every extension the dataset is flushed, so that a SWMR reader sees values and never a gap.
    """

    def __init__(self, dataset: h5py.Dataset) -> None:
        self._dataset = dataset
        self._chunk = dataset.chunks[0]
        self._buffer = np.empty(self._chunk, dtype=dataset.dtype)
        self._buffered = 0
        self._written = 0
        self._started = 0
        self._sha256 = hashlib.sha256()
        self.checksums = array("I")

    def __len__(self) -> int:
        return self._written + self._buffered

    @property
    def sha256(self) -> str:
        """Digest of the tokens written; of all of them after `finish`."""
        return self._sha256.hexdigest()

    @property
    def in_one_run(self) -> bool:
        """Whether a reader could map the tokens, as far as they can be mapped at all."""
        stored_as_is = len(self) and not is_filtered(self._dataset)
        return not stored_as_is or run_offset(self._dataset) is not None

    def append(self, values: np.ndarray) -> None:
        """Add `values` behind what came before."""
        missing = self._chunk - self._buffered
        if len(values) < missing:
            self._keep(values)
            return
        if self._buffered:
            self._keep(values[:missing])
            self._write(self._buffer)
            self._buffered = 0
            values = values[missing:]
        whole = len(values) // self._chunk * self._chunk
        if whole:
            self._write(np.ascontiguousarray(values[:whole], dtype=self._buffer.dtype))
        self._dataset.flush()
        if (self._written - self._started) * self._buffer.itemsize >= _BYTES_TO_START:
            # The disk works while the next texts are encoded.
            start_writing(self._dataset.file.id.get_vfd_handle())
            self._started = self._written
        self._keep(values[whole:])

    def finish(self) -> None:
        """Write what is left, less than a chunk; the dataset then has its exact length."""
        if self._buffered:
            self._write(self._buffer[: self._buffered])
            self._buffered = 0
        self._dataset.flush()

    def _keep(self, values: np.ndarray) -> None:
        self._buffer[self._buffered : self._buffered + len(values)] = values
        self._buffered += len(values)

    def _write(self, block: np.ndarray) -> None:
        extend(self._dataset, block)
        for start in range(0, len(block), self._chunk):
            data = block[start : start + self._chunk].data
            self._sha256.update(data)
            self.checksums.append(isal_zlib.crc32(data))
        self._written += len(block)


class SpooledColumn:
    """Any other column: kept in a plain file until the tokens are written, then moved behind them."""

    def __init__(self, dataset: h5py.Dataset, spool: Path) -> None:
        self._dataset = dataset
        self._dtype = dataset.dtype
        self._path = spool
        self._file = spool.open("xb+")
        self._sha256 = hashlib.sha256()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def digest(self) -> bytes:
        """sha256 of the little-endian bytes of the values added."""
        return self._sha256.digest()

    def append(self, values: np.ndarray) -> None:
        """Add `values` behind what came before."""
        data = np.ascontiguousarray(values, dtype=self._dtype).data
        self._sha256.update(data)
        self._file.write(data)
        self._count += len(values)

    def finish(self) -> None:
        """Move the values into the dataset."""
        self._file.seek(0)
        chunk = self._dataset.chunks[0]
        step = max(1, _SPOOL_BLOCK // chunk) * chunk * self._dtype.itemsize
        while data := self._file.read(step):
            extend(self._dataset, np.frombuffer(data, dtype=self._dtype))
        self.discard()

    def discard(self) -> None:
        """Drop the spool; safe to call again."""
        self._file.close()
        self._path.unlink(missing_ok=True)
