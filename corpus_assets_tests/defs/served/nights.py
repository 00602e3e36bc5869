"""What happens to a corpus over some nights, while its schedule ticks: a change mid-build, a late repair."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dagster import DagsterRun, DagsterRunStatus, RunsFilter

from corpus_assets.config import CorpusConfig
from corpus_assets.defs.corpus import CORPUS_TAG, PHASE_TAG
from corpus_assets.defs.home import open_instance
from corpus_assets.errors import CorpusError
from corpus_assets.shards.index import current_shard, load_index
from corpus_assets.shards.release import Release, load_release
from corpus_assets.sources.discover import content_sha256
from corpus_assets_tests.defs.conftest import write_input
from corpus_assets_tests.defs.served.project import LOCATION, ServedProject

_BEGUN = [DagsterRunStatus.STARTED, DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE]


@dataclass(frozen=True, slots=True, kw_only=True)
class NightsSeen:
    """What was seen from the first tick to the one with nothing left to do.

    Attributes:
        first_build: the build that was under way when an input changed.
        first_release: how the release of the same night ended.
        indexed_after_first: whether there was an index then.
        released: the release that followed once the broken input was mended.
        quiet_tick: what the first tick after it said.
        released_at_the_end: the latest release after that tick.
    """

    first_build: DagsterRun
    first_release: DagsterRun
    indexed_after_first: bool
    released: Release
    quiet_tick: str
    released_at_the_end: Release


def live_through_nights(project: ServedProject) -> NightsSeen:
    """Change an input while the first night builds, mend the broken one after it, wait for a quiet night."""
    config = project.corpora["nights"]
    small, broken = Path(config.input) / "small.jsonl", Path(config.input) / "broken.jsonl"
    with open_instance(project.home) as instance:

        def night_runs(phase: str) -> Sequence[DagsterRun]:
            tags = {PHASE_TAG: phase, CORPUS_TAG: "nights"}
            return instance.get_runs(RunsFilter(tags=tags, statuses=_BEGUN))

        def ended_release() -> DagsterRun | None:
            return next((run for run in reversed(night_runs("release")) if run.is_finished), None)

        first_build = project.wait_for(lambda: night_runs("build"), seconds=180)[-1]
        write_input(small, word="changed-during-the-build")
        first_release = project.wait_for(ended_release, seconds=180)
        indexed = config.index_path.exists()
        write_input(broken, word="mended")
        released = project.wait_for(lambda: _release_of(config, small), seconds=240)
        quiet = project.wait_for(lambda: _quiet_tick(project), seconds=180)
    return NightsSeen(
        first_build=first_build,
        first_release=first_release,
        indexed_after_first=indexed,
        released=released,
        quiet_tick=quiet,
        released_at_the_end=load_release(config.root),
    )


def _release_of(config: CorpusConfig, changed: Path) -> Release | None:
    """The release of an index that holds `changed` as it is now."""
    try:
        release = load_release(config.root, load_index(config.index_path).fingerprint)
        shard = current_shard(config.root, changed.name)
    except CorpusError:
        return None
    return release if shard is not None and shard.input_sha256 == content_sha256(str(changed)) else None


def _quiet_tick(project: ServedProject) -> str | None:
    """Why the schedule's latest tick that did not wait for a build launched nothing, as the UI asks for it."""
    selector: Mapping[str, str] = {
        "repositoryName": "__repository__",
        "repositoryLocationName": LOCATION,
        "scheduleName": "nights_nightly",
    }
    found = project.graphql(
        "query($s: ScheduleSelector!) { scheduleOrError(scheduleSelector: $s) { ... on Schedule {"
        " scheduleState { ticks { status skipReason } } } } }",
        s=selector,
    )
    ticks = found["scheduleOrError"]["scheduleState"]["ticks"]
    reasons = (tick["skipReason"] for tick in ticks if tick["status"] == "SKIPPED")
    return next((reason for reason in reasons if "are being built" not in reason), None)
