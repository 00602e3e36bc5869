"""A user's own format, imported by the name that corpora.yaml gives it."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np

from corpus_assets.errors import ConfigError
from corpus_assets.formats.protocol import RecordFormat
from corpus_assets.shapes import COMPUTED_NAMES

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def import_format(spec: str) -> RecordFormat:
    """The format that `spec`, `package.module:Name`, names: itself, or what it makes when called without arguments.

    The module is looked for like any other, and then in the working folder. corpora.yaml is trusted: its
    code runs.

    Raises:
        ConfigError: it cannot be imported, fails, or is no format.
    """
    where = f"format {spec}"
    module_name, _, attribute = spec.partition(":")
    try:
        module = _import(module_name)
        named = getattr(module, attribute)
        made = named() if isinstance(named, type) or not hasattr(named, "pack") else named
    except Exception as error:  # it is the user's code: anything can happen
        raise ConfigError(
            f"{where}: cannot be loaded: {type(error).__name__}: {error}; expected a RecordFormat in a module "
            "that can be imported, or a class or function that makes one without arguments"
        ) from error
    check_format(made, where=where)
    return cast(RecordFormat, made)


def check_format(made: Any, *, where: str) -> None:
    """Raise ConfigError, naming what is wrong, unless `made` follows RecordFormat."""
    absent = [
        name
        for name in ("name", "fields", "spans", "fingerprint", "pack")
        if getattr(made, name, None) is None
    ]
    if absent:
        raise ConfigError(
            f"{where}: {type(made).__name__} has no {', '.join(absent)}, expected a RecordFormat"
        )
    if not callable(made.pack):
        raise ConfigError(f"{where}: pack is {type(made.pack).__name__}, expected a method")
    for attribute in ("name", "fingerprint"):
        if not isinstance(found := getattr(made, attribute), str) or not found:
            raise ConfigError(f"{where}: {attribute} is {found!r}, expected a text")
    if isinstance(made.spans, str):
        raise ConfigError(f"{where}: spans is {made.spans!r}, expected a sequence of names")
    try:
        dtypes = {name: np.dtype(dtype) for name, dtype in made.fields.items()}
        names = [*dtypes, *made.spans]
    except (TypeError, AttributeError, ValueError) as error:
        raise ConfigError(f"{where}: fields and spans: {error}; expected dtype by name, and names") from error
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(f"{where}: {name!r} is no name, expected a letter, then letters, digits and _")
        if name in COMPUTED_NAMES:
            raise ConfigError(f"{where}: {name} is made by the reader, expected another name")
    for name, dtype in dtypes.items():
        if dtype.kind not in "iuf" or dtype.itemsize > 8:
            raise ConfigError(
                f"{where}: field {name} is {dtype}, expected integers or floats of 1 to 8 bytes"
            )


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        here = str(Path.cwd())
        if error.name != name.partition(".")[0] or here in sys.path:
            raise
    sys.path.append(here)
    importlib.invalidate_caches()
    return importlib.import_module(name)
