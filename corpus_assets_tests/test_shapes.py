from pathlib import Path

import pytest

from corpus_assets.config import parse_corpus
from corpus_assets.errors import ConfigError
from corpus_assets.shapes import DEFAULT_TEMPLATE, number_as, split_template


def corpus(**options):
    entry = {"input": "in", "root": "out", **options}
    return parse_corpus("c", entry, base=Path("/base"), where="corpora.yaml")


def test_a_corpus_of_texts_keeps_the_fingerprint_it_had_before_there_were_shapes():
    expected = "bf893635"
    assert corpus().options_fingerprint.startswith(expected)
    assert corpus(format="text", fields={}, spans={}).options_fingerprint.startswith(expected)
    assert corpus().is_plain


@pytest.mark.parametrize(
    "options",
    [
        {"format": "chat"},
        {"format": "chat", "train_roles": ["user"]},
        {"format": "chat", "template": "{content}"},
        {"format": "segments"},
        {"format": "my.module:Name"},
        {"fields": {"weight": {"from": "weight"}}},
        {"fields": {"weight": {"from": "weight", "dtype": "float16"}}},
        {"fields": {"weight": {"from": "weight", "default": 1.0}}},
        {"spans": {"concepts": {"from": "concepts"}}},
        {"text_field": "body"},
    ],
)
def test_what_decides_the_content_of_a_shard_decides_the_fingerprint(options):
    assert corpus(**options).options_fingerprint != corpus().options_fingerprint
    assert corpus(**options).is_plain == (options.keys() <= {"text_field"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "cat"}, "format: found 'cat': Value error, expected text, segments, chat or package"),
        ({"train_roles": ["user"]}, "train_roles: found ['user']: Value error, has no effect without"),
        ({"format": "chat", "train_roles": []}, "train_roles: found []"),
        ({"format": "chat", "template": "{role}"}, "template: found '{role}': Value error, found 0 times"),
        ({"format": "chat", "template": "{content}{content}"}, "found 2 times {content}"),
        (
            {"format": "chat", "template": "{content}{name}"},
            "found {name}, expected {role} and one {content}",
        ),
        (
            {"format": "chat", "template": "{content:>9}"},
            "found {content}, expected {role} and one {content}",
        ),
        ({"format": "chat", "template": "{content"}, "template: found '{content'"),
        ({"fields": {"weight": {}}}, "fields.weight.from: missing"),
        (
            {"fields": {"weight": {"from": "w", "dtyp": "int8"}}},
            "fields.weight.dtyp: unknown key, expected one of: default, dtype, from",
        ),
        ({"fields": {"weight": {"from": "w", "dtype": "text"}}}, "fields.weight.dtype: found 'text'"),
        (
            {"fields": {"weight": {"from": "w", "dtype": "uint8", "default": 256}}},
            "fields.weight.default: found 256: Value error, found 256, expected a whole number from 0 to 255",
        ),
        ({"fields": {"a/b": {"from": "w"}}}, "fields.a/b"),
        ({"fields": {"document_ids": {"from": "w"}}}, "document_ids is made by the format or by the reader"),
        ({"format": "chat", "fields": {"loss_mask": {"from": "w"}}}, "loss_mask is made by the format"),
        ({"spans": {"concepts": {"form": "c"}}}, "spans.concepts.form: unknown key, expected one of: from"),
        ({"format": "a.b:C", "spans": {"s": {"from": "c"}}}, "spans: found"),
    ],
)
def test_a_wrong_option_is_refused_naming_file_corpus_and_key(options, message):
    with pytest.raises(ConfigError) as caught:
        corpus(**options)
    assert str(caught.value).startswith("corpora.yaml: corpus c:\n  ")
    assert message in str(caught.value)


def test_loss_mask_may_be_a_field_of_texts():
    assert (
        corpus(fields={"loss_mask": {"from": "mask", "dtype": "uint8"}}).fields["loss_mask"].dtype == "uint8"
    )


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (DEFAULT_TEMPLATE, (["<|", "|>\n"], ["\n"])),
        ("{content}", ([""], [""])),
        ("<{role}>{content}</{role}>", (["<", ">"], ["</", ">"])),
        ("{{{content}}}", (["{"], ["}"])),
    ],
)
def test_a_template_is_what_stands_before_and_behind_the_content(template, expected):
    assert split_template(template) == expected


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (255, "uint8", 255),
        (3.0, "int8", 3),
        (True, "uint8", 1),
        (-128, "int8", -128),
        (2, "float32", 2.0),
        (65_504, "float16", 65_504.0),
        (2**64 - 1, "uint64", 2**64 - 1),
    ],
)
def test_a_number_that_fits_is_taken(value, dtype, expected):
    assert number_as(value, dtype) == expected


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (256, "uint8"),
        (-1, "uint8"),
        (0.5, "int8"),
        (float("nan"), "int8"),
        (float("nan"), "float32"),
        (float("inf"), "float64"),
        (1e39, "float32"),
        (65_505, "float16"),
        (2**64, "uint64"),
        (10**400, "float64"),
        ("1", "float32"),
        (None, "float32"),
        ([1], "int8"),
    ],
)
def test_a_number_that_does_not_fit_is_refused(value, dtype):
    with pytest.raises(ValueError, match="expected a"):
        number_as(value, dtype)
