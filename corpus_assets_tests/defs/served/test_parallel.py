"""Runs of one backfill side by side, once the pool of the corpus allows it."""

import pytest
from dagster._core.execution.backfill import BulkActionStatus

from corpus_assets.defs.corpus import Corpus
from corpus_assets.shards.index import load_index
from corpus_assets.shards.release import load_release
from corpus_assets_tests.defs.served.backfills import BROKEN, HELD

pytestmark = pytest.mark.browser


def test_runs_of_a_backfill_overlap_and_build_each_partition_once(project, backfills):
    corpus, seen = Corpus(project.corpora["many"]), backfills.result(timeout=900)
    assert {"m2.jsonl", "m4.jsonl", "m5.jsonl"} <= seen.beside
    assert HELD not in seen.beside
    assert seen.first is BulkActionStatus.COMPLETED_FAILED
    assert seen.after_first.failed == seen.after_first.missing == {BROKEN}
    assert not seen.indexed_after_first
    assert seen.second is BulkActionStatus.COMPLETED_SUCCESS
    assert seen.retried == [BROKEN]
    assert not seen.after_second.failed | seen.after_second.missing
    events = project.instance.fetch_materializations(corpus.key("token_shards"), limit=100).records
    assert sorted(event.partition_key for event in events) == [f"m{number}.jsonl" for number in range(6)]
    assert {event.asset_materialization.metadata["reused"].value for event in events} == {False}
    (index,) = project.instance.fetch_materializations(corpus.key("shard_index"), limit=100).records
    assert index.timestamp > max(event.timestamp for event in events)
    assert load_release(corpus.config.root).fingerprint == load_index(corpus.config.root).fingerprint
