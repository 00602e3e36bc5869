import pytest

from corpus_assets import ByteTokenizer
from corpus_assets.sources.rows import RowError
from corpus_assets_tests.formats.conftest import pack


def ids_of(text: str) -> list[int]:
    return [byte + 1 for byte in text.encode()]


def test_a_conversation_by_hand():
    record = {"m": [{"role": "q", "content": "a"}, {"role": "r", "content": "b"}]}
    ids, fields, _ = pack(
        record, format="chat", text_field="m", template="{role}:{content};", train_roles=["r"]
    )
    #                q    :   a   ;   r    :   b   ;  end
    assert ids == [114, 59, 98, 60, 115, 59, 99, 60, 0]
    assert fields["loss_mask"] == [0, 0, 0, 0, 0, 0, 1, 1, 1]


def test_the_default_trains_on_answers_and_their_ends():
    record = {"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]}
    ids, fields, _ = pack(record, format="chat", text_field="messages")
    assert ids == [*ids_of("<|user|>\n2+2?\n<|assistant|>\n4\n"), 0]
    trained = [i for i, train in zip(ids, fields["loss_mask"], strict=True) if train]
    assert trained == [*ids_of("4\n"), 0]


def test_a_conversation_that_ends_with_a_question_trains_nothing():
    record = {"messages": [{"role": "user", "content": "2+2?"}]}
    assert not any(pack(record, format="chat", text_field="messages")[1]["loss_mask"])


def test_the_ids_do_not_depend_on_what_is_trained():
    record = {"m": [{"role": role, "content": role} for role in ("system", "user", "assistant")]}
    options = {"format": "chat", "text_field": "m"}
    ids, fields, _ = pack(record, **options, train_roles=["user", "system"])
    assert ids == pack(record, **options)[0]
    assert fields["loss_mask"][-1] == 0


def test_a_template_without_a_role_gives_contents():
    record = {"m": [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]}
    ids, fields, _ = pack(record, format="chat", text_field="m", template="{content}")
    assert (ids, fields["loss_mask"]) == ([98, 99, 0], [1, 0, 0])


def test_no_messages_are_an_empty_document():
    assert pack({"m": []}, format="chat", text_field="m") == ([0], {"loss_mask": [0]}, {})


def test_braces_and_placeholders_in_a_content_are_text():
    record = {"m": [{"role": "{content}", "content": "{role}"}]}
    ids, _, _ = pack(record, format="chat", text_field="m", template="{role}{content}")
    assert ByteTokenizer().decode(ids) == "{content}{role}"


@pytest.mark.parametrize(
    ("message", "detail"),
    [
        ({"content": "a"}, "m[0] has no `role`"),
        ({"role": "user"}, "m[0] has no `content`"),
        ({"role": "assistant", "content": None}, "m[0].content is null, expected a string"),
        ({"role": 1, "content": "a"}, "m[0].role is a number, expected a string"),
        (["user", "a"], "m[0] is an array, expected an object"),
    ],
)
def test_a_message_without_role_or_content_is_rejected(message, detail):
    with pytest.raises(RowError) as caught:
        pack({"m": [message]}, format="chat", text_field="m")
    assert (caught.value.reason, caught.value.detail) == ("bad_messages", detail)
