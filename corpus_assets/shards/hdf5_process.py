"""The processes in which HDF5 opens files that nobody vouches for.

HDF5 may hang or crash on metadata that is damaged or forged: of 10,000 token shards with a few bytes changed, it
hung on four. And its filters may do the same on chunks that were made to, or show memory that is not the file's. So
whatever is said about such a file, and what such chunks hold, comes from a process that can be killed. HDF5 does one
thing at a time; threads that ask at once are served by a process a core.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import LifoQueue
from typing import Any

from corpus_assets.errors import ShardError, one_line
from corpus_assets.shards.child import describe_death, start_child

TIME_LIMIT = 30.0
_IDLE_SECONDS = 10.0
_GRACE_SECONDS = 2.0
_MEMORY_BYTES = 8 * 2**30
_CODE = "from corpus_assets.shards.hdf5_process import serve; serve()"


def ask_hdf5(
    path: str | os.PathLike[str],
    subject: str,
    *,
    raw_bytes: int = 0,
    time_limit: float | None = None,
    **question: Any,
) -> tuple[dict[str, Any], bytes]:
    """What HDF5 finds in the file at `path`: facts that JSON holds, and the bytes of values.

    Args:
        path: the file.
        subject: `contents` or `values`, the module whose `look` answers.
        raw_bytes: how many bytes of values are expected; another number is an error.
        time_limit: seconds after which HDF5 counts as hanging; default: 30.
        question: what else `look` takes.

    Raises:
        ShardError: the question has no answer, or HDF5 hangs or crashes on it.
    """
    seconds = time_limit or TIME_LIMIT
    asked = {"subject": subject, "path": os.path.abspath(path), "seconds": seconds, **question}
    answer, raw = _children.ask(asked, raw_bytes, seconds)
    if "error" in answer:
        raise ShardError(f"{path}: {answer['error']}; expected a token shard (HDF5)")
    return answer, raw


class _Children:
    """As many processes as are asked at once, a process a core at most."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, leaving the processes to whoever started them: after a fork."""
        # The last one used comes first: who asks one thing after the other starts one process.
        cores = os.cpu_count() or 1
        self.idle: LifoQueue[_Child] = LifoQueue(cores)
        for _ in range(cores):
            self.idle.put(_Child())

    def ask(
        self, question: dict[str, Any], raw_bytes: int, time_limit: float
    ) -> tuple[dict[str, Any], bytes]:
        """The answer and its bytes, or an `error`; waits while every process is asked."""
        idle = self.idle
        child = idle.get()
        try:
            return child.ask(question, raw_bytes, time_limit)
        except BaseException:  # interrupted: the answer must not be taken for that to the next question
            child.stop()
            raise
        finally:
            idle.put(child)


class _Child:
    """A process that asks HDF5; started when needed, ends by itself when idle. Used by one thread at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def ask(
        self, question: dict[str, Any], raw_bytes: int, time_limit: float
    ) -> tuple[dict[str, Any], bytes]:
        """The answer and its bytes, or an `error`."""
        for _ in range(2):
            try:
                connection = self._connected()
                connection.send_bytes(json.dumps(question).encode())
            except OSError:  # it has just ended because it was idle
                self.stop()
                continue
            return self._answer(connection, raw_bytes, time_limit)
        return {"error": "the process that reads HDF5 cannot be started"}, b""

    def _connected(self) -> Connection:
        if self._process is not None and self._process.poll() is not None:
            self.stop()
        if self._connection is None:
            self._process, self._connection = start_child(_CODE, quiet=True)
        return self._connection

    def _answer(
        self, connection: Connection, raw_bytes: int, time_limit: float
    ) -> tuple[dict[str, Any], bytes]:
        try:
            if not connection.poll(time_limit):
                self.stop()
                return {"error": f"HDF5 gave no answer in {time_limit:g} s: the file is damaged"}, b""
            answer: dict[str, Any] = json.loads(connection.recv_bytes())
            raw = connection.recv_bytes(raw_bytes) if raw_bytes and "error" not in answer else b""
        except (EOFError, OSError):
            return {"error": f"HDF5 crashed on it ({describe_death(self.stop())}): the file is damaged"}, b""
        if "error" not in answer and len(raw) != raw_bytes:
            return {"error": f"HDF5 read {len(raw)} bytes, expected {raw_bytes}"}, b""
        return answer, raw

    def stop(self) -> int:
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


_children = _Children()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_children.forget)


def serve() -> None:
    """Answer questions until the other end closes the connection or nothing is asked any more."""
    import resource

    from corpus_assets.shards import contents, values

    subjects: dict[str, Callable[..., tuple[dict[str, Any], bytes]]] = {
        "contents": contents.look,
        "values": values.look,
    }
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    connection = Connection(int(sys.argv[1]))
    with suppress(EOFError, OSError, KeyboardInterrupt):
        while connection.poll(_IDLE_SECONDS):
            question = json.loads(connection.recv_bytes())
            # Where HDF5 hangs, whoever asked ends this process; were that killed before, this would go on for ever.
            signal.setitimer(signal.ITIMER_REAL, question.pop("seconds") + _GRACE_SECONDS)
            try:
                answer, raw = subjects[question.pop("subject")](**question)
            except Exception as error:  # HDF5 and h5py raise whatever a broken file makes them raise
                answer, raw = {"error": one_line(error) or type(error).__name__}, b""
            signal.setitimer(signal.ITIMER_REAL, 0)
            connection.send_bytes(json.dumps(answer, default=_plain).encode())
            if raw:
                connection.send_bytes(raw)


def _plain(value: Any) -> Any:
    """NumPy values as JSON has them; anything else as it is written."""
    return value.tolist() if hasattr(value, "tolist") else repr(value)
