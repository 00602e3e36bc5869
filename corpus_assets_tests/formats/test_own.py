import textwrap
from types import MappingProxyType

import numpy as np
import pytest

from corpus_assets import ByteTokenizer
from corpus_assets.errors import ConfigError, TokenizerError
from corpus_assets.formats import record_format
from corpus_assets.formats.batch import end_to_end, pack_record
from corpus_assets.formats.own import check_format
from corpus_assets.formats.protocol import PackedRecord, RecordRejected
from corpus_assets.formats.spans import span_table
from corpus_assets.sources.rows import RowError
from corpus_assets_tests.formats.conftest import pack


class Pairs:
    """Two texts; the second counts twice."""

    name = "pairs"
    fields = MappingProxyType({"weight": "float32"})
    spans = ("side",)
    fingerprint = "pairs-1"

    def pack(self, record, tokenizer):
        if "left" not in record:
            raise RecordRejected("bad_pair", "no left")
        left, right = tokenizer.encode(record["left"]), tokenizer.encode(record["right"])
        weights = [1.0] * len(left) + [2.0] * (len(right) + 1)
        sides = span_table([(0, len(left), "left")]) if left else span_table([])
        return PackedRecord(
            np.array(left + right, dtype=np.int64), {"weight": np.array(weights)}, {"side": sides}
        )


def test_an_own_format_by_hand():
    assert pack({"left": "ab", "right": "c"}, format=Pairs()) == (
        [98, 99, 100, 0],
        {"weight": [1, 1, 2, 2]},
        {"side": [(0, 2, b'"left"')]},
    )


def test_documents_follow_each_other():
    made, tokenizer = Pairs(), ByteTokenizer()
    records = [{"left": "ab", "right": ""}, {"left": "", "right": ""}, {"left": "c", "right": "d"}]
    batch = end_to_end([pack_record(made, record, tokenizer) for record in records], made, tokenizer)
    assert batch.ids.tolist() == [98, 99, 0, 0, 100, 101, 0]
    assert batch.ids.dtype == np.uint16
    assert batch.ends.tolist() == [3, 4, 7]
    assert batch.fields["weight"].tolist() == [1, 1, 2, 2, 1, 2, 2]
    assert batch.fields["weight"].dtype == np.float32
    assert batch.spans["side"].starts.tolist() == [0, 4]
    assert batch.spans["side"].stops.tolist() == [2, 5]
    nothing = end_to_end([], made, tokenizer)
    assert (len(nothing.ids), len(nothing.ends), nothing.fields["weight"].dtype) == (0, 0, np.float32)


def made_of(result):
    class Odd(Pairs):
        def pack(self, *_):
            if isinstance(result, Exception):
                raise result
            return result

    return Odd()


def packed(ids, weights, spans=()):
    return PackedRecord(np.array(ids), {"weight": np.array(weights)}, {"side": span_table(spans)})


@pytest.mark.parametrize(
    ("result", "reason", "detail"),
    [
        (KeyError("x"), "format_failed", "KeyError: 'x'"),
        (RecordRejected("too_short", "3"), "too_short", "3"),
        ({"ids": []}, "format_failed", "pack returned dict, expected a PackedRecord"),
        (
            packed([1.5], [1, 1]),
            "format_failed",
            "ids are float64 of shape (1,), expected one row of integers",
        ),
        (packed([[1]], [1, 1]), "format_failed", "ids are int64 of shape (1, 1)"),
        (packed([257], [1, 1]), "format_failed", "ids are 257 to 257, expected 0 to 256"),
        (packed([-1], [1, 1]), "format_failed", "ids are -1 to -1"),
        (packed([5, 0], [1, 1, 1]), "boundary_in_text", "the document cannot be encoded"),
        (packed([5], [1]), "format_failed", "pack: field weight has shape (1,) for 2 tokens"),
        (packed([5], ["a", "b"]), "format_failed", "pack: field weight: values are <U1"),
        (PackedRecord(np.array([5])), "format_failed", "pack: found fields [] and spans []"),
        (packed([5], [1, 1], [(1, 1, 0)]), "format_failed", "pack: spans side: expected 0 <= start"),
        (packed([5], [1, 1], [(0, 3, 0)]), "format_failed", "pack: spans side: expected 0 <= start"),
    ],
)
def test_what_an_own_format_gets_wrong_rejects_the_row(result, reason, detail):
    with pytest.raises(RowError) as caught:
        pack({}, format=made_of(result))
    assert caught.value.reason == reason
    assert caught.value.detail.startswith(detail)


