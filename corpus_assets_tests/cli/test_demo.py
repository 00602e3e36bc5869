from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from corpus_assets import SlidingWindowDataloader, load_index
from corpus_assets.loading.store import MmapTokenStore
from corpus_assets.shards.release import load_release

CORPUS = Path(sys.executable).with_name("corpus")
BATCH = re.compile(r"^ (\d) +\(16, 1024\) +\(16, 1024\) +int64 +([0-9a-f]{8})", re.MULTILINE)


def test_the_demo_builds_checks_releases_and_reads_ten_batches_and_does_so_again(builder):
    (builder.folder / "data/corpora.yaml").write_text(
        "corpora:\n  stdlib:\n    input: data/stdlib/input\n    root: data/stdlib/corpus\n"
    )
    (builder.folder / "workspace.yaml").touch()

    def demo() -> tuple[str, list[str]]:
        process = subprocess.run(
            [CORPUS, "demo"], cwd=builder.folder, capture_output=True, text=True, check=False
        )
        assert process.returncode == 0, process.stderr
        batches = BATCH.findall(process.stdout)
        assert [number for number, _ in batches] == list("0123456789")
        return process.stdout, [checksum for _, checksum in batches]

    shown, checksums = demo()
    root = builder.folder / "data/stdlib/corpus"
    index = load_index(root)
    release = load_release(root, index.fingerprint)
    assert len(index.shards) >= 8
    assert f"{index.token_count:,}" in shown
    assert f"{len(release.evidence)} of {len(release.evidence)}" in shown
    assert len(set(checksums)) == 10

    again, same = demo()
    assert same == checksums
    assert "up to date" in again
    with MmapTokenStore(root, require_release=True) as store:
        inputs, targets = next(SlidingWindowDataloader(store, 1024, 16, seed=0))
    assert (inputs[:, 1:] == targets[:, :-1]).all()


def test_a_project_without_the_corpus_of_the_demo_is_told_what_to_add(shell):
    shell.configure()
    assert "no corpus `stdlib` to build; found c, expected an entry `stdlib`" in shell.refused("demo")


def test_the_demo_does_not_export_to_a_glob_or_a_url(shell):
    for location in ("data/*.jsonl", "memory://bucket/input"):
        config = shell.configure(input=location)
        config.write_text(config.read_text().replace("  c:", "  stdlib:"))
        assert "expected a local folder that the demo can export to" in shell.refused("demo")
