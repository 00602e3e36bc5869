"""The gate: by every route, and against every evaluation that is no pass of the present index."""

import dagster as dg
import pytest
from dagster import AssetCheckEvaluation
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationPlanned,
    AssetCheckEvaluationTargetMaterializationData,
)
from dagster._core.events import DagsterEvent, DagsterEventType
from dagster._core.events.log import EventLogEntry

from corpus_assets import MmapTokenStore
from corpus_assets.defs.factory import corpus_definitions
from corpus_assets.defs.gate import blocking_checks, gate
from corpus_assets.defs.jobs import tail_keys
from corpus_assets.defs.launch import build_corpus
from corpus_assets.errors import NotReleasedError
from corpus_assets.shards.index import load_index
from corpus_assets.shards.release import load_release, release_record
from corpus_assets_tests.defs.conftest import write_input

ALL = "shard_index", "shard_digests", "corpus_statistics", "loader_throughput", "training_release", "training"


def materialize(built, *assets):
    """Launch assets by themselves, as a click on each would."""
    return (
        corpus_definitions(built.config)
        .resolve_job_def("toy_corpus")
        .execute_in_process(
            instance=built.instance,
            asset_selection=[built.corpus.key(asset) for asset in assets],
            raise_on_error=False,
        )
    )


def failure_of(result, asset):
    events = [
        event for event in result.all_events if event.is_step_failure and event.step_key == f"toy__{asset}"
    ]
    return events[0].step_failure_data.user_failure_data.description


def rebuild(built, name):
    """Change an input and build its partition, index untouched."""
    write_input(built.input(name), word="other")
    job = corpus_definitions(built.config).resolve_job_def("toy_build")
    assert job.execute_in_process(instance=built.instance, partition_key=name).success


def flip_a_byte(built, key="b.jsonl"):
    """Change one token on disk, the size of the file unchanged."""
    shard = next(shard for shard in load_index(built.config.index_path).shards if shard.key == key)
    with (built.config.root / shard.path).open("r+b") as file:
        file.seek(shard.extents["tokens"])
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))


def verdicts(built):
    index = load_index(built.config.index_path)
    return {item.check: (item.passed, item.detail) for item in gate(built.instance, built.corpus, index)}


def test_training_alone_runs_on_a_released_corpus(built):
    assert materialize(built, "training").success


def test_a_flipped_byte_fails_the_digest_check_and_training_in_the_same_run_does_not_start(built):
    flip_a_byte(built)
    result = materialize(built, *ALL)
    assert not result.success
    check = next(item for item in result.get_asset_check_evaluations() if item.check_name == "digests_match")
    assert not check.passed
    assert "1 of 4 shards differ: b.jsonl" in check.description
    started = {event.step_key for event in result.all_events if event.is_step_start}
    assert "toy__shard_digests" in started
    assert not started & {"toy__training_release", "toy__training"}


@pytest.mark.parametrize("asset", ["training", "training_release"])
def test_after_a_failed_digest_check_neither_starts_alone(built, asset):
    flip_a_byte(built)
    materialize(built, "shard_digests")
    before = release_record(built.config.root)
    result = materialize(built, asset)
    assert not result.success
    message = failure_of(result, asset)
    assert "1 of 5 blocking checks did not pass" in message
    assert "NOT PASSED  digests_match: failed: 1 of 4 shards differ: b.jsonl" in message
    assert "passed  one_tokenizer: byte" in message
    assert release_record(built.config.root) == before
    # Nor does a trainer that knows nothing of Dagster.
    with pytest.raises(NotReleasedError, match="was released, but is damaged"):
        MmapTokenStore(built.config.root, require_release=True)


def test_a_corpus_that_was_never_checked_is_not_released(built):
    index = load_index(built.config.index_path)
    with dg.DagsterInstance.ephemeral() as fresh:
        evidence = gate(fresh, built.corpus, index)
    assert [item.check for item in evidence] == [key.name for key in blocking_checks(built.corpus)]
    assert {(item.passed, item.detail) for item in evidence} == {(False, "never evaluated")}


