"""JAX, in a process of its own: once it is imported, no process may fork, which other tests do."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("jax") is None:
    pytest.skip("needs the jax extra", allow_module_level=True)

CASES = Path(__file__).with_name("jax_cases.py")


def test_every_case_passes():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(CASES)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert found.returncode == 0, found.stdout[-5000:] + found.stderr[-2000:]
    assert " passed" in found.stdout
