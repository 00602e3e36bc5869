from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from corpus_assets import MmapTokenStore, load_index
from corpus_assets_tests.cli.test_validate import damage_first_token_of

CORPUS = Path(sys.executable).with_name("corpus")


def test_a_copy_is_proven_equal_and_its_sizes_stand_side_by_side(built):
    built.write_input("a.jsonl", "tell me " * 5000)
    built.build_shards()
    source = load_index(built.root)
    result = built("recode", "c", "copy", "--compression", "zstd", "--chunk-size", "4096")
    assert result.exit_code == 0, result.output
    copy = load_index("copy")
    assert copy.fingerprint == source.fingerprint
    assert {(shard.compression, shard.chunk_size) for shard in copy.shards} == {("zstd", 4096)}
    first, second, *table = result.stdout.splitlines()
    assert first == f"copy: the same corpus: 40,006 tokens, generation {source.fingerprint[:16]}"
    assert second == "2 of 2 shards, read back, with the digests of the source"
    before, after = (row.split() for row in table if row.split()[:1] in (["source"], ["copy"]))
    sizes = [f"{sum(shard.file_bytes for shard in index.shards):,}" for index in (source, copy)]
    assert (before[:3], after[:3]) == (["source", "none", "65,536"], ["copy", "zstd", "4,096"])
    assert [before[-1], after[-1]] == sizes
    assert int(after[3].replace(",", "")) < 1000
    assert int(before[3].replace(",", "")) > 80_000
    with MmapTokenStore(built.root) as old, MmapTokenStore("copy") as new:
        assert (old.get_slice(0, len(old)) == new.get_slice(0, len(new))).all()
    assert built("validate", "./copy").exit_code == 0


def test_it_says_what_it_is_doing_and_goes_by_path_from_outside(built):
    process = subprocess.run(
        [CORPUS, "recode", built.root, "there", "--compression", "lzf"],
        cwd=built.folder.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stderr == "copying 2 shards as lzf, comparing each …\n"
    assert load_index(built.folder.parent / "there").fingerprint == load_index(built.root).fingerprint


def test_a_damaged_source_and_a_folder_in_use_are_refused(built):
    assert "overlaps the corpus" in built.refused("recode", "c", str(built.root), "--compression", "gzip")
    damage_first_token_of(built.root, 1)
    assert "sha256 of the stored tokens is" in built.refused("recode", "c", "copy", "--compression", "gzip")
    assert not (built.folder / "copy/shards.json").exists()
    assert "Missing option '--compression'" in built.refused("recode", "c", "copy")
