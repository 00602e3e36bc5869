import pytest

from corpus_assets.errors import ConfigError
from corpus_assets.formats import record_format
from corpus_assets.sources.rows import RowError
from corpus_assets_tests.formats.conftest import pack

WEIGHT = {"weight": {"from": "meta.weight", "default": 1.0}}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"text": "ab", "meta": {"weight": 0.5}}, [0.5, 0.5, 0.5]),
        ({"text": "a", "meta": {"weight": 2}}, [2.0, 2.0]),
        ({"text": "a", "meta": {"weight": None}}, [1.0, 1.0]),
        ({"text": "a", "meta": None}, [1.0, 1.0]),
        ({"text": ""}, [1.0]),
    ],
)
def test_a_number_is_repeated_over_all_tokens_and_the_boundary(record, expected):
    assert pack(record, format="text", fields=WEIGHT)[1] == {"weight": expected}


def test_values_stand_beside_those_of_the_format():
    record = {"text": [{"text": "a", "train": True}], "source": 7}
    fields = {"source": {"from": "source", "dtype": "uint8"}}
    made = record_format("segments", fields=fields)
    assert made.fields == {"loss_mask": "uint8", "source": "uint8"}
    assert pack(record, format=made) == ([98, 0], {"loss_mask": [1, 1], "source": [7, 7]}, {})


@pytest.mark.parametrize(
    ("value", "dtype", "reason", "detail"),
    [
        (None, "float32", "missing_field", "w is null"),
        ("1", "float32", "bad_field", "w: found str, expected a number"),
        (256, "uint8", "bad_field", "w: found 256, expected a whole number from 0 to 255"),
        (0.5, "int64", "bad_field", "w: found 0.5, expected a whole number"),
        (float("nan"), "float64", "bad_field", "w: found nan, expected a finite float64"),
    ],
)
def test_a_value_that_is_absent_or_does_not_fit_is_rejected(value, dtype, reason, detail):
    with pytest.raises(RowError) as caught:
        pack({"text": "a", "w": value}, format="text", fields={"w": {"from": "w", "dtype": dtype}})
    assert caught.value.reason == reason
    assert caught.value.detail.startswith(detail)


def test_a_value_without_a_default_must_be_there():
    with pytest.raises(RowError) as caught:
        pack({"text": "a"}, format="text", fields={"w": {"from": "w"}})
    assert (caught.value.reason, caught.value.detail) == ("missing_field", 'no field w; found "text"')


def test_the_fingerprint_covers_the_values_and_the_format_inside():
    made = [
        record_format("text"),
        record_format("text", fields=WEIGHT),
        record_format("text", fields={"weight": {"from": "meta.weight", "default": 2.0}}),
        record_format("text", fields={"weight": {"from": "meta.weight", "default": 1.0, "dtype": "float16"}}),
        record_format("segments", fields=WEIGHT),
        record_format("chat", fields=WEIGHT),
        record_format("chat", fields=WEIGHT, train_roles=["user"]),
        record_format("chat", fields=WEIGHT, template="{content}"),
        record_format("text", fields=WEIGHT, spans={"c": {"from": "c"}}),
        record_format("text", fields=WEIGHT, text_field="body"),
    ]
    assert len({one.fingerprint for one in made}) == len(made)
    assert record_format("text", fields=WEIGHT).fingerprint == made[1].fingerprint


def test_a_name_for_two_things_is_refused():
    with pytest.raises(ConfigError, match="spans: weight is the name of a field too"):
        record_format("text", fields=WEIGHT, spans={"weight": {"from": "x"}})


def test_a_wrong_option_is_a_config_error():
    with pytest.raises(ConfigError, match=r"format text: fields\.w\.from: Field required"):
        record_format("text", fields={"w": {}})
