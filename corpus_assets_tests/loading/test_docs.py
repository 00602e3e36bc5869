"""The examples of docs/loading.md, run as they stand there."""

import re
from importlib.util import find_spec
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "loading.md"
BLOCK = re.compile(r"^```python(?: requires=(\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_example_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8")
    found = list(BLOCK.finditer(page))
    assert page.count("\n```") == 2 * (len(found) + 1)  # one block is the picture at the top
    assert {block[1] for block in found} == {None, "jax"}
    namespace: dict[str, object] = {}
    for block in found:
        if "import torch\n" in block[2] and find_spec("torch") is None:
            continue
        if block[1] is None or find_spec(block[1]) is not None:
            # Newlines in front give tracebacks the lines of the page.
            lines = page.count("\n", 0, block.start()) + 1
            exec(compile("\n" * lines + block[2], str(PAGE), "exec"), namespace)
