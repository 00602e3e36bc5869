"""Runs launched past the UI's dialogs, through the API: what they may not do."""

import urllib.error

import pytest
from dagster import DagsterRunStatus, RunsFilter

from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.partitions import RANGE_END_TAG, RANGE_START_TAG, partition_states


def test_the_daemon_stores_what_the_discovery_sensors_observed(project):
    """Stale marks are computed from it; the inputs of `slow` are so many bytes that a run reads them."""

    def observed(name):
        inputs = Corpus(project.corpora[name]).key("input_shards")
        return {
            record.partition_key for record in project.instance.fetch_observations(inputs, limit=100).records
        }

    project.wait_for(lambda: observed("many") == {f"m{number}.jsonl" for number in range(6)})
    project.wait_for(lambda: observed("slow") == {"big.jsonl", "huge.jsonl", "small.jsonl"})


def test_training_launched_through_the_api_refuses_a_corpus_without_a_release(project):
    run_id = project.launch("slow_corpus", assets=["slow/training"])
    assert project.wait_for_end(run_id) is DagsterRunStatus.FAILURE
    assert "shards.json" in project.step_failure(run_id).user_failure_data.description


def test_an_unknown_partition_fails_by_name_and_leaves_no_trace(project):
    corpus = Corpus(project.corpora["slow"])
    run_id = project.launch("slow_build", tags={"dagster/partition": "nope.jsonl"})
    assert project.wait_for_end(run_id) is DagsterRunStatus.FAILURE
    assert "Nonexistent partition keys" in project.step_failure(run_id).error.to_string()
    assert not list(corpus.config.root.rglob("nope.jsonl*"))
    states = partition_states(project.instance, corpus)
    assert "nope.jsonl" not in {*states.keys, *states.failed, *states.missing}


def test_a_range_with_an_unknown_end_is_refused(project):
    tags = {RANGE_START_TAG: "small.jsonl", RANGE_END_TAG: "nope.jsonl"}
    with pytest.raises(urllib.error.HTTPError):
        project.launch("slow_build", tags=tags)
    (left,) = project.instance.get_runs(RunsFilter(tags=tags))
    assert left.status is DagsterRunStatus.NOT_STARTED  # so Dagster leaves it, for ever
