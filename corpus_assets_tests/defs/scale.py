"""How a corpus of very many tiny inputs behaves: seconds, memory, cost per partition.

    python -m corpus_assets_tests.defs.scale --inputs 10000 --json scale.json

Everything is done as users do it: a persistent SQLite instance with the shipped settings, the runs of
`corpus build`, the nightly schedule's own tick, the asset's page in a browser.
"""

import argparse
import dataclasses
import datetime
import json
import resource
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from corpus_assets.config import CorpusConfig
from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.factory import corpus_definitions
from corpus_assets.defs.home import open_instance
from corpus_assets.defs.launch import build_corpus
from corpus_assets.defs.observation import discover, record
from corpus_assets_tests.defs.conftest import toy_config, write_input
from corpus_assets_tests.defs.served.browser import dagster_ui
from corpus_assets_tests.defs.served.project import serve, write_project

CHANGES = 3
NIGHT = datetime.datetime(2024, 3, 1, 2, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleFigures:
    """What one measurement found; times in seconds, `page` None where no browser was asked for.

    Attributes:
        registering: list, hash and register all inputs.
        build: build every partition, index, check, release.
        per_partition: of that, the run that holds all partitions, for each.
        dagster_per_event: what Dagster alone takes to store the same events in a run that does nothing.
        tick: one tick of the nightly schedule with three changed inputs.
        night: the runs that it asks for.
        page: the Partitions tab of token_shards, until it shows the counts.
        peak_megabytes: largest resident memory of the building process.
    """

    inputs: int
    registering: float
    build: float
    per_partition: float
    dagster_per_event: float
    tick: float
    night: float
    page: float | None
    peak_megabytes: float

    @property
    def overhead(self) -> float:
        """Cost per partition as a multiple of Dagster's own cost per event."""
        return self.per_partition / self.dagster_per_event


def measure(folder: Path, *, inputs: int, browser: bool) -> ScaleFigures:
    """Build and rebuild a corpus of `inputs` tiny files under `folder`."""
    entry = {"input": "tiny/input", "root": "tiny/corpus", "window_size": 256}
    home = write_project(folder, {"tiny": entry})
    config = toy_config(folder, name="tiny", workers=None)
    for number in range(inputs):
        write_input(Path(config.input) / f"{number // 1000:03}" / f"{number:06}.jsonl", documents=2)
    seconds: dict[str, float] = {}
    with open_instance(home) as instance:
        corpus = Corpus(config)
        with _timed(seconds, "registering"):
            record(instance, corpus, discover(instance, corpus))
        with _timed(seconds, "build"):
            report = build_corpus(instance, config)
        assert report.ok, report.refusal
        seconds["partitions"] = _duration(instance, report.run_ids[0])
        seconds["events"] = _seconds_of_bare_events(instance, corpus)
        for number in range(CHANGES):
            write_input(Path(config.input) / "000" / f"{number * 7:06}.jsonl", word="changed")
        with _timed(seconds, "tick"):
            requests = _tick(instance, config)
        with _timed(seconds, "night"):
            _execute(instance, config, requests)
    if browser:
        with _timed(seconds, "page"), serve(folder, home) as project, dagster_ui(project.url) as ui:
            began = time.perf_counter()
            ui.partition_counts("tiny", {"Materialized": inputs})
            opened = time.perf_counter() - began
        seconds["page"] = opened
    return ScaleFigures(
        inputs=inputs,
        registering=seconds["registering"],
        build=seconds["build"],
        per_partition=seconds["partitions"] / inputs,
        dagster_per_event=seconds["events"] / inputs,
        tick=seconds["tick"],
        night=seconds["night"],
        page=seconds.get("page"),
        peak_megabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def _seconds_of_bare_events(instance: dg.DagsterInstance, corpus: Corpus) -> float:
    """A run that yields the materialisations of all partitions again, built from nothing."""
    records = {
        event.partition_key: event.asset_materialization
        for event in _all_materializations(instance, corpus.key("token_shards"))
    }

    @dg.asset(partitions_def=corpus.partitions, output_required=False)
    def bare(context: dg.AssetExecutionContext) -> Iterator[dg.AssetMaterialization]:
        for key in context.partition_keys:
            same = records[key]
            yield dg.AssetMaterialization(
                asset_key="bare", partition=key, metadata=same.metadata, tags=dict(same.tags or {})
            )

    keys = instance.get_dynamic_partitions(corpus.partition_set)
    result = dg.materialize(
        [bare],
        instance=instance,
        tags={"dagster/asset_partition_range_start": keys[0], "dagster/asset_partition_range_end": keys[-1]},
    )
    return _duration(instance, result.run_id)


def _all_materializations(instance: dg.DagsterInstance, asset: dg.AssetKey) -> Iterator[dg.EventLogRecord]:
    cursor = None
    while True:
        page = instance.fetch_materializations(asset, limit=1000, cursor=cursor)
        yield from page.records
        if not page.has_more:
            return
        cursor = page.cursor


def _tick(instance: dg.DagsterInstance, config: CorpusConfig) -> list[dg.RunRequest]:
    schedule = corpus_definitions(config).resolve_schedule_def("tiny_nightly")
    with dg.build_schedule_context(instance=instance, scheduled_execution_time=NIGHT) as context:
        requests = schedule(context)
    assert len(requests) == CHANGES
    return requests


def _execute(instance: dg.DagsterInstance, config: CorpusConfig, requests: list[dg.RunRequest]) -> None:
    job = corpus_definitions(config).resolve_job_def("tiny_corpus")
    for request in requests:
        result = job.execute_in_process(
            instance=instance, asset_selection=request.asset_selection, tags=request.tags
        )
        assert result.success


def _duration(instance: dg.DagsterInstance, run_id: str) -> float:
    run = instance.get_run_record_by_id(run_id)
    return run.end_time - run.start_time


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - began


def main() -> None:
    """Print the figures, and write them as JSON where asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--folder", type=Path, help="where to make the corpus; default: a temporary folder")
    parser.add_argument("--no-browser", dest="browser", action="store_false")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        figures = measure(Path(folder), inputs=arguments.inputs, browser=arguments.browser)
    shown = dataclasses.asdict(figures) | {"overhead": figures.overhead}
    for name, value in shown.items():
        print(f"{name:20} {'–' if value is None else format(value, ',.4g')}")
    if arguments.json:
        arguments.json.write_text(json.dumps(shown, indent=2) + "\n")


if __name__ == "__main__":
    main()
