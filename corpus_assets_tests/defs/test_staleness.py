"""What Dagster shows as stale, asked the way the UI asks: partition by partition."""

import warnings

import dagster as dg
import pytest
from dagster import DagsterEventType
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest

from corpus_assets.defs import observation, token_shards
from corpus_assets.defs.factory import corpus_definitions
from corpus_assets.defs.launch import build_corpus
from corpus_assets.defs.observation import discover, record
from corpus_assets.defs.partitions import latest_versions
from corpus_assets_tests.defs.conftest import Built, write_input


def stale(built, config=None):
    """The partitions that the UI marks as stale."""
    definitions = corpus_definitions(config or built.config)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = definitions.resolve_asset_graph()
    resolver = CachingStaleStatusResolver(built.instance, graph, LoadingContextForTest(built.instance))
    keys = built.instance.get_dynamic_partitions("toy_input_shards")
    statuses = {key: resolver.get_status(built.corpus.key("token_shards"), key) for key in keys}
    return {key for key, status in statuses.items() if status is StaleStatus.STALE}


def look(built):
    """What the discovery sensor does each minute."""
    record(built.instance, built.corpus, discover(built.instance, built.corpus))


def test_nothing_is_stale_after_a_build(built):
    assert stale(built) == set()


def test_a_changed_input_marks_its_partition_and_no_other(built):
    write_input(built.input("b.jsonl"), word="other")
    look(built)
    assert stale(built) == {"b.jsonl"}


def test_a_rebuild_clears_the_mark(built):
    write_input(built.input("b.jsonl"), word="other")
    look(built)
    build_corpus(built.instance, built.config)
    assert stale(built) == set()


def test_a_touched_input_marks_none(built):
    built.input("b.jsonl").touch()
    look(built)
    assert stale(built) == set()


def test_a_changed_input_built_before_it_was_observed_is_fresh(built):
    """A click on Materialize right after the change: the run observes what it builds."""
    write_input(built.input("b.jsonl"), word="other")
    job = corpus_definitions(built.config).resolve_job_def("toy_build")
    job.execute_in_process(instance=built.instance, partition_key="b.jsonl")
    assert stale(built) == set()
    look(built)
    assert stale(built) == set()


def test_a_change_back_to_what_was_built_is_fresh_again(built):
    content = built.input("b.jsonl").read_bytes()
    write_input(built.input("b.jsonl"), word="other")
    look(built)
    built.input("b.jsonl").write_bytes(content)
    look(built)
    assert stale(built) == set()


@pytest.mark.parametrize(
    "change", [{"max_document_tokens": 5}, {"window_size": 128}, {"compression": "gzip"}]
)
def test_a_content_deciding_option_marks_all(built, change):
    assert len(stale(built, built.config.model_copy(update=change))) == 4


@pytest.mark.parametrize("change", [{"workers": 2}, {"partitions_per_run": 1}, {"max_reject_fraction": 0.5}])
def test_another_option_marks_none(built, change):
    assert stale(built, built.config.model_copy(update=change)) == set()


def test_another_tokenizer_marks_all(built, tmp_path):
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_text("{}")
    changed = built.config.model_copy(update={"tokenizer": str(tokenizer)})
    assert len(stale(built, changed)) == 4


def test_a_corpus_that_was_registered_without_observations_sees_later_changes(instance, config, monkeypatch):
    """Ten thousand new inputs are not observed one by one; a change is seen all the same."""
    monkeypatch.setattr(observation, "NEW_OBSERVATIONS", 3)
    built = Built(instance, config)
    build_corpus(instance, config)
    inputs = built.corpus.key("input_shards")
    assert latest_versions(instance, inputs, DagsterEventType.ASSET_OBSERVATION) == {}
    assert stale(built) == set()
    look(built)
    assert stale(built) == set()
    write_input(built.input("b.jsonl"), word="other")
    look(built)
    assert stale(built) == {"b.jsonl"}
    build_corpus(instance, config)
    assert stale(built) == set()


def test_a_change_that_is_observed_while_its_partition_is_built_stays_stale(built, monkeypatch):
    """The input changes after the build looked at it, and the sensor sees it before the build reports."""
    write_input(built.input("b.jsonl"), word="second")
    look_at_inputs = token_shards.PartitionBuild.of

    def look_and_be_overtaken(*arguments):
        build = look_at_inputs(*arguments)
        tags = {"dagster/data_version": "third", "dagster/data_version_is_user_provided": "true"}
        seen = dg.AssetObservation(asset_key=built.corpus.key("input_shards"), partition="b.jsonl", tags=tags)
        built.instance.report_runless_asset_event(seen)
        return build

    monkeypatch.setattr(token_shards.PartitionBuild, "of", look_and_be_overtaken)
    job = corpus_definitions(built.config).resolve_job_def("toy_build")
    job.execute_in_process(instance=built.instance, partition_key="b.jsonl")
    assert stale(built) == {"b.jsonl"}
