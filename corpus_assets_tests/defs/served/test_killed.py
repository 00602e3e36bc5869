"""kill -9 of a run's worker, with the real daemon around it."""

import os
import signal

from dagster import DagsterRunStatus

from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.partitions import RANGE_END_TAG, RANGE_START_TAG, partition_states
from corpus_assets.defs.process import PROCESS_TAG
from corpus_assets.shards.index import current_shard

ALL = {RANGE_START_TAG: "big.jsonl", RANGE_END_TAG: "small.jsonl"}


def test_a_killed_worker_fails_what_it_had_not_finished_and_nothing_else(project):
    corpus = Corpus(project.corpora["slow"])
    run_id = project.launch("slow_build", tags=ALL)
    # The largest is built first: kill the worker when it is done and the next one is being built.
    project.wait_for(lambda: current_shard(corpus.config.root, "huge.jsonl"))
    os.kill(int(project.instance.get_run_by_id(run_id).tags[PROCESS_TAG].split(":")[1]), signal.SIGKILL)
    assert project.wait_for_end(run_id) is DagsterRunStatus.FAILURE
    states = partition_states(project.instance, corpus)
    assert states.in_progress == set()
    assert states.failed == states.missing
    assert states.failed

    again = [project.launch("slow_build", tags=ALL) for _ in range(2)]
    assert [project.wait_for_end(run_id) for run_id in again] == [DagsterRunStatus.SUCCESS] * 2
    one, two = sorted(project.run_times(run_id) for run_id in again)
    assert one.end <= two.start  # the limit of a pool is 1
    assert not partition_states(project.instance, corpus).missing
    newest = project.instance.fetch_materializations(corpus.key("token_shards"), limit=6).records[3:]
    reused = {event.partition_key: event.asset_materialization.metadata["reused"].value for event in newest}
    assert reused["huge.jsonl"] is True
    assert current_shard(corpus.config.root, "small.jsonl").document_count == 20
