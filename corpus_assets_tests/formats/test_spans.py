import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus_assets import ByteTokenizer, load_tokenizer
from corpus_assets.formats import record_format
from corpus_assets.formats.batch import pack_record
from corpus_assets.formats.spans import CharacterSpan, span_table, to_tokens
from corpus_assets.sources.rows import RowError
from corpus_assets.tokenizers.protocol import TextTokens
from corpus_assets_tests.formats.conftest import pack

CONCEPTS = {"concepts": {"from": "c"}}


def span(start, end, value="x"):
    return {"start": start, "end": end, "value": value}


@pytest.mark.parametrize(
    ("text", "spans", "expected"),
    [
        ("abc", [span(0, 1), span(1, 3, [1, None])], [(0, 1, b'"x"'), (1, 3, b"[1,null]")]),
        ("é€b", [span(1, 2)], [(2, 5, b'"x"')]),  # é is two bytes, € three
        ("ab", [span(0, 2), span(0, 2), span(1, 2)], [(0, 2, b'"x"'), (0, 2, b'"x"'), (1, 2, b'"x"')]),
        ("\U0001f600", [span(0, 1, {"é": 1})], [(0, 4, '{"é":1}'.encode())]),
    ],
)
def test_characters_become_tokens_by_hand(text, spans, expected):
    assert pack({"text": text, "c": spans}, format="text", spans=CONCEPTS)[2] == {"concepts": expected}


def test_a_text_without_annotations_has_none():
    assert pack({"text": "", "c": []}, format="text", spans=CONCEPTS) == ([0], {}, {})


def test_spans_of_segments_count_their_texts_end_to_end():
    record = {"text": [{"text": "aé", "train": True}, {"text": "b", "train": False}], "c": [span(1, 3)]}
    assert pack(record, format="segments", spans=CONCEPTS)[2] == {"concepts": [(1, 4, b'"x"')]}


def test_spans_of_a_conversation_count_the_messages_as_written():
    record = {"text": [{"role": "q", "content": "é"}, {"role": "r", "content": "b"}], "c": [span(2, 6)]}
    _, _, spans = pack(record, format="chat", template="{role}:{content};", spans=CONCEPTS)
    # q : é ; r : b ;   characters 2 to 6 are é ; r :
    assert spans == {"concepts": [(2, 7, b'"x"')]}


@pytest.mark.parametrize(
    ("spans", "reason", "detail"),
    [
        (None, "missing_spans", "c is null, expected an array"),
        ("x", "bad_span", "c is a string, expected an array"),
        (["x"], "bad_span", "c[0] is a string, expected an object"),
        ([span(0, 1), {"start": 0, "end": 1}], "bad_span", "c[1] has no `value`"),
        ([{"end": 1, "value": 1}], "bad_span", "c[0] has no `start`"),
        ([span(0.0, 1)], "bad_span", "c[0].start is a number, expected a whole number"),
        ([span(False, 1)], "bad_span", "c[0].start is a boolean, expected a whole number"),
        ([span(0, None)], "bad_span", "c[0].end is null, expected a whole number"),
        ([span(-1, 1)], "span_out_of_text", "c[0] is -1 to 1, the text has 0 to 2"),
        ([span(0, 3)], "span_out_of_text", "c[0] is 0 to 3, the text has 0 to 2"),
        ([span(1, 1)], "empty_span", "c[0] is 1 to 1, expected start before end"),
        ([span(2, 1)], "empty_span", "c[0] is 2 to 1, expected start before end"),
        ([span(0, 1, "\ud800")], "lone_surrogate", "c[0].value"),
        ([span(0, 1, float("nan"))], "bad_span", "c[0].value: Out of range float values"),
        ([span(0, 1, b"x")], "bad_span", "c[0].value: Object of type bytes"),
    ],
)
def test_a_bad_annotation_rejects_its_row(spans, reason, detail):
    with pytest.raises(RowError) as caught:
        pack({"text": "ab", "c": spans}, format="text", spans=CONCEPTS)
    assert caught.value.reason == reason
    assert caught.value.detail.startswith(detail)