def test_errors_of_the_world_are_not_the_rows_fault():
    for error in (TokenizerError("gone"), MemoryError()):
        with pytest.raises(type(error)):
            pack({}, format=made_of(error))


@pytest.fixture
def module(tmp_path, monkeypatch):
    """`module(source)` → the name of a module that holds it, importable."""
    monkeypatch.syspath_prepend(tmp_path)
    count = 0

    def write(source: str) -> str:
        nonlocal count
        count += 1
        name = f"own_{tmp_path.name}_{count}".replace("-", "_")
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        return name

    return write


GOOD = """
    class Made:
        name = "made"
        fields = {}
        spans = ()
        fingerprint = "1"
        def pack(self, record, tokenizer): ...
    INSTANCE = Made()
    def build(): return Made()
    class Named(Made): name = "named"
    class Broken(Made):
        def __init__(self): raise RuntimeError("no licence")
    class Needy(Made):
        def __init__(self, path): ...
    class NoPack: name = "x"; fields = {}; spans = (); fingerprint = "1"
    class NoFields: name = "x"; spans = (); fingerprint = "1"; pack = print
    class EmptyPrint(Made): fingerprint = ""
    class TextDtype(Made): fields = {"w": "str"}
    class NoDtype(Made): fields = {"w": "wide"}
    class BadName(Made): fields = {"a/b": "uint8"}
    class Computed(Made): fields = {"document_ids": "int64"}
    class OneSpan(Made): spans = "topic"
    NUMBER = 3
"""


@pytest.mark.parametrize("attribute", ["Made", "INSTANCE", "build"])
def test_a_class_an_instance_and_a_function_name_a_format(module, attribute):
    assert record_format(f"{module(GOOD)}:{attribute}").name == "made"


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("Absent", "AttributeError"),
        ("Broken", "RuntimeError: no licence"),
        ("Needy", "TypeError"),
        ("NUMBER", "TypeError: 'int' object is not callable"),
        ("NoPack", "NoPack has no pack, expected a RecordFormat"),
        ("NoFields", "NoFields has no fields"),
        ("EmptyPrint", "fingerprint is '', expected a text"),
        ("TextDtype", "field w is <U0, expected integers or floats"),
        ("NoDtype", "fields and spans: data type 'wide' not understood"),
        ("BadName", "'a/b' is no name"),
        ("Computed", "document_ids is made by the reader"),
        ("OneSpan", "spans is 'topic', expected a sequence of names"),
    ],
)
def test_what_is_no_format_is_refused_by_its_name(module, attribute, message):
    spec = f"{module(GOOD)}:{attribute}"
    with pytest.raises(ConfigError) as caught:
        record_format(spec)
    assert str(caught.value).startswith(f"format {spec}: ")
    assert message in str(caught.value)


def test_a_module_that_is_absent_or_fails_is_named(module):
    with pytest.raises(ConfigError, match=r"format gone\.away:X: cannot be loaded: ModuleNotFoundError"):
        record_format("gone.away:X")
    name = module("raise OSError('no network')")
    with pytest.raises(ConfigError, match="OSError: no network"):
        record_format(f"{name}:X")


def test_a_module_in_the_working_folder_is_found(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path / "elsewhere")  # and so restores the path
    (tmp_path / "in_working_folder.py").write_text(textwrap.dedent(GOOD))
    monkeypatch.chdir(tmp_path)
    assert record_format("in_working_folder:Made").name == "made"


def test_values_around_an_own_format_may_not_take_its_names(module):
    source = GOOD.replace("fields = {}", 'fields = {"w": "uint8"}', 1)
    spec = f"{module(source)}:Made"
    assert record_format(spec, fields={"v": {"from": "v"}}).fields == {"w": "uint8", "v": "float32"}
    with pytest.raises(ConfigError, match="fields: w is a field of format own_"):
        record_format(spec, fields={"w": {"from": "w"}})


def test_the_example_above_is_a_format():
    check_format(Pairs(), where="test")
