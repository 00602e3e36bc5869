"""What users come to the UI for, by clicking: materialise one, backfill all, re-execute the failed ones."""

from pathlib import Path

import pytest
from dagster import DagsterRunStatus
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus
from playwright.sync_api import expect

from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.partitions import RANGE_END_TAG, RANGE_START_TAG, partition_states
from corpus_assets.shards.index import current_shard
from corpus_assets.sources.keys import encode_key
from corpus_assets_tests.defs.conftest import write_input
from corpus_assets_tests.defs.served.conftest import BROKEN, ODD_NAMES

pytestmark = pytest.mark.browser


def test_materialise_one_partition_with_an_odd_name(ui, project):
    config, name = project.corpora["odd"], "s 1,[x] 50%.jsonl"
    key = encode_key(name)
    dialog = ui.materialize_dialog("odd")
    ui.choose_partition(dialog, key)
    ui.launch(dialog, "Launch 1 run")
    ui.partition_counts("odd", {"Materialized": 1, "Missing": len(ODD_NAMES) - 1})
    ui.open(f"/assets/odd/token_shards?view=partitions&partition={key}")
    expect(ui.page.get_by_text("Materialized", exact=True)).to_be_visible()
    expect(ui.page.get_by_text(name, exact=True)).to_be_visible()  # the original name, in the metadata
    expect(ui.page.get_by_text("document_lengths", exact=True)).to_be_visible()
    expect(ui.page.get_by_text("████████████████████████")).to_be_visible()
    ui.picture("partition-materialised")
    assert current_shard(config.root, key).document_count == 20
    assert current_shard(config.root, encode_key("a.jsonl")) is None


def test_odd_names_are_built_by_one_run_and_told_apart(project):
    root, keys = project.corpora["odd"].root, project.instance.get_dynamic_partitions("odd_input_shards")
    run_id = project.launch("odd_build", tags={RANGE_START_TAG: keys[0], RANGE_END_TAG: keys[-1]})
    assert project.wait_for_end(run_id) is DagsterRunStatus.SUCCESS
    assert [current_shard(root, encode_key(name)).input_name for name in ODD_NAMES] == list(ODD_NAMES)


def test_backfill_fifty_see_three_fail_and_re_execute_from_failure(ui, project):
    corpus = Corpus(project.corpora["fifty"])
    dialog = ui.materialize_dialog("fifty")
    dialog.get_by_role("button", name="All", exact=True).click()
    ui.launch(dialog, "Launch backfill")
    ui.partition_counts("fifty", {"Failed": 3, "Materialized": 47, "Missing": 0})
    ui.picture("backfill-three-failed")
    assert partition_states(project.instance, corpus).failed == set(BROKEN)
    told = project.wait_for(lambda: [note for note in project.failures if note["corpus"] == "fifty"])
    assert [sorted(note["partitions"]) for note in told] == [list(BROKEN)]

    for name in BROKEN:
        write_input(Path(corpus.config.input) / name, documents=3)
    dialog = ui.materialize_dialog("fifty")
    dialog.get_by_role("button", name="Failed and missing", exact=True).click()
    expect(dialog.get_by_text("3 partitions", exact=True)).to_be_visible()
    dialog.get_by_role("button", name="Cancel").click()

    (backfill,) = project.wait_for(lambda: ended_backfills(project, corpus))
    ui.open(f"/runs/b/{backfill.backfill_id}?tab=runs")
    ui.header_menu().get_by_text("Re-execute from failure").click()
    ui.partition_counts("fifty", {"Failed": 0, "Materialized": 50, "Missing": 0})
    ui.picture("re-executed-from-failure")
    again = newest_backfill(project, corpus)
    assert again.asset_backfill_data.target_subset.get_partitions_subset(
        corpus.key("token_shards")
    ).get_partition_keys() == set(BROKEN)
    per_key = dict.fromkeys(BROKEN, 0) | {"s00.jsonl": 0}
    for record in project.instance.fetch_materializations(corpus.key("token_shards"), limit=200).records:
        if record.partition_key in per_key:
            per_key[record.partition_key] += 1
    assert set(per_key.values()) == {1}  # nothing was built twice


def ended_backfills(project, corpus):
    states = [BulkActionStatus.COMPLETED_FAILED, BulkActionStatus.COMPLETED_SUCCESS]
    found = project.instance.get_backfills(filters=BulkActionsFilter(statuses=states))
    return [item for item in found if corpus.key("token_shards") in item.asset_selection]


def newest_backfill(project, corpus):
    return next(
        item
        for item in project.instance.get_backfills()
        if corpus.key("token_shards") in item.asset_selection
    )
