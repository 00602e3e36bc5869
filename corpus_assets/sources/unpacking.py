"""How much of a Parquet file is unpacked at once: a few bytes of it can stand for gigabytes.

The footer tells what an honest file unpacks to, so that a batch of rows takes a bounded amount of memory in any
process. A footer may lie, therefore a process of ours that reads inputs also limits what one batch may ask for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow.parquet as pq

UNPACKED_BYTES = 64 * 1024 * 1024
# A page holds up to 2 GiB; writers that put 1024 rows into each make pages of 1 GB of long documents.
MEMORY_BYTES = 3 * 2**30
_LEVELS_BYTES = 4  # repetition and definition of one value
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}


class Unpacking:
    """How many rows of a Parquet file to unpack at once.

    Args:
        file: the file.
        values: the same file, its strings read as dictionaries.
        field: the only column that is read; None for all.
    """

    def __init__(self, file: pq.ParquetFile, values: pq.ParquetFile, field: str | None) -> None:
        self._meta = file.metadata
        self._file = file
        self._values = values
        self._columns = [
            (number, file.schema.column(number))
            for number in range(len(file.schema))
            if field is None or f"{file.schema.column(number).path}.".startswith(f"{field}.")
        ]

    def rows_at_once(self, group: int, *, batch_bytes: int, most: int) -> int:
        """Rows of a row group, at least 1 and at most `most`.

        They are about `batch_bytes` as stored. What they unpack to is 64 MiB at most, as far as their number of
        values is even and the footer is true.
        """
        # First of all: asking for the metadata of an encrypted column ends the process, reading it raises.
        longest = self._longest_in_dictionaries(group)
        meta = self._meta.row_group(group)
        rows = max(1, meta.num_rows)
        stored = unpacked = 0
        for number, column in self._columns:
            chunk = meta.column(number)
            stored += chunk.total_uncompressed_size
            width = _LEVELS_BYTES + _width(column, chunk, longest)
            unpacked += -(-chunk.num_values // rows) * width
        return max(1, min(most, batch_bytes // max(1, stored // rows), UNPACKED_BYTES // max(1, unpacked)))

    def _longest_in_dictionaries(self, group: int) -> int | None:
        """Bytes of the longest string that the rows of a group may refer to; None if Arrow cannot tell."""
        names = [column.path for _, column in self._columns]
        try:
            first = next(self._values.iter_batches(1, row_groups=[group], columns=names), None)
        except (
            OSError
        ):  # an encoding that it cannot read into dictionaries; or a file that it cannot read at all
            next(self._file.iter_batches(1, row_groups=[group], columns=names), None)
            return None
        return 0 if first is None else max(map(_longest_in, first.columns), default=0)


def _width(column: Any, chunk: Any, longest: int | None) -> int:
    """Bytes that a value may take although hardly anything is stored of it."""
    if column.physical_type == "FIXED_LEN_BYTE_ARRAY":
        return int(column.length)
    if column.physical_type != "BYTE_ARRAY":
        return _WIDTHS.get(column.physical_type, 8)
    # It may begin with as much of the value before as it likes (DELTA_BYTE_ARRAY).
    return int(chunk.total_uncompressed_size) if longest is None else longest


def _longest_in(values: Any) -> int:
    """Bytes of the longest string in the dictionaries of an Arrow array."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = values.type
    if pa.types.is_dictionary(kind):
        return int(pc.max(pc.binary_length(values.dictionary)).as_py() or 0)
    if pa.types.is_struct(kind):
        return max((_longest_in(values.field(index)) for index in range(kind.num_fields)), default=0)
    if pa.types.is_map(kind):
        return max(_longest_in(values.keys), _longest_in(values.items))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _longest_in(values.values)
    return 0


class _Limit:
    bytes: int | None = None


def limit_memory(limit: int | None = MEMORY_BYTES) -> None:
    """Let no batch of this process ask for more than `limit` bytes; for a process that does nothing else."""
    _Limit.bytes = limit


@contextmanager
def limited_memory() -> Iterator[None]:
    """Within the block memory beyond the limit of `limit_memory` is refused, where the system can refuse it."""
    used = None if _Limit.bytes is None else _data_bytes()
    if _Limit.bytes is None or used is None:
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    allowed = [bound for bound in (used + _Limit.bytes, *before) if bound != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(allowed), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _data_bytes() -> int | None:
    """What Linux counts as data of this process; None elsewhere."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    except (OSError, ValueError):
        return None
    import resource

    return pages * resource.getpagesize()
