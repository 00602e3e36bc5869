"""build_corpus executes the graph: what is built, what is refused, what Dagster then holds."""

from pathlib import Path

import pytest

from corpus_assets.defs import progress
from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.home import TEMPLATE, open_instance
from corpus_assets.defs.launch import build_corpus
from corpus_assets.defs.partitions import partition_states
from corpus_assets.errors import ConfigError
from corpus_assets.shards.index import load_index
from corpus_assets.shards.release import load_release
from corpus_assets_tests.defs.conftest import break_input, write_input


def test_a_build_ends_with_a_release_and_every_partition_green(instance, config):
    report = build_corpus(instance, config)
    assert report.ok
    assert report.released
    assert (
        load_release(config.root).fingerprint
        == load_index(config.root).fingerprint
        == report.index.fingerprint
    )
    states = partition_states(instance, Corpus(config))
    assert states.keys == ("a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl")
    assert not states.missing | states.failed | states.in_progress


def test_each_partition_has_its_own_metadata(instance, config):
    write_input(Path(config.input) / "b.jsonl", documents=7)
    build_corpus(instance, config)
    events = instance.fetch_materializations(Corpus(config).key("token_shards"), limit=10).records
    by_key = {record.partition_key: record.asset_materialization.metadata for record in events}
    assert {key: facts["documents"].value for key, facts in by_key.items()} == {
        "a.jsonl": 20,
        "b.jsonl": 7,
        "c.jsonl": 20,
        "d.jsonl": 20,
    }
    assert by_key["b.jsonl"]["input"].value == "b.jsonl"
    bars = {
        key: [row.data for row in facts["document_lengths"].value.records] for key, facts in by_key.items()
    }
    # "word 0 of a.jsonl " three times, and a boundary: 55 tokens; from row 10 on 58
    assert bars["b.jsonl"] == [{"tokens": "32 to 63", "documents": 7, "share": "█" * 24}]
    (quantiles,) = by_key["a.jsonl"]["document_length_quantiles"].value.records
    assert quantiles.data["0%"] == pytest.approx(55, abs=2)
    assert quantiles.data["100%"] == pytest.approx(58, abs=2)
    assert Path(by_key["b.jsonl"]["path"].value).is_file()


def test_every_asset_is_materialised_with_metadata(built):
    for asset in (
        "shard_index",
        "shard_digests",
        "corpus_statistics",
        "loader_throughput",
        "training_release",
    ):
        event = built.instance.get_latest_materialization_event(built.corpus.key(asset))
        assert event.asset_materialization.metadata, asset


def test_a_second_build_runs_nothing(built):
    again = build_corpus(built.instance, built.config)
    assert again.ok
    assert again.run_ids == ()


def test_one_corrupt_input_among_ten(instance, config):
    for number in range(10):
        write_input(Path(config.input) / f"n{number}.jsonl")
    for letter in "abcd":
        (Path(config.input) / f"{letter}.jsonl").unlink()
    break_input(Path(config.input) / "n3.jsonl")
    report = build_corpus(instance, config)
    assert list(report.failed) == ["n3.jsonl"]
    assert "none of 5 rows is a document" in report.failed["n3.jsonl"]
    assert len(list((config.root / "shards").glob("*.h5"))) == 9
    assert "1 of 10 input shards have no token shard: n3.jsonl" in report.refusal
    assert not report.ok
    assert not config.index_path.exists()
    states = partition_states(instance, Corpus(config))
    assert states.failed == states.missing == {"n3.jsonl"}


def test_failed_only_rebuilds_exactly_the_failed_ones(instance, config):
    for letter in "bd":
        break_input(Path(config.input) / f"{letter}.jsonl")
    build_corpus(instance, config)
    for letter in "bd":
        write_input(Path(config.input) / f"{letter}.jsonl")
    report = build_corpus(instance, config, failed_only=True)
    assert sorted(report.planned) == ["b.jsonl", "d.jsonl"]
    assert report.ok


def test_a_changed_input_is_rebuilt_alone_and_a_touched_one_not(built):
    write_input(built.input("b.jsonl"), word="other")
    built.input("c.jsonl").touch()
    report = build_corpus(built.instance, built.config)
    assert report.planned == {"b.jsonl": "the input changed"}
    assert report.ok


def test_other_options_rebuild_all(built):
    report = build_corpus(built.instance, built.config.model_copy(update={"max_document_tokens": 10}))
    assert set(report.planned.values()) == {"the options changed"}
    assert len(report.planned) == 4
    assert report.ok


def test_a_removed_input_leaves_partitions_and_index_but_its_file_stays(built):
    shard = next((built.config.root / "shards").glob("c.jsonl-*.h5"))
    built.input("c.jsonl").unlink()
    report = build_corpus(built.instance, built.config)
    assert report.ok
    assert [shard.key for shard in report.index.shards] == ["a.jsonl", "b.jsonl", "d.jsonl"]
    assert shard.exists()
    event = built.instance.get_latest_materialization_event(built.corpus.key("shard_index"))
    assert event.asset_materialization.metadata["dropped"].value == ["c.jsonl"]


