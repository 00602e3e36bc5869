import json
import subprocess
import sys

import numpy as np
import pytest

from corpus_assets import MmapTokenStore, load_index, validate_corpus, write_corpus
from corpus_assets.errors import ConfigError, ShardError
from corpus_assets.shards import layout
from corpus_assets.shards.recode import recode_corpus

OPTIONS = {
    "format": "segments",
    "text_field": "segments",
    "fields": {"weight": {"from": "w"}},
    "spans": {"notes": {"from": "notes"}},
    "chunk_size": 1024,
    "workers": 1,
}


@pytest.fixture
def corpus(tmp_path):
    """Two shards of segments with fields and spans, 1024 tokens per chunk."""
    for name in ("a", "b"):
        rows = [
            {
                "segments": [{"text": f"{name}é{number} " * (number % 50), "train": number % 2 == 0}],
                "w": number / 8,
                "notes": [{"start": 0, "end": 2, "value": {"number": number}}] if number % 50 else [],
            }
            for number in range(150)
        ]
        path = tmp_path / "in" / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {}]))
    return write_corpus(tmp_path / "in", tmp_path / "out", **OPTIONS)


def datasets(path):
    with layout.open_file(path) as file:
        return {name: layout.read(item, 0, len(item)) for name, item in layout.datasets(file).items()}


CODECS = ["none", "gzip", "lzf", "zstd", "zstd-dict", "blosc2"]


@pytest.mark.parametrize("compression", CODECS)
@pytest.mark.parametrize("chunk_size", [None, 4096, 100])
def test_a_copy_in_any_codec_is_the_same_corpus(corpus, tmp_path, compression, chunk_size):
    copy = recode_corpus(corpus.root, tmp_path / "copy", compression=compression, chunk_size=chunk_size)
    assert copy.fingerprint == corpus.fingerprint
    assert load_index(tmp_path / "copy") == copy
    assert validate_corpus(tmp_path / "copy").ok
    for old, new in zip(corpus.shards, copy.shards, strict=True):
        assert (new.sha256, new.column_sha256) == (old.sha256, old.column_sha256)
        assert (new.ledger, new.format, new.fields, new.spans) == (
            old.ledger,
            old.format,
            old.fields,
            old.spans,
        )
        assert (new.compression, new.chunk_size) == (compression, chunk_size or 1024)
        assert ("tokens" in new.extents) == (compression == "none")
        before, behind = datasets(corpus.root / old.path), datasets(copy.root / new.path)
        assert before.keys() == behind.keys()
        for name in before.keys() - {"token_crc32"}:
            np.testing.assert_array_equal(before[name], behind[name])
            assert before[name].dtype == behind[name].dtype
    with MmapTokenStore(corpus.root) as old_store, MmapTokenStore(tmp_path / "copy") as new_store:
        np.testing.assert_array_equal(
            new_store.get_slice(0, len(new_store)), old_store.get_slice(0, len(old_store))
        )


@pytest.mark.parametrize("first", CODECS)
def test_every_codec_becomes_every_other(corpus, tmp_path, first):
    source = recode_corpus(corpus.root, tmp_path / "first", compression=first)
    for second in CODECS:
        copy = recode_corpus(source.root, tmp_path / second, compression=second)
        assert {shard.compression for shard in copy.shards} == {second}
        assert validate_corpus(copy.root).ok
        for old, new in zip(corpus.shards, copy.shards, strict=True):
            assert (new.sha256, new.column_sha256) == (old.sha256, old.column_sha256)


def test_there_and_back_gives_the_same_bytes(corpus, tmp_path):
    recode_corpus(corpus.root, tmp_path / "zstd", compression="zstd")
    first = recode_corpus(corpus.root, tmp_path / "copy", compression="none")
    back = recode_corpus(tmp_path / "zstd", tmp_path / "back", compression="none")
    for one, other, original in zip(first.shards, back.shards, corpus.shards, strict=True):
        assert one.extents == other.extents
        assert one.file_bytes == other.file_bytes
        tokens = slice(one.data_offset, one.data_offset + one.data_bytes)
        assert (first.root / one.path).read_bytes()[tokens] == (back.root / other.path).read_bytes()[tokens]
        assert one.sha256 == original.sha256


