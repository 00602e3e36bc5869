"""Parts of Dagster that it calls beta, used on purpose: what is relied on of them is tested here."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg


@contextmanager
def accepted_beta() -> Iterator[None]:
    """Leave out Dagster's note to developers about beta parts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=dg.BetaWarning)
        yield
