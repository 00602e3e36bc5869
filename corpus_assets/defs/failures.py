"""What failed in a run, in words that a person can act on."""

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg
from dagster import DagsterEvent, DagsterRun
from dagster._core.execution.plan.objects import StepFailureData

from corpus_assets.defs.corpus import CORPUS_TAG, Corpus
from corpus_assets.errors import CorpusError

FAILED_PARTITIONS = "failed_partitions"
_OURS = f"{CorpusError.__module__}."


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureSummary:
    """One failed run.

    Attributes:
        partitions: the failed partitions and the reason of each.
        message: everything in words, a line for each step or partition.
    """

    corpus: str
    run_id: str
    job: str
    partitions: dict[str, str]
    message: str


def summarize(
    corpus: Corpus, run: DagsterRun, failures: Sequence[DagsterEvent], run_message: str | None = None
) -> FailureSummary:
    """The failed steps of a run in one message.

    Args:
        corpus: whose run it is.
        run: the run.
        failures: its STEP_FAILURE events.
        run_message: what the run itself said; used where no step failed, as after a killed worker.
    """
    lines, partitions = [], dict[str, str]()
    for event in failures:
        data = event.step_failure_data
        reported = data.user_failure_data
        named = (reported.metadata if reported else {}).get(FAILED_PARTITIONS)
        if isinstance(named, dg.JsonMetadataValue) and isinstance(named.value, dict):
            partitions.update(named.value)
        lines.append(f"{event.step_key}: {(reported.description if reported else None) or _cause(data)}")
    head = f"{corpus.name}: run {run.run_id} of {run.job_name} failed"
    return FailureSummary(
        corpus=corpus.name,
        run_id=run.run_id,
        job=run.job_name,
        partitions=partitions,
        message="\n".join([head, *(lines or [run_message or "no reason given"])]),
    )


def _cause(data: StepFailureData) -> str:
    """The error that the step raised, without its stack: Dagster wraps it, and ours says more than its own cause."""
    error = data.error
    while error is not None and error.cause is not None and not error.message.startswith(_OURS):
        error = error.cause
    return error.message.strip() if error is not None else data.error_display_string


def concerns(run: DagsterRun, corpus: Corpus) -> bool:
    """Whether `run` is of this corpus: its own jobs carry its tag, the UI's runs select its assets."""
    selected = run.asset_selection or ()
    return run.tags.get(CORPUS_TAG) == corpus.name or any(key.path[0] == corpus.name for key in selected)
