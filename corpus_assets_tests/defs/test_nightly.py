"""The nightly rebuild, tick by tick: what it launches, what it leaves, that it loses nothing.

The requests of a tick are executed as the daemon would launch them; served/ has the daemon itself.
"""

import datetime
import json
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus

from corpus_assets.defs import nightly
from corpus_assets.defs.corpus import NIGHT_TAG, PHASE_TAG
from corpus_assets.defs.factory import corpus_definitions
from corpus_assets.defs.jobs import TAIL
from corpus_assets.shards.index import current_shard, load_index
from corpus_assets.shards.manifest import load_manifest
from corpus_assets.shards.release import load_release
from corpus_assets_tests.defs.conftest import Built, break_input, toy_config, write_input

FIRST_NIGHT = datetime.datetime(2024, 3, 1, 2, tzinfo=datetime.UTC)


class Nights:
    """The schedule and its release sensor, evaluated on a corpus as the daemon would."""

    def __init__(self, built):
        self.built = built
        self._next = FIRST_NIGHT
        self._definitions = corpus_definitions(built.config)

    def tick(self):
        """The requests of one night's tick."""
        at, self._next = self._next, self._next + datetime.timedelta(days=1)
        with dg.build_schedule_context(instance=self.built.instance, scheduled_execution_time=at) as context:
            answer = self._definitions.resolve_schedule_def("toy_nightly")(context)
        return answer if isinstance(answer, list) else [answer]

    def after_builds(self):
        """What the release sensor says."""
        with dg.build_sensor_context(instance=self.built.instance) as context:
            return self._definitions.resolve_sensor_def("toy_release_after_build")(context)

    def execute(self, request):
        """Run a request, with the tags that it carries."""
        return self._definitions.resolve_job_def("toy_corpus").execute_in_process(
            instance=self.built.instance,
            asset_selection=request.asset_selection,
            tags=request.tags,
            raise_on_error=False,
        )

    def whole_night(self):
        """One night from the tick to the end of the release; returns the partitions that were launched."""
        requests = self.tick()
        if isinstance(requests[0], dg.SkipReason):
            return []
        results = [self.execute(request) for request in requests]
        if requests[0].tags[PHASE_TAG] == "build":
            self.execute(self.after_builds())
        assert results
        return launched(requests)


@pytest.fixture
def nights(built):
    return Nights(built)


@pytest.fixture
def first_nights(instance, config):
    return Nights(Built(instance, config))


def launched(requests):
    """(first key, last key) of each build run."""
    ends = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
    return [tuple(request.tags[end] for end in ends) for request in requests if ends[0] in request.tags]


def test_the_first_night_builds_all_and_releases(first_nights):
    built = first_nights.built
    assert first_nights.whole_night() == [("a.jsonl", "d.jsonl")]
    assert load_release(built.config.root).fingerprint == load_index(built.config.index_path).fingerprint


def test_a_night_with_nothing_to_do_launches_nothing(nights):
    (answer,) = nights.tick()
    assert isinstance(answer, dg.SkipReason)
    assert answer.skip_message == "every partition is up to date and the index is released"


@pytest.mark.parametrize(
    "options",
    [
        {"format": "chat", "text_field": "messages"},
        {"fields": {"weight": {"from": "weight", "dtype": "float32"}}},
    ],
)
def test_nor_does_one_of_a_corpus_whose_records_are_more_than_text(instance, tmp_path, options):
    config = toy_config(tmp_path, **options)
    record = {"text": "4", "messages": [{"role": "assistant", "content": "4"}], "weight": 0.5}
    Path(config.input).mkdir(parents=True)
    (Path(config.input) / "a.jsonl").write_text(f"{json.dumps(record)}\n" * 20)
    nights = Nights(Built(instance, config))
    assert nights.whole_night() == [("a.jsonl", "a.jsonl")]
    assert load_release(config.root).fingerprint == load_index(config.index_path).fingerprint
    (answer,) = nights.tick()
    assert isinstance(answer, dg.SkipReason)


def test_exactly_the_changed_new_and_failed_partitions_are_built_one_run_for_each_range(nights):
    write_input(nights.built.input("a.jsonl"), word="other")
    write_input(nights.built.input("c.jsonl"), word="other")
    write_input(nights.built.input("e.jsonl"))
    nights.built.input("b.jsonl").touch()
    requests = nights.tick()
    assert launched(requests) == [("a.jsonl", "a.jsonl"), ("c.jsonl", "c.jsonl"), ("e.jsonl", "e.jsonl")]
    assert len({request.run_key for request in requests}) == 3
    assert {tuple(request.asset_selection) for request in requests} == {
        (nights.built.corpus.key("token_shards"),)
    }


