"""docs/faults.md names tests that exist, in tables of three cells."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "faults.md"
ROW = re.compile(r"\| (?P<fault>[^|]+) \| (?P<answer>[^|]+) \| (?P<tests>[^|]+) \|")
NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
KINDS = 46


def rows() -> list[re.Match[str]]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    matches = [ROW.fullmatch(line) for line in lines if not line.startswith(("| ---", "| fault "))]
    assert None not in matches
    return matches


def test_every_fault_has_a_test_and_every_test_exists():
    missing = []
    for row in rows():
        named = NAMED.findall(row["tests"])
        assert named, row["fault"]
        assert NAMED.sub("", row["tests"]).strip(" ,") == "", row["fault"]
        missing += [f"{file}::{test}" for file, test in named if test not in _tests_in(TESTS / file)]
    assert not missing


def test_no_kind_of_fault_is_left_out():
    beyond = PAGE.read_text(encoding="utf-8").partition("## Beyond the list")[2]
    of_the_list = [row for row in rows() if row[0] not in beyond]
    assert len(of_the_list) == KINDS


def _tests_in(path: Path) -> set[str]:
    if not path.is_file():
        return set()
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return {item.name for item in body if isinstance(item, ast.FunctionDef)}
