"""Nights that really pass: the schedule switched on in the UI, run by the daemon."""

from pathlib import Path

import pytest
from dagster import DagsterRunStatus
from playwright.sync_api import expect

from corpus_assets.defs.corpus import NIGHT_TAG
from corpus_assets.shards.index import load_index
from corpus_assets.sources.discover import content_sha256
from corpus_assets_tests.defs.served.project import LOCATION

pytestmark = pytest.mark.browser


def test_the_nights_lose_no_change_and_end_when_all_is_built(ui, project, nights):
    config, seen = project.corpora["nights"], nights.result(timeout=600)
    # The first night: an input is broken, so its own release refuses, and there is no index.
    assert seen.first_release.status is DagsterRunStatus.FAILURE
    assert seen.first_release.tags[NIGHT_TAG] == seen.first_build.tags[NIGHT_TAG]
    assert not seen.indexed_after_first
    # Mended, the next night builds it, and the input that changed while the first night was building.
    index = load_index(config.index_path)
    assert seen.released.fingerprint == index.fingerprint
    assert {shard.key: shard.input_sha256 for shard in index.shards} == {
        path.name: content_sha256(str(path)) for path in Path(config.input).iterdir()
    }
    # The night after has nothing to do and launches nothing.
    assert seen.quiet_tick == "every partition is up to date and the index is released"
    assert seen.released_at_the_end == seen.released
    ui.open(f"/locations/{LOCATION}/schedules/nights_nightly")
    expect(ui.page.get_by_text("0 runs requested").nth(1)).to_be_visible()  # in the list of ticks, too
    ui.picture("nightly-ticks")


def test_pages_show_the_graph_with_its_checks_and_the_pictures(ui, nights):
    nights.result(timeout=600)
    ui.open(f"/locations/{LOCATION}/asset-groups/nights")
    expect(ui.page.get_by_text("training_release")).to_be_visible()
    ui.zoom_in()
    expect(ui.page.get_by_text("4 / 4 Passed")).to_be_visible()
    expect(ui.page.get_by_text("100% filled")).to_be_visible()
    ui.picture("graph")
    ui.open("/assets/nights/shard_index")
    ui.page.get_by_text("Plots", exact=True).first.click()
    expect(ui.page.locator("canvas")).to_have_count(len(("shards", "tokens", "documents", "rejected")))
    ui.picture("counts-over-time")
    ui.open("/assets/nights/corpus_statistics")
    ui.page.get_by_text("rejected: text_not_a_string").scroll_into_view_if_needed()
    ui.picture("reject-reasons")
    for asset, title in (
        ("corpus_statistics", "document lengths"),
        ("loader_throughput", "loader throughput"),
    ):
        ui.open(f"/assets/nights/{asset}")
        ui.page.get_by_text("Show Markdown").first.click()
        picture = ui.page.get_by_alt_text(title)
        expect(picture).to_be_visible()
        assert picture.evaluate("image => image.naturalWidth") > 400
        ui.picture(asset)
