"""The sensor that says in one readable message what failed, and hands it to the user's own notifier."""

import importlib
import logging
import os
from collections.abc import Callable

import dagster as dg

from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.failures import FailureSummary, concerns, summarize
from corpus_assets.errors import ConfigError

NOTIFIER = "CORPUS_NOTIFIER"
Notifier = Callable[[FailureSummary], None]
_log = logging.getLogger(__name__)


def failure_sensor(corpus: Corpus, notify: Notifier | None = None) -> dg.SensorDefinition:
    """Logs a summary of each failed run of the corpus and passes it to `notify`.

    Without `notify`, the function that CORPUS_NOTIFIER names (`package.module:function`) is called.
    """

    @dg.run_failure_sensor(
        name=corpus.named("failures"),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Which partitions failed and why; set {NOTIFIER} to pass it on.",
    )
    def failures(context: dg.RunFailureSensorContext) -> None:
        run = context.dagster_run
        if concerns(run, corpus):
            said = context.failure_event.message
            summary = summarize(corpus, run, context.get_step_failure_events(), said)
            context.log.error(summary.message)
            _log.error(summary.message)
            if (notifier := notify or configured_notifier()) is not None:
                notifier(summary)

    return failures


def configured_notifier() -> Notifier | None:
    """The function that CORPUS_NOTIFIER names; None without one.

    Raises:
        ConfigError: it names none that can be imported.
    """
    name = os.environ.get(NOTIFIER)
    if not name:
        return None
    module, _, function = name.partition(":")
    try:
        notifier: Notifier = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{NOTIFIER}: found {name!r}: {error}; expected package.module:function") from error
    return notifier