def test_run_keys_of_different_nights_differ(nights):
    break_input(nights.built.input("a.jsonl"))
    assert nights.tick()[0].run_key != nights.tick()[0].run_key


def test_a_removed_input_has_the_index_written_anew(nights):
    nights.built.input("b.jsonl").unlink()
    (request,) = nights.tick()
    assert request.tags[PHASE_TAG] == "release"
    assert nights.execute(request).success
    assert [shard.key for shard in load_index(nights.built.config.index_path).shards] == [
        "a.jsonl",
        "c.jsonl",
        "d.jsonl",
    ]


def test_a_broken_input_is_tried_once_a_night(nights):
    break_input(nights.built.input("b.jsonl"))
    for _ in range(3):
        assert nights.whole_night() == [("b.jsonl", "b.jsonl")]
        answer = nights.after_builds()
        assert isinstance(answer, dg.SkipReason)
        assert "its release has run" in answer.skip_message


def test_a_broken_change_is_not_released_with_its_older_shard(nights):
    before = load_release(nights.built.config.root)
    break_input(nights.built.input("b.jsonl"))
    nights.whole_night()
    assert load_release(nights.built.config.root) == before
    failed = nights.built.instance.get_latest_asset_check_evaluation_record(
        nights.built.corpus.check("shard_index", "every_input_shard_is_indexed")
    )
    assert failed.evaluation.description == "built from an older input: b.jsonl"


def test_a_mended_input_is_built_the_next_night(nights):
    break_input(nights.built.input("b.jsonl"))
    nights.whole_night()
    write_input(nights.built.input("b.jsonl"), word="mended")
    assert nights.whole_night() == [("b.jsonl", "b.jsonl")]
    assert nights.whole_night() == []


def test_a_change_that_lands_while_its_build_runs_is_built_the_next_night(nights):
    """The tick has looked, the run has not read yet; or it has read, and the change comes after."""
    write_input(nights.built.input("a.jsonl"), word="second")
    (request,) = nights.tick()
    nights.execute(request)  # builds the second content
    write_input(nights.built.input("a.jsonl"), word="third")  # before the release of the same night
    assert nights.execute(nights.after_builds()).success
    assert nights.whole_night() == [("a.jsonl", "a.jsonl")]
    assert _holds_present_input(nights.built, "a.jsonl")
    assert nights.whole_night() == []


def test_a_change_between_tick_and_run_is_not_built_twice(nights):
    write_input(nights.built.input("a.jsonl"), word="second")
    (request,) = nights.tick()
    write_input(nights.built.input("a.jsonl"), word="third")
    assert nights.execute(request).success
    nights.execute(nights.after_builds())
    assert _holds_present_input(nights.built, "a.jsonl")
    assert nights.whole_night() == []


def test_an_input_that_arrives_during_the_night_waits_for_the_next(nights):
    write_input(nights.built.input("a.jsonl"), word="second")
    (request,) = nights.tick()
    nights.execute(request)
    write_input(nights.built.input("e.jsonl"))
    assert nights.execute(nights.after_builds()).success
    assert nights.whole_night() == [("e.jsonl", "e.jsonl")]


def test_the_release_waits_for_all_builds_of_the_night(nights):
    for name in ("a.jsonl", "c.jsonl"):
        write_input(nights.built.input(name), word="other")
    first, second = nights.tick()
    queued = nights.built.instance.create_run_for_job(
        corpus_definitions(nights.built.config).resolve_job_def("toy_corpus"),
        asset_selection=frozenset(second.asset_selection),
        tags=second.tags,
    )
    nights.execute(first)
    answer = nights.after_builds()
    assert "1 of 2 runs have not ended" in answer.skip_message
    nights.built.instance.report_run_failed(queued)
    assert nights.after_builds().tags[PHASE_TAG] == "release"


def test_the_release_runs_the_tail_and_training_only_where_configured(nights, built):
    def selected(config):
        corpus = Built(built.instance, config).corpus
        return [key.path[-1] for key in nightly.release_request(corpus, "night").asset_selection]

    schedule = built.config.schedule.model_copy(update={"train": True})
    assert selected(built.config) == list(TAIL)
    assert selected(built.config.model_copy(update={"schedule": schedule})) == [*TAIL, "training"]


