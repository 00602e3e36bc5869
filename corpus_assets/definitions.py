"""What Dagster loads: the definitions of every corpus in corpora.yaml."""

import dagster as dg

from corpus_assets.config import load_config
from corpus_assets.defs.factory import corpus_definitions
from corpus_assets.errors import ConfigError


def load_definitions() -> dg.Definitions:
    """All corpora side by side; steps run in the run's own process, which starts in half the time."""
    try:
        corpora = load_config()
    except ConfigError as error:
        raise ConfigError(str(error)) from None  # the message says it all, the trace behind it nothing
    return dg.Definitions.merge(
        dg.Definitions(executor=dg.in_process_executor), *map(corpus_definitions, corpora.values())
    )


defs = load_definitions()
