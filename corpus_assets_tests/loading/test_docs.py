"""The examples of docs/loading.md, run as they stand there; that for JAX by jax_cases.py."""

import re
from importlib.util import find_spec
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "loading.md"
BLOCK = re.compile(r"^```python(?: requires=(\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_page(*, with_packages=frozenset()):
    """Run the examples that need no package, or one of these; the names of all that were needed."""
    page = PAGE.read_text(encoding="utf-8")
    found = list(BLOCK.finditer(page))
    assert page.count("\n```") == 2 * (len(found) + 1)  # one block is the picture at the top
    namespace: dict[str, object] = {}
    needed = set()
    for block in found:
        if block[1] is None or block[1] in with_packages:
            needed.add(block[1])
            # Newlines in front give tracebacks the lines of the page.
            lines = page.count("\n", 0, block.start()) + 1
            exec(compile("\n" * lines + block[2], str(PAGE), "exec"), namespace)
    assert namespace["store"]
    return needed


def test_every_example_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    packages = {"torch"} if find_spec("torch") else set()
    assert run_page(with_packages=packages) == {None, *packages}