def test_partitions_that_a_run_is_at_are_left_to_it(nights):
    write_input(nights.built.input("a.jsonl"), word="other")
    (request,) = nights.tick()
    run = nights.built.instance.create_run_for_job(
        corpus_definitions(nights.built.config).resolve_job_def("toy_corpus"),
        asset_selection=frozenset(request.asset_selection),
        tags=request.tags,
    )
    (answer,) = nights.tick()
    assert answer.skip_message == "1 partitions are being built, the others are up to date"
    nights.built.instance.report_run_failed(run)
    assert launched(nights.tick()) == [("a.jsonl", "a.jsonl")]


def test_partitions_that_a_backfill_has_yet_to_build_are_left_to_it(nights):
    built = nights.built
    backfill = built.open_backfill("a.jsonl", "d.jsonl")
    for name in ("a.jsonl", "b.jsonl"):
        write_input(built.input(name), word="other")
    assert launched(nights.tick()) == [("b.jsonl", "b.jsonl")]
    built.instance.update_backfill(backfill.with_status(BulkActionStatus.COMPLETED_FAILED))
    assert launched(nights.tick()) == [("a.jsonl", "b.jsonl")]


@pytest.mark.parametrize("route", ["night", "observe"])
def test_a_partition_of_a_backfill_stays_until_it_has_ended(nights, route):
    """Dagster gives up a backfill whose partition is deleted under it."""
    built = nights.built
    definitions = corpus_definitions(built.config)

    def look():
        if route == "night":
            nights.tick()
        else:
            assert (
                definitions.resolve_job_def("toy_observe").execute_in_process(instance=built.instance).success
            )
        return built.instance.get_dynamic_partitions("toy_input_shards")

    backfill = built.open_backfill("d.jsonl")
    for name in ("c.jsonl", "d.jsonl"):
        built.input(name).unlink()
    assert look() == ["a.jsonl", "b.jsonl", "d.jsonl"]
    built.instance.update_backfill(backfill.with_status(BulkActionStatus.COMPLETED_FAILED))
    assert look() == ["a.jsonl", "b.jsonl"]


def test_more_than_a_tick_can_read_is_left_to_the_build_runs(nights, monkeypatch):
    nights.tick()  # the copied files of this test are read once
    monkeypatch.setattr(nightly, "READ_IN_TICK", 0)
    write_input(nights.built.input("a.jsonl"), word="other")
    nights.built.input("b.jsonl").touch()
    write_input(nights.built.input("e.jsonl"))
    manifest = load_manifest(nights.built.config.root)
    requests = nights.tick()
    assert load_manifest(nights.built.config.root).files == manifest.files  # nothing was read
    assert launched(requests) == [("a.jsonl", "b.jsonl"), ("e.jsonl", "e.jsonl")]
    for request in requests:
        assert nights.execute(request).success
    assert nights.execute(nights.after_builds()).success
    assert nights.whole_night() == []


def test_a_release_that_failed_is_tried_again_the_next_night(nights):
    write_input(nights.built.input("a.jsonl"), word="other")
    (request,) = nights.tick()
    nights.execute(request)
    release = nights.after_builds()
    run = nights.built.instance.create_run_for_job(
        corpus_definitions(nights.built.config).resolve_job_def("toy_corpus"),
        asset_selection=frozenset(release.asset_selection),
        tags=release.tags,
    )
    nights.built.instance.report_run_failed(run)
    (again,) = nights.tick()
    assert again.tags[PHASE_TAG] == "release"
    assert again.tags[NIGHT_TAG] != release.tags[NIGHT_TAG]


def test_cron_and_time_zone_come_from_the_configuration_and_the_schedule_is_off(config):
    settings = config.schedule.model_copy(update={"cron": "30 4 * * 1", "timezone": "Europe/Berlin"})
    definitions = corpus_definitions(config.model_copy(update={"schedule": settings}))
    schedule = definitions.resolve_schedule_def("toy_nightly")
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("30 4 * * 1", "Europe/Berlin")
    assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED


def _holds_present_input(built, key):
    return (
        current_shard(built.config.root, key).input_sha256
        == load_manifest(built.config.root)[key].fingerprint
    )