def test_a_record_without_annotations_must_say_so():
    with pytest.raises(RowError) as caught:
        pack({"text": "ab"}, format="text", spans=CONCEPTS)
    assert (caught.value.reason, caught.value.detail) == ("missing_spans", 'no field c; found "text"')


def words() -> TextTokens:
    """`ab  cd` as two words whose tokenizer drops the white space."""
    return TextTokens(np.array([1, 2]), np.array([0, 4]), np.array([2, 6]))


def test_an_annotation_of_dropped_text_rejects_the_row_rather_than_get_lost():
    with pytest.raises(RowError) as caught:
        to_tokens([CharacterSpan(0, 1, b"1"), CharacterSpan(2, 4, b"2")], words())
    assert caught.value.reason == "span_without_tokens"
    assert caught.value.detail == "no token stands for characters 2 to 4"


def test_an_annotation_over_dropped_text_holds_the_tokens_that_are_left():
    table = to_tokens(
        [CharacterSpan(1, 4, b"1"), CharacterSpan(3, 5, b"2"), CharacterSpan(0, 6, b"3")], words()
    )
    assert (table.starts.tolist(), table.stops.tolist()) == ([0, 1, 0], [1, 2, 2])


def test_tokens_out_of_order_are_all_held():
    # A normaliser that moved a mark: tokens stand for characters 0, 2, 1, 3.
    tokens = TextTokens(np.arange(4), np.array([0, 2, 1, 3]), np.array([1, 3, 2, 4]))
    table = to_tokens([CharacterSpan(1, 2, b""), CharacterSpan(2, 3, b"")], tokens)
    for start, stop, own in zip(table.starts, table.stops, (2, 1), strict=True):
        assert start <= own < stop


def test_ranges_are_written_as_they_are_stored():
    table = span_table([(0, 3, {"topic": "é"}), (3, 4, 1)])
    assert table.starts.dtype == table.stops.dtype == np.int64
    assert table.values == ['{"topic":"é"}'.encode(), b"1"]
    with pytest.raises(ValueError, match="Out of range"):
        span_table([(0, 1, float("inf"))])


@st.composite
def annotated(draw):
    text = draw(st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=40))
    borders = st.integers(0, len(text))
    spans = draw(st.lists(st.tuples(borders, borders).map(sorted).filter(lambda p: p[0] < p[1]), max_size=5))
    return text, spans


@settings(deadline=None)
@given(annotated())
def test_token_ranges_map_back_to_the_characters(case):
    text, spans = case
    record = {"text": text, "c": [span(a, b, n) for n, (a, b) in enumerate(spans)]}
    ids, _, found = pack(record, format="text", spans=CONCEPTS)
    for first, last, value in found.get("concepts", []):
        a, b = spans[json.loads(value)]
        assert ByteTokenizer().decode(ids[first:last]) == text[a:b]
    assert len(found.get("concepts", [])) == len(spans)


@pytest.fixture(scope="module")
def merged(tmp_path_factory):
    """A byte-level BPE with a few merges, over spaces and inside characters."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(["a é日本 aé 日 本é aa"] * 20, trainer)
    path = tmp_path_factory.mktemp("merged") / "tokenizer.json"
    path.write_text(tokenizer.to_str())
    return load_tokenizer(str(path))


pieces = st.lists(st.sampled_from(["a", " ", "é", "日", "本", "aé", "日本", "x", "\U0001f600"]), min_size=1)


@settings(deadline=None)
@given(pieces.map("".join), st.data())
def test_the_smallest_range_of_tokens_that_holds_the_characters(merged, text, data):
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    made = record_format("text", spans=CONCEPTS)
    document = pack_record(made, {"text": text, "c": [span(start, end)]}, merged)
    (first,), (last,) = document.spans["concepts"].starts, document.spans["concepts"].stops
    # Bytes of the text before the span and up to its end, against bytes of the tokens.
    sizes = [len(raw) for raw in merged._encoding.decode_tokens_bytes(document.ids[:-1].tolist())]
    before, behind = len(text[:start].encode()), len(text[:end].encode())
    assert sum(sizes[:first]) <= before < sum(sizes[: first + 1])
    assert sum(sizes[: last - 1]) < behind <= sum(sizes[:last])
