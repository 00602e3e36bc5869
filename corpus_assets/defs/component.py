"""CorpusComponent: a corpus in a defs.yaml of any Dagster project that installs this package."""

import dagster as dg
from pydantic import BaseModel

from corpus_assets.config import CorpusConfig, parse_corpus, refuse_unfit_roots
from corpus_assets.defs.factory import corpus_definitions
from corpus_assets.errors import ConfigError


class CorpusComponent(dg.Component):
    """One corpus: its assets, checks, jobs, schedule and sensors.

    The attributes are those of an entry in corpora.yaml, and `name`. Relative paths start from the root of
    the Dagster project; `{{ env.NAME }}` works in every text.

        type: corpus_assets.CorpusComponent
        attributes:
          name: stdlib
          input: data/stdlib/input
          root: data/stdlib/corpus
    """

    def __init__(self, config: CorpusConfig) -> None:
        self.config = config

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """The attributes: the same model that validates corpora.yaml."""
        return CorpusConfig

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> "CorpusComponent":
        """The component of a defs.yaml, its paths made absolute.

        Raises:
            ConfigError: naming each attribute that is wrong.
        """
        given = (
            {}
            if attributes is None
            else attributes.model_dump(exclude_unset=True, by_alias=True, mode="json")
        )
        entry = context.resolution_context.resolve_value(given, as_type=dict)
        name = str(entry.pop("name", ""))
        try:
            return cls(parse_corpus(name, entry, base=context.project_root, where=str(context.path)))
        except ConfigError as error:
            raise ConfigError(str(error)) from None  # the message says it all, the trace behind it nothing

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The same definitions that corpora.yaml gives.

        Raises:
            ConfigError: its root is its input or overlaps the root of another component of the project.
        """
        beside = context.component_tree.get_all_components(CorpusComponent)
        refuse_unfit_roots([component.config for component in beside], where=str(context.path))
        return corpus_definitions(self.config)
