"""Library errors as Dagster failures: the message is what a person reads, and no retry helps."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from corpus_assets.errors import CorpusError


@contextmanager
def refusals() -> Iterator[None]:
    """Turn a CorpusError into a Failure with the same message; other errors stay crashes."""
    try:
        yield
    except CorpusError as error:
        raise dg.Failure(description=str(error), allow_retries=False) from error
