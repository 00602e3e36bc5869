import hashlib
import re
import shutil
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corpus_assets import load_index, validate_corpus, write_corpus
from corpus_assets.errors import IndexMismatchError
from corpus_assets.shards import inspection
from corpus_assets.shards.index import publish_record, write_index
from corpus_assets.shards.publish import scratch_folder
from corpus_assets.shards.seal import frame_digest
from corpus_assets.shards.statistics import corpus_statistics
from corpus_assets_tests.conftest import write_jsonl


def sound_corpus(folder: Path, compression: str) -> Path:
    for name in ("a", "b", "c"):
        write_jsonl(folder / "input" / f"{name}.jsonl", [f"{name} {number}" * 5 for number in range(50)])
    write_corpus(folder / "input", folder / "corpus", workers=1, chunk_size=256, compression=compression)
    return folder / "corpus"


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    return sound_corpus(tmp_path_factory.mktemp("sound"), "none")


@pytest.fixture(scope="module")
def sound_compressed(tmp_path_factory) -> Path:
    return sound_corpus(tmp_path_factory.mktemp("compressed"), "zstd")


@pytest.fixture
def corpus(sound, tmp_path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "corpus"))


def flip(path: Path, offset: int, bit: int = 0) -> None:
    raw = bytearray(path.read_bytes())
    raw[offset] ^= 1 << bit
    path.write_bytes(raw)


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("fixture", ["sound", "sound_compressed"])
def test_a_sound_corpus_has_no_findings(request, fixture, quick):
    report = validate_corpus(request.getfixturevalue(fixture), quick=quick)
    assert report.ok
    assert report.shard_count == 3


def test_a_flipped_byte_names_exactly_its_shard_and_token_range(corpus):
    info = load_index(corpus).shards[1]
    flip(corpus / info.path, info.extents["tokens"] + 2 * 300)
    report = validate_corpus(corpus)
    assert report.failed_shards == ["b.jsonl"]
    assert ("digest", (256, 512)) in [(finding.check, finding.token_range) for finding in report.findings]
    assert validate_corpus(corpus, quick=True).ok


@pytest.mark.parametrize("fixture", ["sound", "sound_compressed"])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_flipped_bit_of_a_shard_is_found(request, tmp_path_factory, fixture, data):
    root = tmp_path_factory.mktemp("flipped")
    corpus = Path(shutil.copytree(request.getfixturevalue(fixture), root / "corpus"))
    info = load_index(corpus).shards[0]
    tokens = st.integers(info.data_offset, info.data_offset + info.data_bytes - 1)
    offset = data.draw(st.integers(0, info.file_bytes - 1) | tokens)
    flip(corpus / info.path, offset, data.draw(st.integers(0, 7)))
    assert validate_corpus(corpus).failed_shards == ["a.jsonl"]
    in_tokens = 0 <= offset - info.data_offset < info.data_bytes
    assert validate_corpus(corpus, quick=True).ok == in_tokens
    shutil.rmtree(root)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_flipped_bit_of_the_index_is_refused(tmp_path_factory, sound, data):
    root = tmp_path_factory.mktemp("index")
    index, content = load_index(sound), (sound / "shards.json").read_bytes()
    offset = data.draw(st.integers(0, len(content) - 1))
    (root / "shards.json").write_bytes(content)
    flip(root / "shards.json", offset, data.draw(st.integers(0, 7)))
    try:
        assert load_index(root).shards == index.shards  # white space alone
    except IndexMismatchError:
        return


def test_any_number_of_the_index_is_under_its_checksum(sound, tmp_path):
    """A digit that no other record disagrees with."""
    content = (sound / "shards.json").read_text(encoding="utf-8")
    for name in ("input_bytes", "window_size", "file_bytes", "global_start"):
        changed = re.sub(
            rf'("{name}": )(\d+)', lambda match: f"{match[1]}{int(match[2]) + 1}", content, count=1
        )
        assert changed != content
        (tmp_path / "shards.json").write_text(changed, encoding="utf-8")
        with pytest.raises(IndexMismatchError, match=r"checksum is .* it was damaged"):
            load_index(tmp_path)


