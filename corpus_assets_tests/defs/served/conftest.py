"""One `dagster dev` and one browser for all tests here: starting them takes longer than most of the tests.

The nightly schedule of the corpus `nights` ticks each minute; it is switched on first, so that its nights
pass while the other tests click. So do the backfills of `many`: the daemon looks after them twice a minute.
The fixtures end with this package: while Playwright is open its event loop runs, and Dagster cannot run one
of its own in the same process.
"""

import json
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import expect

from corpus_assets_tests.defs.conftest import break_input, write_input
from corpus_assets_tests.defs.served.backfills import BackfillsSeen, backfill_in_parallel
from corpus_assets_tests.defs.served.browser import DagsterUI, dagster_ui
from corpus_assets_tests.defs.served.component import add_component_project
from corpus_assets_tests.defs.served.nights import NightsSeen, live_through_nights
from corpus_assets_tests.defs.served.project import LOCATION, ServedProject, serve, write_project
from corpus_assets_tests.defs.served.staleness import CHANGED, KEPT, TOUCHED, stale_after_a_change

BROKEN = ("s07.jsonl", "s21.jsonl", "s22.jsonl")
ODD_NAMES = (
    "a.jsonl",
    "a/b.jsonl",
    "a__2Fb.jsonl",  # what a/b.jsonl is encoded as, as the name of a file
    "s 1,[x] 50%.jsonl",
    "x...y.jsonl",
    "ä日本.jsonl",
    f"{'n' * 240}.jsonl",
)
COMMON = {"window_size": 256, "workers": 1}
CORPORA = {
    "fifty": {"input": "data/fifty", "root": "data/fifty_corpus", **COMMON},
    "odd": {"input": "data/odd", "root": "data/odd_corpus", **COMMON},
    "many": {"input": "data/many", "root": "data/many_corpus", "partitions_per_run": 2, **COMMON},
    "slow": {"input": "data/slow", "root": "data/slow_corpus", **COMMON},
    "stale": {"input": "data/stale", "root": "data/stale_corpus", **COMMON},
    "nights": {
        "input": "data/nights",
        "root": "data/nights_corpus",
        "schedule": {"cron": "* * * * *"},
        **COMMON,
    },
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if config.pluginmanager.hasplugin("xdist") and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("served"))  # one worker, so one server


@pytest.fixture(scope="package")
def project() -> Iterator[ServedProject]:
    """The running project; its discovery sensors have registered all inputs."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        counts = write_inputs(Path(folder) / "data")
        home = write_project(Path(folder), CORPORA)
        add_component_project(Path(folder))
        with serve(Path(folder), home) as running:
            for name, count in counts.items():
                partitions = f"{name}_input_shards"
                running.wait_for(
                    lambda p=partitions, n=count: len(running.instance.get_dynamic_partitions(p)) == n
                )
            yield running


@pytest.fixture(scope="package")
def ui(project: ServedProject) -> Iterator[DagsterUI]:
    """The browser on it."""
    with dagster_ui(project.url) as opened:
        yield opened


@pytest.fixture(scope="package", autouse=True)
def nights(ui: DagsterUI, project: ServedProject) -> Iterator["Future[NightsSeen]"]:
    """The nightly schedule, switched on by its toggle, and what will have been seen of its nights."""
    ui.open(f"/locations/{LOCATION}/schedules/nights_nightly")
    toggle = ui.page.get_by_role("checkbox")
    expect(toggle).not_to_be_checked()
    toggle.locator("..").click()  # the input itself is drawn by its parent
    expect(toggle).to_be_checked()
    ui.picture("schedule-switched-on")
    with ThreadPoolExecutor(max_workers=1) as beside:
        yield beside.submit(live_through_nights, project)


@pytest.fixture(scope="package", autouse=True)
def backfills(project: ServedProject) -> Iterator["Future[BackfillsSeen]"]:
    """A backfill in parallel runs and its re-execution, and what will have been seen of them."""
    with ThreadPoolExecutor(max_workers=1) as beside:
        yield beside.submit(backfill_in_parallel, project)


@pytest.fixture(scope="package", autouse=True)
def staleness(project: ServedProject) -> Iterator["Future[dict[str, tuple[str, list[str]]]]"]:
    """What the UI says of partitions whose inputs changed, were touched, or stayed as they were."""
    with ThreadPoolExecutor(max_workers=1) as beside:
        yield beside.submit(stale_after_a_change, project)


def write_inputs(data: Path) -> dict[str, int]:
    """The inputs of all corpora; returns how many each has."""
    for number in range(50):
        write_input(data / "fifty" / f"s{number:02}.jsonl", documents=3)
    for name in BROKEN:
        break_input(data / "fifty" / name)
    for name in ODD_NAMES:
        write_input(data / "odd" / name)
    for number in range(6):
        write_input(data / "many" / f"m{number}.jsonl")
    break_input(data / "many" / "m3.jsonl")
    for name in (CHANGED, TOUCHED, KEPT):
        write_input(data / "stale" / name)
    write_input(data / "slow" / "small.jsonl")
    for name, rows in (("big.jsonl", 19_000), ("huge.jsonl", 20_000)):
        write_big_input(data / "slow" / name, rows=rows)
    write_input(data / "nights" / "small.jsonl")
    break_input(data / "nights" / "broken.jsonl")
    write_big_input(data / "nights" / "big.jsonl", rows=4000, rejects=2)
    return {"fifty": 50, "odd": len(ODD_NAMES), "many": 6, "slow": 3, "stale": 3, "nights": 3}


def write_big_input(path: Path, *, rows: int, rejects: int = 0) -> None:
    """Enough text that its build takes a while: 10 kB a row; then rows that are no documents."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = json.dumps({"text": "a line of a long document\n" * 400})
    path.write_text(f"{document}\n" * rows + '{"text": 5}\n' * rejects)
