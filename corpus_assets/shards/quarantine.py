"""Rows that did not become documents: kept with their number, reason and bytes, to be mended and fed back."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import orjson

from corpus_assets.errors import TooManyRejectsError
from corpus_assets.shards.publish import published
from corpus_assets.sources.document import Reject

FOLDER = "quarantine"
DEFAULT_MAX_BYTES = 1024**3
# Delete, the C1 controls, line and paragraph separators, and what reorders or hides text; JSON escapes the rest.
_OBEYED = re.compile("[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")


def quarantine_path(root: Path, key: str, build: str) -> Path:
    """Where the rejects of one build of one partition stand."""
    return root / FOLDER / f"{key}-{build}.jsonl"


class Quarantine:
    """Collects the rejects of one build and publishes them at `path`, also when the build fails.

    Each line is an object with `row`, `reason`, `detail` and `raw`, or `raw_base64` where the bytes are not
    UTF-8. Characters that a terminal or an editor would obey instead of show are JSON escapes. Without rejects
    there is no file.

    Args:
        path: the file.
        scratch: folder for the draft, on the same file system.
        name: of the input, for errors.
        max_bytes: what the file may hold; a bomb of bad rows does not fill the disk.
    """

    def __init__(self, path: Path, *, scratch: Path, name: str, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.path = path
        self._name = name
        self._max_bytes = max_bytes
        self._bytes = 0
        self._scratch = scratch
        self._draft = scratch / f"{path.stem}.rejects"
        self._file: IO[bytes] | None = None

    def add(self, reject: Reject) -> None:
        """Keep one reject.

        Raises:
            TooManyRejectsError: the file has no room for it.
        """
        if self._file is None:
            self._file = self._draft.open("wb")
        line = orjson.dumps(_line(reject), option=orjson.OPT_APPEND_NEWLINE)
        shown = line if line.isascii() and b"\x7f" not in line else _escaped(line)
        self._bytes += len(shown)
        if self._bytes > self._max_bytes:
            raise TooManyRejectsError(
                f"{self._name}: up to row {reject.row} the rejects fill more than the {self._max_bytes} bytes that "
                f"max_quarantine_bytes allows; rejects: {self.path}"
            )
        self._file.write(shown)

    def __enter__(self) -> Quarantine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is None:
            if kind is None:
                self.path.unlink(missing_ok=True)
            return
        self._file.close()
        with published(self.path, scratch=self._scratch) as draft:
            self._draft.rename(draft)


def _escaped(line: bytes) -> bytes:
    return _OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", line.decode()).encode()


def _line(reject: Reject) -> dict[str, Any]:
    line: dict[str, Any] = {"row": reject.row, "reason": reject.reason, "detail": reject.detail}
    try:
        line["raw"] = reject.raw.decode("utf-8")
    except UnicodeDecodeError:
        line["raw_base64"] = base64.b64encode(reject.raw).decode("ascii")
    return line
