import pytest

from corpus_assets.sources.rows import RowError
from corpus_assets_tests.formats.conftest import pack


@pytest.mark.parametrize(
    ("segments", "ids", "mask"),
    [
        (
            [{"text": "ab", "train": False}, {"text": "é", "train": True}],
            [98, 99, 196, 170, 0],
            [0, 0, 1, 1, 1],  # the boundary is trained as the last segment is
        ),
        ([{"text": "a", "train": True}, {"text": "b", "train": False}], [98, 99, 0], [1, 0, 0]),
        ([{"text": "a", "train": False}, {"text": "", "train": True}], [98, 0], [0, 1]),
        ([], [0], [0]),
    ],
)
def test_ids_and_mask_by_hand(segments, ids, mask):
    assert pack({"s": segments}, format="segments", text_field="s") == (ids, {"loss_mask": mask}, {})


@pytest.mark.parametrize(
    ("record", "reason", "detail"),
    [
        ({}, "missing_text", "no field s; found no field"),
        ({"s": None}, "null_text", "s is null"),
        ({"s": "text"}, "bad_segments", "s is a string, expected an array"),
        ({"s": ["text"]}, "bad_segments", "s[0] is a string, expected an object"),
        ({"s": [{"train": True}]}, "bad_segments", "s[0] has no `text`"),
        ({"s": [{"text": 3, "train": True}]}, "bad_segments", "s[0].text is a number, expected a string"),
        ({"s": [{"text": "a"}]}, "bad_segments", "s[0].train is missing, expected true or false"),
        (
            {"s": [{"text": "a", "train": True}, {"text": "b", "train": 1}]},
            "bad_segments",
            "s[1].train is a number, expected true or false",
        ),
        ({"s": [{"text": "\ud800", "train": True}]}, "lone_surrogate", "the document cannot be encoded"),
    ],
)
def test_a_record_of_another_shape_is_rejected_with_its_place(record, reason, detail):
    with pytest.raises(RowError) as caught:
        pack(record, format="segments", text_field="s")
    assert (caught.value.reason, caught.value.detail) == (reason, detail)


def test_segments_inside_an_object_are_found():
    record = {"a": {"b": [{"text": "x", "train": True}]}}
    assert pack(record, format="segments", text_field="a.b")[0] == [121, 0]