def test_a_call_that_was_interrupted_goes_on_where_it_was(corpus, tmp_path):
    class Interrupted(Exception):
        pass

    def stop(info):
        raise Interrupted

    with pytest.raises(Interrupted):
        recode_corpus(corpus.root, tmp_path / "copy", compression="gzip", on_shard=stop)
    assert not (tmp_path / "copy" / "shards.json").exists()
    (written,) = (tmp_path / "copy" / "shards").glob("*.h5")
    stamp = written.stat().st_mtime_ns
    copy = recode_corpus(corpus.root, tmp_path / "copy", compression="gzip")
    assert len(copy.shards) == 2
    assert written.stat().st_mtime_ns == stamp
    assert not list((tmp_path / "copy" / ".building").iterdir())


def test_another_codec_in_the_same_folder_replaces_the_first(corpus, tmp_path):
    first = recode_corpus(corpus.root, tmp_path / "copy", compression="gzip")
    second = recode_corpus(corpus.root, tmp_path / "copy", compression="zstd")
    assert {shard.compression for shard in load_index(tmp_path / "copy").shards} == {"zstd"}
    assert not {shard.path for shard in first.shards} & {shard.path for shard in second.shards}


@pytest.mark.parametrize("codec", ["none", "lzf", "blosc2"])
def test_a_damaged_source_is_named_and_nothing_of_it_is_published(corpus, tmp_path, codec):
    if codec != "none":
        corpus = recode_corpus(corpus.root, tmp_path / "source", compression=codec)
    shard = corpus.shards[1]
    with (corpus.root / shard.path).open("rb+") as file:
        file.seek(shard.data_offset + 11)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(ShardError, match=r"b\.jsonl-.*sha256 of the stored tokens is"):
        recode_corpus(corpus.root, tmp_path / "copy", compression="gzip")
    assert len(list((tmp_path / "copy" / "shards").glob("*.h5"))) == 1
    assert not (tmp_path / "copy" / "shards.json").exists()


@pytest.mark.parametrize("place", ["fields/weight", "document_rows"])
def test_damage_beside_the_tokens_is_found_too(corpus, tmp_path, place):
    shard = corpus.shards[0]
    with (corpus.root / shard.path).open("rb+") as file:
        file.seek(shard.extents[place] + 3)
        file.write(b"\x55")
    with pytest.raises(ShardError, match=r"a\.jsonl-.*bytes outside the tokens changed"):
        recode_corpus(corpus.root, tmp_path / "copy", compression="gzip")


def test_the_copy_has_a_folder_of_its_own(corpus, tmp_path):
    for target in (corpus.root, corpus.root / "inner", corpus.root.parent):
        with pytest.raises(ConfigError, match="overlaps the corpus"):
            recode_corpus(corpus.root, target, compression="gzip")
    (tmp_path / "other" / "in").mkdir(parents=True)
    (tmp_path / "other" / "in" / "a.jsonl").write_text('{"text": "x"}\n')
    write_corpus(tmp_path / "other" / "in", tmp_path / "other" / "out", workers=1)
    with pytest.raises(ConfigError, match=f"expected none or {corpus.fingerprint}"):
        recode_corpus(corpus.root, tmp_path / "other" / "out", compression="gzip")


def test_an_unknown_codec_is_refused(corpus, tmp_path):
    with pytest.raises(ValueError, match="compression is 'rar'"):
        recode_corpus(corpus.root, tmp_path / "copy", compression="rar")


def test_blosc2_is_read_without_being_told(corpus, tmp_path):
    recode_corpus(corpus.root, tmp_path / "copy", compression="blosc2")
    code = f"from corpus_assets import MmapTokenStore; print(MmapTokenStore({str(tmp_path / 'copy')!r}).get_slice(0, 9).tolist())"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    with MmapTokenStore(corpus.root) as store:
        assert json.loads(printed) == store.get_slice(0, 9).tolist()
