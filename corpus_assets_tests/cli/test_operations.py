"""docs/operations.md: its examples run, and the messages, commands, jobs and sensors it names exist."""

from __future__ import annotations

import http.server
import json
import re
import sys
import threading
from pathlib import Path

import click
import numpy as np
import pytest

from corpus_assets import write_corpus
from corpus_assets.cli import main
from corpus_assets_tests.conftest import write_jsonl

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[tuple[str, str]]:
    """File name and content of each fenced block of a language."""
    return [(found[2] or "", found[3]) for found in BLOCK.finditer(PAGE) if found[1] == language]


def test_the_researcher_finds_the_documents_of_a_step_and_goes_on_without_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        write_jsonl(tmp_path / f"data/web/input/{name}.jsonl", [f"{name}{row} " * 8 for row in range(20)])
    index = write_corpus("data/web/input", "data/web/corpus", workers=1)
    source = "\n".join(content for name, content in blocks("python") if not name)
    namespace: dict = {}
    exec(compile(source.replace(", require_release=True", ""), "operations.md", "exec"), namespace)
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == len(namespace["documents"]) > 0
    assert all("input_name='" in line and "row=" in line for line in shown)
    left = namespace["fields"]["document_ids"]
    assert not np.isin(left, namespace["documents"]).any()
    assert left.max() < index.document_count
    namespace["store"].close()


def test_the_notifier_of_the_page_sends_the_message(tmp_path, monkeypatch):
    from corpus_assets.defs.failure_sensor import configured_notifier
    from corpus_assets.defs.failures import FailureSummary

    received = []

    class Hook(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    ((name, content),) = [block for block in blocks("python") if block[0]]
    (tmp_path / name).write_text(content)
    (variables,) = re.findall(r"CORPUS_NOTIFIER=(\S+) ", PAGE)
    with http.server.HTTPServer(("127.0.0.1", 0), Hook) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setenv("CORPUS_NOTIFIER", variables)
        monkeypatch.setenv("ALERT_URL", f"http://127.0.0.1:{server.server_port}/")
        notifier = configured_notifier()
        assert notifier is not None
        notifier(
            FailureSummary(corpus="web", run_id="1", job="web_build", partitions={}, message="a.jsonl: cut")
        )
    sys.modules.pop("my_alerts")
    assert received == [{"text": "a.jsonl: cut"}]


def test_every_message_of_the_table_is_one_that_is_raised():
    table = PAGE.partition("| the message has |")[2].partition("\n\n")[0]
    quoted = [re.findall(r"`([^`]+)`", line.split("|")[1]) for line in table.splitlines()[2:]]
    assert all(quoted)
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "corpus_assets").rglob("*.py"))
    # A message may be several literals one after the other.
    source = re.sub(r'"\s*\n\s*f?"', "", source)
    of_the_system = {"No space left on device", "Permission denied"}
    assert [part for parts in quoted for part in parts if part not in source] == sorted(of_the_system)


def test_every_command_of_the_page_exists_with_its_options():
    context = click.Context(main)
    lines = [line for _, content in blocks("sh") for line in content.splitlines()]
    lines += re.findall(r"`(corpus [^`]+)`", PAGE)
    used = [match for line in lines for match in re.findall(r"\bcorpus (\w+)((?: [^#`\n]*)?)", line)]
    assert len(used) > 20
    for name, rest in used:
        command = main.get_command(context, name)
        assert command is not None, name
        known = {option for parameter in command.params for option in parameter.opts}
        assert set(re.findall(r"--[\w-]+", rest)) <= known, (name, rest)


# Dagster's own, for an observable source asset.
@pytest.mark.filterwarnings("ignore:Property `OpDefinition.version` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("kind", ["jobs", "sensors", "schedules", "pools"])
def test_every_job_sensor_schedule_and_pool_of_the_page_exists(tmp_path, kind):
    from corpus_assets.config import parse_corpus
    from corpus_assets.defs.factory import corpus_definitions

    entry = {"input": "in", "root": "out"}
    definitions = corpus_definitions(parse_corpus("web", entry, base=tmp_path, where="here"))
    repository = definitions.get_repository_def()
    names = {
        "jobs": {job.name for job in repository.get_all_jobs()},
        "sensors": {sensor.name for sensor in repository.sensor_defs},
        "schedules": {schedule.name for schedule in repository.schedule_defs},
        "pools": {
            assets.op.pool for assets in repository.assets_defs_by_key.values() if assets.is_executable
        },
    }
    named = set(re.findall(r"`(web_\w+)`", PAGE))
    assert named <= set.union(*names.values())
    assert named & names[kind]
