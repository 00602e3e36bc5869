"""build_corpus: the graph executed for real in this process, visible in the UI afterwards."""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from corpus_assets.config import CorpusConfig
from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.factory import corpus_definitions
from corpus_assets.defs.failures import FailureSummary, summarize
from corpus_assets.defs.gate import gate
from corpus_assets.defs.jobs import tail_keys
from corpus_assets.defs.metadata import reused_partitions
from corpus_assets.defs.observation import discover, record
from corpus_assets.defs.partitions import KeyRange, contiguous_ranges, partition_states
from corpus_assets.defs.plan import plan_build
from corpus_assets.defs.process import PROCESS_TAG, fail_abandoned_runs, this_process
from corpus_assets.defs.progress import BuildListener, OnRunProgress
from corpus_assets.errors import CorpusError
from corpus_assets.shards.index import load_index
from corpus_assets.shards.records import ShardIndex
from corpus_assets.shards.release import Evidence, load_release

_log = logging.getLogger(__name__)
OnStage = Callable[[str], None]
_QUIET = {"console": {"config": {"log_level": "CRITICAL"}}}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildReport:
    """What a build came to.

    Attributes:
        planned: partitions that were to be built, with the reason of each.
        reused: those of them whose shard was there already, made from the same; it was recorded, not built.
        failed: partitions that failed, with the reason of each.
        refusal: why the tail of the graph did not end in a release; empty if it did.
        run_ids: the runs, in order; nothing ran where there was nothing to do.
        index: the index as it is now; None if there is none that can be read.
        evidence: what each blocking check last found.
        released: the present index is released.
    """

    planned: dict[str, str]
    reused: frozenset[str]
    failed: dict[str, str]
    refusal: str
    run_ids: tuple[str, ...]
    index: ShardIndex | None
    evidence: tuple[Evidence, ...]
    released: bool
    seconds: float

    @property
    def built(self) -> frozenset[str]:
        """The partitions that were built anew."""
        return frozenset(self.planned.keys() - self.reused - self.failed.keys())

    @property
    def ok(self) -> bool:
        """Everything was built and the present index is released."""
        return not self.failed and not self.refusal


def build_corpus(
    instance: dg.DagsterInstance,
    config: CorpusConfig,
    *,
    keys: Collection[str] | None = None,
    failed_only: bool = False,
    force: bool = False,
    workers: int | None = None,
    train: bool = False,
    on_progress: OnRunProgress | None = None,
    on_stage: OnStage | None = None,
) -> BuildReport:
    """Build what is missing, stale or failed, then index, check and release.

    Args:
        instance: where the runs are recorded.
        config: the corpus.
        keys: only these partitions, needed or not; names of input shards work too.
        failed_only: only the partitions whose last run failed.
        force: rebuild shards that are made from the same inputs already; without `keys`, all of them.
        workers: processes; default: the configuration's, else one a core.
        train: train on the released corpus, too.
        on_progress: called with the progress of the partitions.
        on_stage: called with a few words when a stage begins.

    Raises:
        CorpusError: the inputs or the tokenizer cannot be used at all. One bad input is no such error: it
            is in the report.
    """
    began, corpus, tell = time.monotonic(), Corpus(config), on_stage or _log.info
    fail_abandoned_runs(instance)
    tell("looking at the inputs")
    discovery = discover(instance, corpus)
    record(instance, corpus, discovery)
    plan = plan_build(instance, corpus, discovery.manifest)
    states = partition_states(instance, corpus)
    if keys is not None:
        wanted = {discovery.manifest.find(key).key: "asked for" for key in keys}
    elif failed_only:
        wanted = dict.fromkeys(states.failed, "failed")
    else:
        wanted = dict.fromkeys(states.keys, "asked for") | plan.reasons if force else plan.reasons
    graph = _Graph(instance, corpus, BuildListener(on_progress))
    failed: dict[str, str] = {}
    for part in contiguous_ranges(states.keys, wanted, at_most=config.partitions_per_run):
        tell(f"building {len(part.keys)} shards")
        failed |= graph.build(part, force=force, workers=workers)
    refusal = ""
    tail = tail_keys(corpus) if wanted or plan.release_due else []
    tail += [corpus.key("training")] if train else []
    left = sorted(plan.reasons.keys() - wanted.keys())
    if left:
        refusal = f"{len(left)} partitions are not built: {', '.join(left[:20])}"
    elif tail:
        tell("indexing, checking, releasing" if len(tail) > 1 else "training")
        refusal = graph.finish(tail)
    return _report(graph, planned=wanted, failed=failed, refusal=refusal, began=began)


class _Graph:
    """The graph of one corpus, executed run by run in this process."""

    def __init__(self, instance: dg.DagsterInstance, corpus: Corpus, listener: BuildListener) -> None:
        self.instance, self.corpus = instance, corpus
        self.run_ids: list[str] = []
        self.reused: set[str] = set()
        self._definitions = corpus_definitions(corpus.config, listener=listener)

    def build(self, part: KeyRange, *, force: bool, workers: int | None) -> dict[str, str]:
        """Build the partitions of `part` in one run; returns those that failed, with the reason."""
        options = {"force": force} | ({} if workers is None else {"workers": workers})
        op = self.corpus.key("token_shards").to_python_identifier()
        config = {"ops": {op: {"config": options}}, "loggers": _QUIET}
        summary = self._run("build", config, part.tags)
        if summary is not None and not summary.partitions:
            return dict.fromkeys(part.keys, summary.message)
        return {} if summary is None else summary.partitions

    def finish(self, assets: Sequence[dg.AssetKey]) -> str:
        """Run the tail of the graph, or a part of it; returns why it failed, empty if it did not."""
        summary = self._run("corpus", {"loggers": _QUIET}, {}, assets)
        return "" if summary is None else summary.message

    def _run(
        self,
        job: str,
        config: dict[str, Any],
        tags: dict[str, str],
        selection: Sequence[dg.AssetKey] | None = None,
    ) -> FailureSummary | None:
        result = self._definitions.resolve_job_def(self.corpus.named(job)).execute_in_process(
            instance=self.instance,
            run_config=config,
            asset_selection=selection,
            tags={**self.corpus.run_tags, PROCESS_TAG: this_process(), **tags},
            raise_on_error=False,
        )
        self.run_ids.append(result.run_id)
        self.reused |= reused_partitions(result.get_asset_materialization_events())
        if result.success:
            return None
        failures = [event for event in result.all_events if event.is_step_failure]
        return summarize(self.corpus, result.dagster_run, failures)


def _report(
    graph: _Graph, *, planned: dict[str, str], failed: dict[str, str], refusal: str, began: float
) -> BuildReport:
    config = graph.corpus.config
    index, evidence, released = None, [], False
    try:
        index = load_index(config.index_path)
        evidence = gate(graph.instance, graph.corpus, index)
        released = bool(load_release(config.root, index.fingerprint)) and not refusal
    except CorpusError as error:
        refusal = refusal or str(error)
    return BuildReport(
        planned=planned,
        reused=frozenset(graph.reused & planned.keys()),
        failed=failed,
        refusal=refusal,
        run_ids=tuple(graph.run_ids),
        index=index,
        evidence=tuple(evidence),
        released=released,
        seconds=time.monotonic() - began,
    )
