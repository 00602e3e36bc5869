"""Full inspection of tokens that agree with their digests: ids in range, boundaries where documents end."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus_assets.shards import inspection
from corpus_assets.shards.inspection import ShardInspector
from corpus_assets.shards.records import TokenizerInfo
from corpus_assets.shards.writer import HDF5ShardWriter

LARGEST = 60_000


def written(folder, documents, boundary):
    """The record of a shard of `documents`."""
    tokenizer = TokenizerInfo(
        name="test", fingerprint="test", boundary_id=boundary, max_token_id=LARGEST, canary_ids=(1, 2)
    )
    path = folder / "shard.h5"
    with HDF5ShardWriter(path, tokenizer=tokenizer, window_size=4, chunk_size=16) as writer:
        for row, document in enumerate(documents):
            writer.add_document(document, row=row)
        return writer.close()


def overwritten(folder, info, changes):
    """The tokens of the shard after `changes`, and a record that vouches for them."""
    path = folder / info.path
    raw = bytearray(path.read_bytes())
    start = info.extents["tokens"]
    tokens = np.frombuffer(raw, "<u2", info.token_count, start)
    for place, value in changes:
        tokens[place % info.token_count] = value
    path.write_bytes(raw)
    sha256 = hashlib.sha256(tokens.data).hexdigest()
    return tokens, replace(info, sha256=sha256, data_sha256=sha256)


@given(data=st.data())
@pytest.mark.parametrize("boundary", [0, 500, LARGEST], ids=["lowest", "between", "highest"])
@pytest.mark.parametrize("blocks", [(48, 3), (512 * 1024, 32)], ids=["many blocks", "one block"])
def test_whatever_is_changed_is_found_by_what_it_breaks(tmp_path_factory, boundary, blocks, data):
    folder = tmp_path_factory.mktemp("shard")
    ids = st.integers(1, LARGEST - 1).filter(lambda token: token != boundary)
    documents = data.draw(st.lists(st.lists(ids, max_size=40), min_size=1, max_size=30))
    info = written(folder, documents, boundary)
    values = st.sampled_from([0, 1, 500, LARGEST, LARGEST + 1, 2**16 - 1])
    changes = data.draw(st.lists(st.tuples(st.integers(0, 2000), values), max_size=4))
    tokens, forged = overwritten(folder, info, changes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inspection, "HASH_BLOCK", blocks[0])
        patch.setattr(inspection, "_BLOCKS_AHEAD", blocks[1])
        found = {finding.check for finding in ShardInspector(folder, forged).full()}
    last_tokens = np.cumsum([len(document) + 1 for document in documents]) - 1
    misplaced = not np.array_equal(np.flatnonzero(tokens == boundary), last_tokens)
    assert ("boundaries" in found) == misplaced
    assert ("ids" in found) == (tokens.max() > LARGEST)
    assert found <= {"boundaries", "ids", "attributes"}  # the file's own attribute has the digest of before


def test_a_file_cut_short_while_it_is_read_is_a_finding(tmp_path):
    info = written(tmp_path, [[1, 2, 3]] * 1000, boundary=0)
    findings = ShardInspector(tmp_path, replace(info, input_bytes=1)).full()
    assert next(findings).check == "attributes"  # the tokens come next
    with (tmp_path / info.path).open("r+b") as file:
        file.truncate(info.extents["tokens"] + 5000)
    (finding,) = findings
    assert finding.check == "format"
    assert "cannot be read to its end: " in finding.message
    assert finding.message.endswith(
        "shard.h5: ends at byte " + str(info.extents["tokens"] + 5000) + ", expected 3000 more"
    )
