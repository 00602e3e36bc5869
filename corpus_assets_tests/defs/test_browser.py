"""What users come to the UI for, by clicking: materialise, backfill the failed ones, switch the nights on.

One `dagster dev` serves all of it. The schedule ticks each minute and is switched on first, so that its
nights pass while the other tests click.
"""

import json
import tempfile
from pathlib import Path

import pytest
from dagster import DagsterRunStatus, RunsFilter
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus
from playwright.sync_api import expect

from corpus_assets.defs.corpus import NIGHT_TAG, PHASE_TAG, Corpus
from corpus_assets.defs.partitions import partition_states
from corpus_assets.errors import CorpusError
from corpus_assets.shards.index import current_shard, load_index
from corpus_assets.shards.release import load_release
from corpus_assets.sources.discover import content_sha256
from corpus_assets_tests.defs.browser import dagster_ui
from corpus_assets_tests.defs.conftest import break_input, write_input
from corpus_assets_tests.defs.served import served

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("nights_on")]
BROKEN = ("s07.jsonl", "s21.jsonl", "s22.jsonl")
COMMON = {"window_size": 256, "workers": 1}


@pytest.fixture(scope="module")
def project():
    with tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
        data = Path(folder) / "data"
        for number in range(3):
            write_input(data / "clicks" / f"s{number}.jsonl")
        for number in range(50):
            write_input(data / "fifty" / f"s{number:02}.jsonl", documents=3)
        for name in BROKEN:
            break_input(data / "fifty" / name)
        write_input(data / "nights" / "small.jsonl")
        break_input(data / "nights" / "broken.jsonl")
        write_big_input(data / "nights" / "big.jsonl")
        corpora = {
            "clicks": {"input": "data/clicks", "root": "data/clicks_corpus", **COMMON},
            "fifty": {"input": "data/fifty", "root": "data/fifty_corpus", **COMMON},
            "nights": {
                "input": "data/nights",
                "root": "data/nights_corpus",
                "schedule": {"cron": "* * * * *"},
                **COMMON,
            },
        }
        with served(Path(folder), corpora) as running:
            for name, count in (("clicks", 3), ("fifty", 50), ("nights", 3)):
                running.wait_for(
                    lambda: len(running.instance.get_dynamic_partitions(f"{name}_input_shards")) == count
                )  # noqa: B023
            yield running


@pytest.fixture(scope="module")
def ui(project):
    with dagster_ui(project.url) as opened:
        yield opened


@pytest.fixture(scope="module")
def nights_on(ui):
    """The nightly schedule, switched on by its toggle."""
    ui.open("/locations/corpora/schedules/nights_nightly")
    toggle = ui.page.get_by_role("checkbox")
    expect(toggle).not_to_be_checked()
    toggle.locator("..").click()  # the input itself is drawn by its parent
    expect(toggle).to_be_checked()
    ui.picture("schedule-switched-on")


def test_materialise_one_partition_from_the_ui(ui, project):
    dialog = ui.materialize_dialog("clicks")
    ui.choose_partition(dialog, "s1.jsonl")
    dialog.get_by_role("button", name="Launch 1 run").click()
    ui.partition_counts("clicks", {"Materialized": 1, "Missing": 2})
    ui.open("/assets/clicks/token_shards?view=partitions&partition=s1.jsonl")
    expect(ui.page.get_by_text("Materialized", exact=True)).to_be_visible()
    ui.picture("partition-materialised")
    shard = current_shard(project.corpora["clicks"].root, "s1.jsonl")
    assert shard.document_count == 20
    assert current_shard(project.corpora["clicks"].root, "s0.jsonl") is None


def test_backfill_fifty_see_three_fail_and_re_execute_from_failure(ui, project):
    corpus = Corpus(project.corpora["fifty"])
    dialog = ui.materialize_dialog("fifty")
    dialog.get_by_role("button", name="All", exact=True).click()
    dialog.get_by_role("button", name="Launch backfill").click()
    ui.partition_counts("fifty", {"Failed": 3, "Materialized": 47, "Missing": 0})
    ui.picture("backfill-three-failed")
    assert partition_states(project.instance, corpus).failed == set(BROKEN)

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


def test_the_nights_lose_no_change_and_end_when_all_is_built(ui, project):
    config = project.corpora["nights"]
    small, broken = Path(config.input) / "small.jsonl", Path(config.input) / "broken.jsonl"
    first = project.wait_for(lambda: night_runs(project, "build"), seconds=150)[-1]
    write_input(small, word="changed-during-the-build")
    release = project.wait_for(
        lambda: [run for run in night_runs(project, "release") if run.is_finished], seconds=150
    )[-1]
    assert release.status is DagsterRunStatus.FAILURE
    assert release.tags[NIGHT_TAG] == first.tags[NIGHT_TAG]
    assert not config.index_path.exists()

    write_input(broken, word="mended")
    project.wait_for(
        lambda: (
            released(config)
            and current_shard(config.root, "small.jsonl").input_sha256 == content_sha256(str(small))
        ),
        seconds=240,
    )
    index = load_index(config.index_path)
    assert {shard.key: shard.input_sha256 for shard in index.shards} == {
        path.name: content_sha256(str(path)) for path in Path(config.input).iterdir()
    }
    night = load_release(config.root).created
    skipped = project.wait_for(
        lambda: [tick for tick in ticks(project) if tick["status"] == "SKIPPED"], seconds=150
    )
    assert skipped[0]["skipReason"] == "every partition is up to date and the index is released"
    assert load_release(config.root).created == night
    ui.open("/locations/corpora/schedules/nights_nightly")
    expect(ui.page.get_by_text("0 runs requested").first).to_be_visible()
    ui.picture("nightly-ticks")


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


def night_runs(project, phase):
    """Runs of the nights, newest first, that have begun."""
    begun = [DagsterRunStatus.STARTED, DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE]
    return project.instance.get_runs(
        RunsFilter(tags={PHASE_TAG: phase, "corpus_assets/corpus": "nights"}, statuses=begun)
    )


def released(config):
    try:
        return load_release(config.root, load_index(config.index_path).fingerprint)
    except CorpusError:
        return None


def ticks(project):
    """The schedule's ticks, newest first, as the UI asks for them."""
    found = project.graphql(
        "query($s: ScheduleSelector!) { scheduleOrError(scheduleSelector: $s) { ... on Schedule {"
        " scheduleState { ticks { status skipReason } } } } }",
        s={
            "repositoryName": "__repository__",
            "repositoryLocationName": "corpora",
            "scheduleName": "nights_nightly",
        },
    )
    return found["scheduleOrError"]["scheduleState"]["ticks"]


def write_big_input(path):
    """Enough text that its build takes a while."""
    path.parent.mkdir(parents=True, exist_ok=True)
    row = json.dumps({"text": "a line of a long document\n" * 400})
    path.write_text(f"{row}\n" * 4000)


def memory_folder():
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
