"""Headless Chromium on the Dagster UI: the clicks of a person, and pictures of what they saw."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Locator, Page, expect, sync_playwright

ARTIFACTS = Path(__file__).parents[3] / "artifacts"
_FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
_TIMEOUT = 60_000  # milliseconds
_BUILD_TIMEOUT = (
    240_000  # the daemon takes up a backfill twice a minute, and other runs may be before its own
)


@dataclass(frozen=True)
class DagsterUI:
    """The UI at `url` in one browser page."""

    page: Page
    url: str

    def open(self, path: str) -> None:
        self.page.goto(f"{self.url}{path}")

    def picture(self, name: str) -> None:
        """A screenshot for people, kept in artifacts/."""
        ARTIFACTS.mkdir(exist_ok=True)
        self.page.screenshot(path=ARTIFACTS / f"{name}.png")

    def zoom_in(self) -> None:
        """Come so near to a graph that its nodes show their state."""
        for _ in range(4):
            self.page.get_by_role("img", name="zoom_in").first.click()

    def materialize_dialog(self, corpus: str) -> Locator:
        """The dialog behind the Materialize button of token_shards."""
        self.open(f"/assets/{corpus}/token_shards")
        self.page.get_by_role("button", name="Materialize").first.click()
        return self.page.get_by_role("dialog").filter(has_text="Launch runs to materialize")

    def choose_partition(self, dialog: Locator, key: str) -> None:
        """Tick one partition in the dialog's list."""
        dialog.get_by_text("Select a partition or create one").click()
        self.page.get_by_text(key, exact=True).first.click()
        expect(dialog.get_by_text("1 partition", exact=True)).to_be_visible()
        self.page.keyboard.press("Escape")

    def launch(self, dialog: Locator, button: str) -> None:
        """Press the dialog's button, and wait until the server has taken the launch."""
        dialog.get_by_role("button", name=button).click()
        expect(dialog).to_be_hidden()

    def partition_counts(self, corpus: str, expected: dict[str, int]) -> None:
        """Wait until the Partitions tab of token_shards shows these counts."""
        self.open(f"/assets/{corpus}/token_shards?view=partitions")
        for state, count in expected.items():
            expect(self.page.get_by_text(f"{state} ({count})")).to_be_visible(timeout=_BUILD_TIMEOUT)

    def header_menu(self) -> Locator:
        """The entries of the menu behind the arrow at the top of a backfill's page."""
        arrow = self.page.get_by_role("img", name=re.compile("arrow_drop_down|expand_more"))
        self.page.get_by_role("button").filter(has=arrow).first.click()
        return self.page.get_by_role("menuitem")


@contextmanager
def dagster_ui(url: str) -> Iterator[DagsterUI]:
    """Debian's Chromium on the UI at `url`."""
    expect.set_options(timeout=_TIMEOUT)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=_FLAGS)
        page = browser.new_page(viewport={"width": 1500, "height": 950})
        page.set_default_timeout(_TIMEOUT)
        yield DagsterUI(page, url)
        browser.close()
