"""What Dagster remembers of the corpora: which partitions failed and why, what the checks found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corpus_assets.cli.graph import open_instance
from corpus_assets.cli.project import DAGSTER_YAML, Project, dagster_yaml
from corpus_assets.cli.state import Records
from corpus_assets.errors import IndexMismatchError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dagster import DagsterInstance  # noqa: TID251  (a type)

    from corpus_assets.config import CorpusConfig
    from corpus_assets.defs.corpus import Corpus

# A run's last events; the failure of its step is among them, whatever the number of partitions before.
_LAST_EVENTS = 100


def dagster_records(project: Project, corpora: Sequence[CorpusConfig]) -> dict[str, Records]:
    """Failures and findings by corpus; none where nothing was ever built through the graph."""
    if _is_unused(project.dagster_home):
        return {config.name: Records(failures={}, findings=()) for config in corpora}
    with open_instance(project) as instance:
        return {config.name: _records_of(instance, config) for config in corpora}


def _is_unused(home: Path) -> bool:
    """Whether `home` holds the shipped settings at most: opening it would only make an empty database."""
    if not home.is_dir() or not (settings := home / DAGSTER_YAML).exists():
        return True
    return list(home.iterdir()) == [settings] and settings.read_bytes() == dagster_yaml()


def _records_of(instance: DagsterInstance, config: CorpusConfig) -> Records:
    from corpus_assets.defs.corpus import Corpus
    from corpus_assets.defs.gate import gate
    from corpus_assets.shards.index import load_index

    corpus = Corpus(config)
    try:
        findings = tuple(gate(instance, corpus, load_index(config.index_path)))
    except IndexMismatchError:
        findings = ()  # the state of the index says so itself
    return Records(failures=_failures(instance, corpus), findings=findings)


def _failures(instance: DagsterInstance, corpus: Corpus) -> dict[str, str]:
    """The failed partitions with the reason that their last run gave."""
    from corpus_assets.defs.partitions import partition_states

    failed = partition_states(instance, corpus).failed
    if not failed:
        return {}
    storage, asset = instance.event_log_storage, corpus.key("token_shards")
    attempts = storage.get_latest_asset_partition_materialization_attempts_without_materializations(asset)
    run_of = {key: attempts[key][0] for key in failed}
    reasons = {run_id: _reasons(instance, corpus, run_id) for run_id in set(run_of.values())}
    return {
        key: reasons[run_id].get(key, f"run {run_id} ended without it; its log says why")
        for key, run_id in sorted(run_of.items())
    }


def _reasons(instance: DagsterInstance, corpus: Corpus, run_id: str) -> dict[str, str]:
    from corpus_assets.defs.failures import summarize

    run = instance.get_run_by_id(run_id)
    if run is None:
        return {}
    last = instance.get_records_for_run(run_id, limit=_LAST_EVENTS, ascending=False).records
    events = [record.event_log_entry.dagster_event for record in last]
    failures = [event for event in events if event is not None and event.is_step_failure]
    return summarize(corpus, run, failures).partitions
