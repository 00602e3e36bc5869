"""A corpus that another project's YAML added, built by the same daemon and read by that project's own asset."""

import pytest
from dagster import AssetKey, DagsterRunStatus

from corpus_assets.defs.partitions import RANGE_END_TAG, RANGE_START_TAG
from corpus_assets.shards.index import load_index
from corpus_assets_tests.defs.served.component import MINE

pytestmark = pytest.mark.browser


def test_a_component_is_built_released_and_read_by_the_users_own_asset(project):
    keys = project.wait_for(lambda: project.instance.get_dynamic_partitions("web_input_shards"))
    assert keys == ["a.jsonl", "b.jsonl"]

    early = project.launch("__ASSET_JOB", assets=["report"], location=MINE)
    assert project.wait_for_end(early) is DagsterRunStatus.FAILURE
    assert "shards.json" in project.step_failure(early).error.message

    for job, tags in (
        ("web_build", {RANGE_START_TAG: keys[0], RANGE_END_TAG: keys[-1]}),
        ("web_release", {}),
    ):
        run_id = project.launch(job, tags=tags, location=MINE)
        assert project.wait_for_end(run_id) is DagsterRunStatus.SUCCESS
    read = project.launch("__ASSET_JOB", assets=["report"], location=MINE)
    assert project.wait_for_end(read) is DagsterRunStatus.SUCCESS
    (event,) = project.instance.fetch_materializations(AssetKey("report"), limit=10).records
    index = load_index(project.folder / "mine_project" / "out")
    found = {name: value.value for name, value in event.asset_materialization.metadata.items()}
    assert (found["tokens"], found["documents"]) == (index.token_count, 40)
    assert [shard.key for shard in index.shards] == keys
