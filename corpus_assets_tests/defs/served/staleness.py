"""Stale marks as the UI asks for them, after the daemon has seen what changed."""

import os
from pathlib import Path

from dagster import DagsterInstance, DagsterRunStatus

from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.home import open_instance
from corpus_assets.defs.partitions import RANGE_END_TAG, RANGE_START_TAG
from corpus_assets_tests.defs.conftest import write_input
from corpus_assets_tests.defs.served.project import ServedProject

CHANGED, TOUCHED, KEPT = "changed.jsonl", "touched.jsonl", "kept.jsonl"
STATUS = """
query($key: AssetKeyInput!, $partition: String!) {
  assetNodeOrError(assetKey: $key) {
    ... on AssetNode { staleStatus(partition: $partition) staleCauses(partition: $partition) { reason } }
  }
}
"""


def stale_after_a_change(project: ServedProject) -> dict[str, tuple[str, list[str]]]:
    """Build three inputs, change one and touch one; status and causes of each, once the daemon has looked."""
    corpus = Corpus(project.corpora["stale"])
    run_id = project.launch("stale_build", tags={RANGE_START_TAG: CHANGED, RANGE_END_TAG: TOUCHED})
    with open_instance(project.home) as instance:
        ended = project.wait_for(lambda: (run := instance.get_run_by_id(run_id)) and run.is_finished and run)
        assert ended.status is DagsterRunStatus.SUCCESS
        before = _observations(instance, corpus)
        write_input(Path(corpus.config.input) / CHANGED, word="other")
        os.utime(Path(corpus.config.input) / TOUCHED)
        project.wait_for(lambda: _observations(instance, corpus) > before, seconds=240)
    return {name: _status(project, name) for name in (CHANGED, TOUCHED, KEPT)}


def _observations(instance: DagsterInstance, corpus: Corpus) -> int:
    return len(instance.fetch_observations(corpus.key("input_shards"), limit=100).records)


def _status(project: ServedProject, partition: str) -> tuple[str, list[str]]:
    key = {"path": ["stale", "token_shards"]}
    node = project.graphql(STATUS, key=key, partition=partition)["assetNodeOrError"]
    return node["staleStatus"], [cause["reason"] for cause in node["staleCauses"]]
