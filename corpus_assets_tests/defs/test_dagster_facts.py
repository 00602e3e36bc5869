"""What this project relies on in Dagster, each on its own: an upgrade that changes it is noticed here.

No code of the project runs in these tests.
"""

import warnings

import dagster as dg
import pytest
from dagster import DagsterEventType
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

KEYS = dg.DynamicPartitionsDefinition(name="keys")
RANGE = {"dagster/asset_partition_range_start": "a", "dagster/asset_partition_range_end": "d"}


def shards_asset(broken=(), *, events=None):
    """A run of many partitions that reports each by itself and fails at the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=dg.BetaWarning)

        @dg.asset(partitions_def=KEYS, output_required=False, backfill_policy=dg.BackfillPolicy.single_run())
        def shards(context):
            for key in context.partition_keys:
                if key not in broken:
                    yield dg.AssetMaterialization(
                        asset_key="shards", partition=key, tags={"dagster/data_version": f"v-{key}"}
                    )
                    if events is not None:
                        events.append(context.instance.get_materialized_partitions(dg.AssetKey("shards")))
            if broken:
                raise dg.Failure("some failed", allow_retries=False)

    return shards


def run(instance, assets, *, tags=None, selection=None, checks=()):
    definitions = dg.Definitions(assets=assets, asset_checks=checks, jobs=[dg.define_asset_job("all", "*")])
    return definitions.resolve_job_def("all").execute_in_process(
        instance=instance, tags=tags, asset_selection=selection, raise_on_error=False
    )


def materialized(instance):
    return instance.get_materialized_partitions(dg.AssetKey("shards"))


@pytest.fixture
def keyed(instance):
    instance.add_dynamic_partitions("keys", ["a", "b", "c", "d"])
    return instance


def test_a_partition_is_stored_as_it_is_yielded(keyed):
    """A killed run keeps what it had finished."""
    seen = []
    run(keyed, [shards_asset(events=seen)], tags=RANGE)
    assert [len(keys) for keys in seen] == [1, 2, 3, 4]


def test_an_all_good_run_of_yielded_materialisations_succeeds_without_a_second_event_each(keyed):
    assert run(keyed, [shards_asset()], tags=RANGE).success
    assert len(keyed.fetch_materializations(dg.AssetKey("shards"), limit=100).records) == 4


def test_a_failure_that_forbids_retries_is_not_retried(keyed):
    """A retry would repeat the whole range."""
    attempts = []

    @dg.asset(partitions_def=KEYS, output_required=False, retry_policy=dg.RetryPolicy(max_retries=3))
    def shards(context):
        attempts.append(context.partition_keys)
        yield dg.AssetMaterialization(asset_key="shards", partition="a")
        raise dg.Failure("some failed", allow_retries=False)

    assert not run(keyed, [shards], tags=RANGE).success
    assert attempts == [["a", "b", "c", "d"]]


def test_failed_means_planned_in_a_failed_run_and_not_materialised(keyed):
    result = run(keyed, [shards_asset(broken="bc")], tags=RANGE)
    attempts = (
        keyed.event_log_storage.get_latest_asset_partition_materialization_attempts_without_materializations(
            dg.AssetKey("shards")
        )
    )
    assert materialized(keyed) == {"a", "d"}
    assert {key: run_id for key, (run_id, _) in attempts.items()} == dict.fromkeys("bc", result.run_id)


def test_steps_downstream_of_an_output_that_is_not_required_are_skipped_in_the_same_run(keyed):
    @dg.asset(deps=["shards"])
    def index():
        pass

    result = run(keyed, [shards_asset(), index], tags=RANGE)
    assert result.success
    assert {event.step_key for event in result.all_events if event.is_step_skipped} == {"index"}


def test_a_check_beside_an_output_that_is_not_required_does_not_run_in_the_same_run(keyed):
    """So blocking checks sit on the unpartitioned index."""
    ran = []

    @dg.asset_check(asset="shards", blocking=True)
    def sound():
        ran.append("sound")
        return dg.AssetCheckResult(passed=True)

    assert run(keyed, [shards_asset()], tags=RANGE, checks=[sound]).success
    assert ran == []


def test_a_range_holds_every_key_between_its_ends_in_the_order_of_adding(instance):
    instance.add_dynamic_partitions("keys", ["d", "c", "z", "a", "b"])
    run(
        instance,
        [shards_asset()],
        tags=RANGE | {"dagster/asset_partition_range_start": "c", "dagster/asset_partition_range_end": "a"},
    )
    assert materialized(instance) == {"c", "z", "a"}


def test_an_unpartitioned_asset_runs_with_no_partition_present(instance):
    """Completeness is for the asset itself to check."""

    @dg.asset(deps=["shards"])
    def index():
        pass

    assert run(instance, [shards_asset(), index], selection=[dg.AssetKey("index")]).success


def test_a_deleted_key_stays_among_the_materialised_and_comes_back_at_the_end(keyed):
    run(keyed, [shards_asset()], tags=RANGE)
    keyed.delete_dynamic_partition("keys", "b")
    assert "b" not in keyed.get_dynamic_partitions("keys")
    assert "b" in materialized(keyed)
    keyed.add_dynamic_partitions("keys", ["b"])
    assert keyed.get_dynamic_partitions("keys") == ["a", "c", "d", "b"]


def test_any_string_is_taken_as_a_key(instance):
    """So names have to be made safe before they become keys."""
    odd = ["..", "a\nb", "a...b", "[x],y", "n" * 300]
    instance.add_dynamic_partitions("keys", odd)
    assert instance.get_dynamic_partitions("keys") == odd


def test_the_data_versions_of_all_partitions_come_from_one_query(keyed):
    run(keyed, [shards_asset()], tags=RANGE)
    tags = keyed.event_log_storage.get_latest_tags_by_partition(
        dg.AssetKey("shards"), DagsterEventType.ASSET_MATERIALIZATION, ["dagster/data_version"]
    )
    assert {key: found["dagster/data_version"] for key, found in tags.items()} == {
        key: f"v-{key}" for key in "abcd"
    }


def checked_assets(*, severity):
    started = []

    @dg.asset
    def index():
        pass

    @dg.asset_check(asset=index, blocking=True)
    def sound():
        return dg.AssetCheckResult(passed=False, severity=severity)

    @dg.asset(deps=[index])
    def training():
        started.append("training")

    return [index, training], [sound], started


def test_a_failed_blocking_check_holds_back_the_same_run_but_not_a_later_one(instance):
    assets, checks, started = checked_assets(severity=dg.AssetCheckSeverity.ERROR)
    assert not run(instance, assets, checks=checks).success
    assert started == []
    run(instance, assets, checks=checks, selection=[dg.AssetKey("training")])
    assert started == ["training"]


def test_a_warning_holds_back_nothing(instance):
    assets, checks, started = checked_assets(severity=dg.AssetCheckSeverity.WARN)
    assert run(instance, assets, checks=checks).success
    assert started == ["training"]


def test_a_blocking_check_that_says_nothing_holds_back_nothing(instance):
    assets, _, started = checked_assets(severity=dg.AssetCheckSeverity.ERROR)
    spec = dg.AssetCheckSpec("sound", asset="index", blocking=True)

    @dg.multi_asset_check(specs=[spec], can_subset=True)
    def silent():
        yield from ()

    assert run(instance, assets, checks=[silent]).success
    assert started == ["training"]


def test_a_check_that_crashes_stays_planned(instance):
    @dg.asset
    def index():
        pass

    @dg.asset_check(asset=index, blocking=True)
    def sound():
        raise ValueError("crashed")

    run(instance, [index], checks=[sound])
    record = instance.get_latest_asset_check_evaluation_record(
        dg.AssetCheckKey(dg.AssetKey("index"), "sound")
    )
    assert record.status is AssetCheckExecutionRecordStatus.PLANNED


@pytest.mark.parametrize("in_the_asset", [True, False])
def test_an_evaluation_points_at_the_materialisation_that_it_looked_at(instance, in_the_asset):
    key = dg.AssetCheckKey(dg.AssetKey("index"), "sound")
    if in_the_asset:

        @dg.asset(check_specs=[dg.AssetCheckSpec("sound", asset="index")])
        def index():
            return dg.MaterializeResult(check_results=[dg.AssetCheckResult(passed=True)])

        checks = []
    else:

        @dg.asset
        def index():
            pass

        @dg.asset_check(asset=index)
        def sound():
            return dg.AssetCheckResult(passed=True)

        checks = [sound]
    for _ in range(2):
        run(instance, [index], checks=checks)
        newest = instance.fetch_materializations(key.asset_key, limit=1).records[0].storage_id
        evaluation = instance.get_latest_asset_check_evaluation_record(key).evaluation
        assert evaluation.target_materialization_data.storage_id == newest


def test_event_ids_grow_across_runs_and_runless_events(keyed):
    """The pointer that a shard records is an id; what is observed later has a greater one."""
    run(keyed, [shards_asset()], tags=RANGE)
    before = keyed.event_log_storage.get_maximum_record_id()
    keyed.report_runless_asset_event(dg.AssetObservation(asset_key="inputs", partition="a"))
    (record,) = keyed.fetch_observations(dg.AssetKey("inputs"), limit=1).records
    assert record.storage_id > before


def test_a_required_output_beside_yielded_materialisations_fails_the_run(keyed):
    """So the output is not required, whatever that costs downstream."""

    @dg.asset(partitions_def=KEYS)
    def shards(context):
        for key in context.partition_keys:
            yield dg.AssetMaterialization(asset_key="shards", partition=key)

    result = run(keyed, [shards], tags=RANGE)
    assert not result.success
    assert materialized(keyed) == set("abcd")


def test_one_result_for_a_range_marks_every_partition_of_it(keyed):
    """So each partition is reported as a materialisation of its own."""

    @dg.asset(partitions_def=KEYS)
    def shards(context):
        yield dg.MaterializeResult()
        raise dg.Failure("the others are not built", allow_retries=False)

    assert not run(keyed, [shards], tags=RANGE).success
    assert materialized(keyed) == set("abcd")


@pytest.mark.parametrize(("tagged", "expected"), [(True, StaleStatus.FRESH), (False, StaleStatus.STALE)])
def test_a_partition_is_fresh_only_with_tags_that_name_its_input(keyed, tagged, expected):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")

        @dg.observable_source_asset(partitions_def=KEYS)
        def inputs():
            return dg.DataVersionsByPartition({})

        @dg.asset(partitions_def=KEYS, deps=["inputs"], code_version="c")
        def shards():
            pass

        graph = dg.Definitions(assets=[inputs, shards]).resolve_asset_graph()
    version = {"dagster/data_version": "v1", "dagster/data_version_is_user_provided": "true"}
    keyed.report_runless_asset_event(dg.AssetObservation(asset_key="inputs", partition="a", tags=version))
    pointer = keyed.event_log_storage.get_maximum_record_id()
    built = version | {"dagster/code_version": "c"}
    named = {"dagster/input_data_version/inputs": "v1", "dagster/input_event_pointer/inputs": str(pointer)}
    keyed.report_runless_asset_event(
        dg.AssetMaterialization(asset_key="shards", partition="a", tags=built | (named if tagged else {}))
    )
    resolver = CachingStaleStatusResolver(keyed, graph, LoadingContextForTest(keyed))
    assert resolver.get_status(dg.AssetKey("shards"), "a") is expected
