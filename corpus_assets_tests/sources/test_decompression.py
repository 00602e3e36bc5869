"""Compressed inputs are read to their last byte, or refused with the place."""

import gzip
import hashlib
import random
import re
import tracemalloc

import orjson
import pytest
import zstandard

from corpus_assets.errors import InputUnreadableError
from corpus_assets.sources import open_source

SKIPPABLE = b"\x52\x2a\x4d\x18\x05\x00\x00\x00hello"
LINES = [orjson.dumps({"text": f"{i} {random.Random(i).random()}"}) for i in range(500)]
CONTENT = b"\n".join(LINES) + b"\n"
COMPRESSORS = {".gz": gzip.compress, ".zst": zstandard.compress}


@pytest.fixture(params=[".gz", ".zst"])
def suffix(request):
    return request.param


@pytest.fixture
def read(tmp_path, suffix):
    def read_bytes(data: bytes):
        path = tmp_path / f"in.jsonl{suffix}"
        path.write_bytes(data)
        source = open_source(str(path))
        return [document.text for document in source], source

    return read_bytes


def test_every_member_is_read_even_when_a_line_crosses_them(read, suffix):
    compress = COMPRESSORS[suffix]
    data = compress(CONTENT[:1000]) + compress(b"") + compress(CONTENT[1000:5000]) + compress(CONTENT[5000:])
    texts, source = read(data)
    assert texts == [orjson.loads(line)["text"] for line in LINES]
    assert source.bytes_read == len(data)
    assert source.sha256 == hashlib.sha256(data).hexdigest()


def test_thousands_of_members_are_read(read, suffix):
    texts, _ = read(b"".join(COMPRESSORS[suffix](line + b"\n") for line in LINES))
    assert len(texts) == 500


def test_empty_content_is_an_empty_source(read, suffix):
    texts, source = read(COMPRESSORS[suffix](b""))
    assert texts == []
    assert source.counts.rows == 0


@pytest.mark.parametrize("member", [0, 1])
def test_a_file_cut_at_any_byte_names_that_byte(read, suffix, member):
    one = COMPRESSORS[suffix](b'{"text": "a"}\n')
    for length in range(member == 1, len(one)):  # a second member of no bytes is no member
        data = one * member + one[:length]
        with pytest.raises(InputUnreadableError) as caught:
            read(data)
        assert re.search(rf"in\.jsonl\{suffix}: cut: the file ends at byte {len(data)},", str(caught.value))


@pytest.mark.parametrize("garbage", [b"garbage", b'{"text": "b"}\n', b"\x00\x00x"])
def test_something_behind_the_last_member_is_refused_with_its_place(read, suffix, garbage):
    data = COMPRESSORS[suffix](b'{"text": "a"}\n')
    with pytest.raises(InputUnreadableError, match=r"found .* expected the start of another") as caught:
        read(data + garbage)
    place = int(re.search(r"at byte (\d+)", str(caught.value))[1])
    assert len(data) <= place <= len(data) + 2


def test_plain_text_with_a_compressed_name_is_refused(read):
    with pytest.raises(InputUnreadableError, match="at byte 0, expected the start of the first"):
        read(b'{"text": "a"}\n')


def test_flipped_bits_are_noticed(read, suffix):
    expected = [orjson.loads(line)["text"] for line in LINES]
    checked = zstandard.ZstdCompressor(write_checksum=True)
    data = gzip.compress(CONTENT) if suffix == ".gz" else checked.compress(CONTENT)
    generator = random.Random(3)
    refused = 0
    for _ in range(60):
        position = generator.randrange(len(data))
        flipped = bytearray(data)
        flipped[position] ^= 1 << generator.randrange(8)
        try:
            texts, _ = read(bytes(flipped))
        except InputUnreadableError:
            refused += 1
        else:
            assert texts == expected  # such as the time stamp in a gzip header
    assert refused > 50


def test_a_bomb_is_passed_over_with_flat_memory(read, suffix):
    line = b'{"text": "a"}\n' + b" " * 150_000_000 + b'\n{"text": "b"}\n'
    data = COMPRESSORS[suffix](line) if suffix == ".zst" else gzip.compress(line, 1)
    del line
    tracemalloc.start()
    texts, source = read(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert texts == ["a", "b"]
    assert source.counts.rejected == {"line_too_long": 1}
    assert peak < 64 * 1024 * 1024 + 80_000_000


def test_padding_after_a_gzip_member_is_allowed(tmp_path):
    path = tmp_path / "in.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"text": "a"}\n') + b"\x00" * 600_000 + gzip.compress(b'{"text": "b"}'))
    assert [document.text for document in open_source(str(path))] == ["a", "b"]


def test_a_skippable_zstd_frame_is_skipped(tmp_path):
    path = tmp_path / "in.jsonl.zst"
    path.write_bytes(SKIPPABLE + zstandard.compress(b'{"text": "a"}\n') + SKIPPABLE)
    assert [document.text for document in open_source(str(path))] == ["a"]
    path.write_bytes(zstandard.compress(b'{"text": "a"}\n') + SKIPPABLE[:10])
    with pytest.raises(InputUnreadableError, match="cut"):
        list(open_source(str(path)))


def test_a_large_file_crosses_every_block_border(read, suffix):
    rows = [orjson.dumps({"text": f"{i} " + "x" * (i % 3000)}) for i in range(4000)]
    texts, _ = read(COMPRESSORS[suffix](b"\n".join(rows)))
    assert texts == [orjson.loads(row)["text"] for row in rows]
