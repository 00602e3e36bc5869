"""The examples of docs/formats.md, run as they stand there."""

import re
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str, str, int]]:
    """Language, file name, content and line of each fenced block."""
    text = PAGE.read_text(encoding="utf-8")
    return [(m[1], m[2] or "", m[3], text.count("\n", 0, m.start()) + 2) for m in BLOCK.finditer(text)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder; what is imported from it is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("my_formats", None)


def test_every_example_of_the_page_runs(folder):
    found = blocks()
    assert {language for language, *_ in found} == {"python", "yaml", "json"}
    assert PAGE.read_text(encoding="utf-8").count("\n```") == 2 * len(found)
    for language, name, content, _ in found:
        assert name or language == "python"
        if name:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content, encoding="utf-8")
    namespace: dict[str, object] = {}
    for _, name, content, line in found:
        if not name:
            # Newlines in front give tracebacks the lines of the page.
            exec(compile("\n" * (line - 1) + content, str(PAGE), "exec"), namespace)
