"""Forged corpora: files that agree with each other and lie, and a process of its own to read them in."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson


def forge_index(root: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Edit the shards.json of `root` and make its checksum and fingerprint agree, as an attacker would."""
    document = orjson.loads((root / "shards.json").read_bytes())
    del document["checksum"]
    edit(document)
    document["fingerprint"] = _fingerprint(document)
    raw = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    document["checksum"] = hashlib.sha256(raw).hexdigest()
    (root / "shards.json").write_text(json.dumps(document))


def _fingerprint(document: dict[str, Any]) -> str:
    """As docs/format.md says."""
    try:
        lines = [f"{document['format_version']}\n{document['tokenizer']['fingerprint']}\n"]
        lines += [f"{row['key']}\t{row['token_count']}\t{row['sha256']}\n" for row in document["shards"]]
    except (KeyError, TypeError):
        return ""
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def run_alone(code: str, *arguments: object, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own: were it to hang, crash or be killed, the test would see it."""
    command = [sys.executable, "-X", "faulthandler", "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