def test_all_bad_shards_are_listed_at_once(corpus):
    first, second, third = load_index(corpus).shards
    (corpus / first.path).unlink()
    with (corpus / second.path).open("ab") as file:
        file.truncate(1000)
    flip(corpus / third.path, third.extents["document_ends"])
    report = validate_corpus(corpus)
    assert report.failed_shards == ["a.jsonl", "b.jsonl", "c.jsonl"]


def test_swapped_files_are_found_without_reading_tokens(corpus):
    first, second, _ = load_index(corpus).shards
    swap = corpus / "swap"
    (corpus / first.path).rename(swap)
    (corpus / second.path).rename(corpus / first.path)
    swap.rename(corpus / second.path)
    assert validate_corpus(corpus, quick=True).failed_shards == ["a.jsonl", "b.jsonl"]


def _end_moved(file):
    file["document_ends"][3] += 1


def _boundary_inside_a_document(file):
    file["tokens"][file["document_ends"][3] + 1] = file.attrs["boundary_id"]


def _boundary_moved(file):
    end = file["document_ends"][3]
    file["tokens"][end - 2 : end] = file["tokens"][end - 2 : end][::-1]


@pytest.mark.parametrize("block_bytes", [None, 48])  # in one block, or in many stretches of a few blocks
@pytest.mark.parametrize("forge", [_end_moved, _boundary_inside_a_document, _boundary_moved])
def test_a_consistent_forgery_of_boundaries_is_found(corpus, forge, block_bytes, monkeypatch):
    """Digests agree, but the boundary tokens do not stand where the documents end."""
    info = load_index(corpus).shards[0]
    with h5py.File(corpus / info.path, "r+") as file:
        forge(file)
        sha256 = file.attrs["sha256"] = hashlib.sha256(file["tokens"][: info.token_count].data).hexdigest()
    run = info.extents["tokens"], info.token_count * 2
    forged = replace(
        info,
        sha256=sha256,
        data_sha256=sha256,
        frame_sha256=frame_digest(corpus / info.path, *run),
        file_bytes=(corpus / info.path).stat().st_size,
        global_start=0,
    )
    if block_bytes:
        monkeypatch.setattr(inspection, "HASH_BLOCK", block_bytes)
        monkeypatch.setattr(inspection, "_BLOCKS_AHEAD", 3)
    publish_record(corpus, forged, scratch=scratch_folder(corpus))
    write_index(corpus, ["a.jsonl", "b.jsonl", "c.jsonl"])
    (finding,) = validate_corpus(corpus).findings
    assert (finding.shard, finding.check) == ("a.jsonl", "boundaries")


def test_an_input_that_is_not_indexed_is_found(corpus):
    write_index(corpus, ["a.jsonl", "c.jsonl"])
    report = validate_corpus(corpus, quick=True)
    assert report.failed_shards == ["b.jsonl"]
    assert "input b.jsonl is not in shards.json" in report.findings[0].message


def test_a_damaged_index_is_a_finding_not_a_crash(corpus):
    (corpus / "shards.json").write_text("{}")
    (finding,) = validate_corpus(corpus).findings
    assert finding.check == "index"


def test_statistics_count_every_document_of_every_shard(build):
    index = build({"a.jsonl": ["", "a" * 7], "b.jsonl": ["b" * 31, "c" * 127]})
    found = corpus_statistics(index)
    assert (found.document_count, found.token_count, found.shard_count) == (4, 1 + 8 + 32 + 128, 2)
    assert sum(found.histogram_counts) == 4
    assert found.length_quantiles[0] == 1.0
    assert found.length_quantiles[-1] == 128.0
    assert found.boundary_share == pytest.approx(4 / 169)
    assert np.isclose(found.mean_length, 169 / 4)
