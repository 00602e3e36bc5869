"""DAGSTER_HOME of a project: made from the shipped dagster.yaml, opened as an instance."""

import os
from pathlib import Path

import dagster as dg

from corpus_assets.errors import ConfigError

TEMPLATE = Path(__file__).with_name("dagster.yaml")
DEFAULT_HOME = Path("data/dagster_home")


def dagster_home(project: Path) -> Path:
    """$DAGSTER_HOME, else data/dagster_home of the project; the folder has a dagster.yaml afterwards.

    Raises:
        ConfigError: the folder cannot be made.
    """
    named = os.environ.get("DAGSTER_HOME")
    home = Path(named).expanduser().absolute() if named else (project / DEFAULT_HOME).absolute()
    settings = home / "dagster.yaml"
    try:
        home.mkdir(parents=True, exist_ok=True)
        if not settings.exists():
            settings.write_bytes(TEMPLATE.read_bytes())
    except OSError as error:
        raise ConfigError(
            f"{home}: {error.strerror or error}; expected a folder for Dagster's records"
        ) from error
    return home


def open_instance(home: Path) -> dg.DagsterInstance:
    """The instance whose records are in `home`; a context manager.

    Raises:
        ConfigError: its dagster.yaml cannot be used.
    """
    try:
        return dg.DagsterInstance.from_config(str(home))
    except (dg.DagsterInvalidConfigError, dg.DagsterInvariantViolationError, ImportError) as error:
        raise ConfigError(f"{home / 'dagster.yaml'}: {error}") from error
