"""What an operator does at the wrong moment: nothing is lost, nothing is built twice, nothing wrong is released."""

from pathlib import Path

import dagster as dg
import pytest

from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.factory import corpus_definitions
from corpus_assets.defs.launch import build_corpus
from corpus_assets.defs.partitions import RANGE_END_TAG, RANGE_START_TAG, partition_states
from corpus_assets.errors import NotReleasedError
from corpus_assets.shards.index import load_index
from corpus_assets.shards.release import load_release
from corpus_assets_tests.defs.conftest import toy_config, write_input
from corpus_assets_tests.tokenizers.conftest import train


def run(instance, config, job, **options):
    """Execute a job of the corpus, as its button would."""
    definition = corpus_definitions(config).resolve_job_def(f"{config.name}_{job}")
    return definition.execute_in_process(instance=instance, raise_on_error=False, **options)


def test_a_tokenizer_that_is_replaced_between_build_and_index_releases_nothing(instance, tmp_path):
    config = toy_config(tmp_path, tokenizer="tokenizer.json")
    for letter in "ab":
        write_input(Path(config.input) / f"{letter}.jsonl")
    train(["some words of text"], vocab_size=260).save(config.tokenizer)
    run(instance, config, "observe")
    assert run(instance, config, "build", tags={RANGE_START_TAG: "a.jsonl", RANGE_END_TAG: "b.jsonl"}).success
    train(["other words of text, and more of them"], vocab_size=280).save(config.tokenizer)
    assert not run(instance, config, "release").success
    check = Corpus(config).check("shard_index", "one_tokenizer")
    found = instance.get_latest_asset_check_evaluation_record(check).evaluation
    assert not found.passed
    assert "a.jsonl, b.jsonl; expected tokenizer.json" in found.description
    with pytest.raises(NotReleasedError):
        load_release(config.root, load_index(config.index_path).fingerprint)
    report = build_corpus(instance, config)
    assert report.planned == dict.fromkeys(("a.jsonl", "b.jsonl"), "the tokenizer changed")
    assert report.released


@pytest.mark.parametrize("name", ["toy_build", "toy_token_shards", "toy__2", "Toy", "to"])
def test_a_corpus_of_a_similar_name_is_built_beside_and_touches_nothing(built, tmp_path, name):
    other = toy_config(tmp_path, name=name, input=f"{name}_in", root=f"{name}_out")
    write_input(Path(other.input) / "a.jsonl", word="other")
    before = load_release(built.config.root)
    merged = dg.Definitions.merge(corpus_definitions(built.config), corpus_definitions(other))
    assert len(merged.get_repository_def().get_all_jobs()) >= 8
    assert build_corpus(built.instance, other).built == {"a.jsonl"}
    assert build_corpus(built.instance, built.config).run_ids == ()
    assert load_release(built.config.root) == before
    assert partition_states(built.instance, Corpus(other)).keys == ("a.jsonl",)
    assert len(partition_states(built.instance, built.corpus).keys) == 4


def test_an_input_removed_after_its_build_was_planned_fails_its_partition_alone(instance, config):
    run(instance, config, "observe")
    (Path(config.input) / "c.jsonl").unlink()
    result = run(instance, config, "build", tags={RANGE_START_TAG: "a.jsonl", RANGE_END_TAG: "d.jsonl"})
    assert not result.success
    states = partition_states(instance, Corpus(config))
    assert states.failed == states.missing == {"c.jsonl"}
    assert build_corpus(instance, config).released
    assert [shard.key for shard in load_index(config.index_path).shards] == ["a.jsonl", "b.jsonl", "d.jsonl"]
