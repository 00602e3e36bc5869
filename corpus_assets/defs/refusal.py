"""What the library and the system refuse as Dagster failures: a person reads one line, and no retry helps."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

from corpus_assets.errors import CorpusError, system_error


@contextmanager
def refusals(root: Path) -> Iterator[None]:
    """Turn a CorpusError, or what the operating system refused, into a Failure; other errors stay crashes.

    Args:
        root: the corpus folder, named where an error of the system names no file.
    """
    try:
        yield
    except CorpusError as error:
        raise dg.Failure(description=str(error), allow_retries=False) from error
    except Exception as error:
        if (reason := system_error(error, place=root)) is None:
            raise
        raise dg.Failure(description=reason, allow_retries=False) from error
