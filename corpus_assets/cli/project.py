"""Where things are in a project: its corpora, its workspace, its Dagster home."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from corpus_assets.errors import ConfigError

if TYPE_CHECKING:
    from corpus_assets.config import CorpusConfig

DAGSTER_HOME = Path("data/dagster_home")
DAGSTER_YAML = "dagster.yaml"
WORKSPACE = "workspace.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A corpora.yaml and what belongs to it.

    Attributes:
        config_file: absolute path of the corpora.yaml.
        folder: where its relative paths start from.
        corpora: by name, in the file's order.
    """

    config_file: Path
    folder: Path
    corpora: dict[str, CorpusConfig]

    @classmethod
    def load(cls, config_file: str | None) -> Project:
        """The project of `config_file`, else of the working folder.

        Raises:
            ConfigError: there is none, or it cannot be used; the message names what is wrong.
        """
        from corpus_assets.config import find_config, load_config, project_folder

        file = find_config(config_file)
        return cls(config_file=file, folder=project_folder(file), corpora=load_config(file))

    def corpus(self, name: str) -> CorpusConfig:
        """The corpus `name`.

        Raises:
            ConfigError: there is none; the message lists those there are.
        """
        if name in self.corpora:
            return self.corpora[name]
        near = difflib.get_close_matches(name, self.corpora, n=1)
        hint = f"did you mean {near[0]!r}? It has" if near else "it has"
        raise ConfigError(f"{self.config_file}: no corpus {name!r}; {hint}: {', '.join(self.corpora)}")

    def select(self, name: str | None) -> list[CorpusConfig]:
        """The corpus `name`; all of them without a name."""
        return list(self.corpora.values()) if name is None else [self.corpus(name)]

    @property
    def dagster_home(self) -> Path:
        """$DAGSTER_HOME where it is set, else data/dagster_home in the project."""
        named = os.environ.get("DAGSTER_HOME")
        return Path(named).expanduser().absolute() if named else self.folder / DAGSTER_HOME

    @property
    def workspace(self) -> Path:
        return self.folder / WORKSPACE


def dagster_yaml() -> bytes:
    """The shipped settings of a Dagster instance, read without importing Dagster."""
    return (files("corpus_assets.defs") / DAGSTER_YAML).read_bytes()