def test_an_evaluation_of_an_earlier_index_is_no_pass(built):
    rebuild(built, "a.jsonl")
    assert materialize(built, "shard_index").success
    found = verdicts(built)
    assert found["one_tokenizer"][0]  # evaluated with the new index
    assert not found["digests_match"][0]
    assert found["digests_match"][1].endswith("not the present one")


def test_a_new_index_needs_a_new_release_and_the_old_one_stays_valid(built):
    old = load_index(built.config.index_path)
    write_input(built.input("a.jsonl"), word="other")
    build_corpus(built.instance, built.config)
    new = load_index(built.config.index_path)
    assert old.fingerprint != new.fingerprint
    assert load_release(built.config.root).fingerprint == new.fingerprint
    assert load_release(built.config.root, old.fingerprint).fingerprint == old.fingerprint


def test_training_refuses_an_index_that_was_not_released(built):
    rebuild(built, "a.jsonl")
    materialize(built, "shard_index")
    result = materialize(built, "training")
    assert not result.success
    assert "NOT PASSED  digests_match: evaluated index" in failure_of(result, "training")


def test_training_asks_for_the_release_file_itself(built):
    (built.config.root / "releases" / f"{load_index(built.config.index_path).fingerprint}.json").unlink()
    result = materialize(built, "training")
    assert not result.success
    assert "expected one for index" in failure_of(result, "training")


def test_a_planned_evaluation_is_no_pass(built):
    key = built.corpus.check("shard_digests", "digests_match")
    planned = AssetCheckEvaluationPlanned(asset_key=key.asset_key, check_name=key.name)
    _store(built.instance, DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED, planned)
    passed, detail = verdicts(built)["digests_match"]
    assert not passed
    assert detail == "its evaluation in run planned-run did not finish"
    assert not materialize(built, "training").success


def test_an_evaluation_of_an_older_materialisation_is_no_pass(built):
    key = built.corpus.check("shard_digests", "digests_match")
    index = load_index(built.config.index_path)
    older = AssetCheckEvaluation(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=True,
        metadata={"index_fingerprint": index.fingerprint},
        target_materialization_data=AssetCheckEvaluationTargetMaterializationData(
            storage_id=1, run_id="r", timestamp=1.0
        ),
        blocking=True,
    )
    built.instance.report_runless_asset_event(older)
    assert verdicts(built)["digests_match"] == (False, "evaluated an older materialisation")


def test_an_evaluation_that_names_no_index_is_no_pass(built):
    """Someone reports a pass by hand, through the API or from another tool."""
    key = built.corpus.check("shard_digests", "digests_match")
    newest = built.instance.fetch_materializations(key.asset_key, limit=1).records[0]
    target = AssetCheckEvaluationTargetMaterializationData(
        storage_id=newest.storage_id, run_id=newest.run_id, timestamp=newest.timestamp
    )
    by_hand = AssetCheckEvaluation(
        asset_key=key.asset_key, check_name=key.name, passed=True, target_materialization_data=target
    )
    built.instance.report_runless_asset_event(by_hand)
    assert verdicts(built)["digests_match"] == (False, "evaluated index (none), not the present one")


def test_thresholds_block_only_where_configured(built):
    strict = {"min_documents": 1000, "blocking": False}
    lenient = built.config.model_copy(
        update={"statistics": built.config.statistics.model_copy(update=strict)}
    )
    blocking = lenient.model_copy(
        update={"statistics": lenient.statistics.model_copy(update={"blocking": True})}
    )
    for config, success in ((lenient, True), (blocking, False)):
        result = (
            corpus_definitions(config)
            .resolve_job_def("toy_corpus")
            .execute_in_process(
                instance=built.instance, asset_selection=tail_keys(built.corpus), raise_on_error=False
            )
        )
        found = {item.check_name: item.passed for item in result.get_asset_check_evaluations()}
        assert found["enough_documents"] is False
        assert result.success is success


def _store(instance, event_type, data):
    event = DagsterEvent(event_type_value=event_type.value, job_name="j", event_specific_data=data)
    instance.handle_new_event(
        EventLogEntry(
            error_info=None,
            level=10,
            user_message="",
            run_id="planned-run",
            timestamp=2e9,
            job_name="j",
            dagster_event=event,
        )
    )