def test_a_key_deleted_and_added_again_sorts_where_it_belongs(built):
    before = load_index(built.config.index_path).fingerprint
    source = built.input("b.jsonl")
    content = source.read_bytes()
    source.unlink()
    build_corpus(built.instance, built.config)
    source.write_bytes(content)
    report = build_corpus(built.instance, built.config)
    assert built.instance.get_dynamic_partitions("toy_input_shards")[-1] == "b.jsonl"
    assert [shard.key for shard in report.index.shards] == ["a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl"]
    assert report.index.fingerprint == before


def test_one_shard_alone_leaves_the_index_for_later(instance, config):
    report = build_corpus(instance, config, keys=["b.jsonl"])
    assert [path.name for path in (config.root / "shards").glob("*.json")] == ["b.jsonl.json"]
    assert report.refusal == "3 partitions are not built: a.jsonl, c.jsonl, d.jsonl"
    assert not config.index_path.exists()


def test_an_unknown_shard_is_named(instance, config):
    with pytest.raises(ConfigError, match=r"no input shard 'z\.jsonl'"):
        build_corpus(instance, config, keys=["z.jsonl"])


def test_force_builds_what_is_there_already(built):
    report = build_corpus(built.instance, built.config, force=True)
    events = built.instance.fetch_materializations(built.corpus.key("token_shards"), limit=4).records
    assert report.built == report.planned.keys() == {f"{letter}.jsonl" for letter in "abcd"}
    assert {event.asset_materialization.metadata["reused"].value for event in events} == {False}


def test_a_shard_that_is_there_already_is_recognised(built):
    report = build_corpus(built.instance, built.config, keys=["a.jsonl"])
    event = built.instance.fetch_materializations(built.corpus.key("token_shards"), limit=1).records[0]
    assert report.ok
    assert (report.reused, report.built) == ({"a.jsonl"}, set())
    assert event.asset_materialization.metadata["reused"].value is True


def test_partitions_per_run_bounds_each_run(instance, config):
    report = build_corpus(instance, config.model_copy(update={"partitions_per_run": 3}))
    assert report.ok
    tags = [instance.get_run_by_id(run_id).tags for run_id in report.run_ids[:2]]
    ends = [
        (tag["dagster/asset_partition_range_start"], tag["dagster/asset_partition_range_end"]) for tag in tags
    ]
    assert ends == [("a.jsonl", "c.jsonl"), ("d.jsonl", "d.jsonl")]


def test_records_that_are_lost_are_written_anew_and_nothing_is_rebuilt(built, tmp_path):
    """DAGSTER_HOME deleted, the corpus still there: a fresh instance finds out what each shard was made from."""
    files = {path: path.stat().st_mtime_ns for path in (built.config.root / "shards").iterdir()}
    released = load_release(built.config.root).fingerprint
    write_input(built.input("b.jsonl"), word="changed-meanwhile")
    home = tmp_path / "fresh_home"
    home.mkdir()
    (home / "dagster.yaml").write_bytes(TEMPLATE.read_bytes())
    with open_instance(home) as fresh:
        report = build_corpus(fresh, built.config)
        assert report.ok
        assert report.reused == {"a.jsonl", "c.jsonl", "d.jsonl"}
        assert report.built == {"b.jsonl"}
        states = partition_states(fresh, built.corpus)
        assert len(states.keys) == 4
        assert not states.missing | states.failed
    same = {path: path.stat().st_mtime_ns for path in files if not path.name.endswith("b.jsonl.json")}
    assert same.items() <= files.items()
    assert load_release(built.config.root).fingerprint != released


def test_progress_covers_all_partitions_of_a_run(instance, config):
    seen = []
    build_corpus(instance, config, on_progress=seen.append)
    last = seen[-1]
    assert (last.shards_done, last.shards_total, last.rows) == (4, 4, 80)
    assert (
        last.bytes_done
        == last.bytes_total
        == sum(path.stat().st_size for path in Path(config.input).iterdir())
    )


def test_training_runs_on_the_released_corpus_and_reports_its_loss(built):
    report = build_corpus(built.instance, built.config, train=True)
    assert report.refusal == ""
    assert len(report.run_ids) == 1  # the release is up to date, so training is all that runs
    event = built.instance.get_latest_materialization_event(built.corpus.key("training"))
    metadata = event.asset_materialization.metadata
    assert metadata["index_fingerprint"].value == report.index.fingerprint
    assert metadata["steps"].value == 5
    assert metadata["loss_curve"].value.startswith("![loss by step](data:image/png;base64,")


def test_the_log_of_a_run_shows_rates_and_time_left(instance, config, monkeypatch):
    monkeypatch.setattr(progress, "LOG_SECONDS", 0)
    report = build_corpus(instance, config)
    said = [
        entry.user_message for entry in instance.all_logs(report.run_ids[0]) if "rows/s" in entry.user_message
    ]
    assert said[0].startswith("0 of 4 shards; ")
    assert all(" tokens/s, " in line and " MB/s), " in line and line.endswith(" left") for line in said)
    assert said[-1].startswith("4 of 4 shards; ")
