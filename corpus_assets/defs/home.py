"""DAGSTER_HOME of a project: made from the shipped dagster.yaml, opened as an instance."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

from corpus_assets.errors import ConfigError
from corpus_assets.shards.publish import publish_bytes

TEMPLATE = Path(__file__).with_name("dagster.yaml")
DEFAULT_HOME = Path("data/dagster_home")


def dagster_home(project: Path) -> Path:
    """$DAGSTER_HOME, else data/dagster_home of the project; ready to be used by several processes.

    A new one gets the shipped dagster.yaml and its databases here: two processes that make the same SQLite
    databases at the same time leave them unusable.

    Raises:
        ConfigError: the folder cannot be made.
    """
    named = os.environ.get("DAGSTER_HOME")
    home = Path(named).expanduser().absolute() if named else (project / DEFAULT_HOME).absolute()
    settings = home / "dagster.yaml"
    try:
        home.mkdir(parents=True, exist_ok=True)
        if not settings.exists():
            publish_bytes(settings, TEMPLATE.read_bytes(), scratch=home)
    except OSError as error:
        raise ConfigError(
            f"{home}: {error.strerror or error}; expected a folder for Dagster's records"
        ) from error
    return home


def open_instance(home: Path) -> dg.DagsterInstance:
    """The instance whose records are in `home`; a context manager.

    Raises:
        ConfigError: its dagster.yaml or the storage that it names cannot be used.
    """
    from alembic.util.exc import CommandError
    from dagster._check import CheckError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with _alone(home):
            instance = dg.DagsterInstance.from_config(str(home))
            _touch_storages(instance)
    except (dg.DagsterError, CheckError, ImportError, SQLAlchemyError, CommandError) as error:
        raise ConfigError(f"{home / 'dagster.yaml'}: {error}") from error
    return instance


def _touch_storages(instance: dg.DagsterInstance) -> None:
    """Have each storage make its tables now, if it has none yet."""
    instance.get_runs(limit=1)
    instance.get_dynamic_partitions("none")
    instance.all_instigator_state()


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Keep other processes of this package out of the same step, where the system has such locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with (home / ".opening").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
