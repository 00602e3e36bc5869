import json

import pytest

from corpus_assets import validate_corpus, write_corpus


def _corpus(tmp_path, rows, **options):
    folder = tmp_path / "in"
    folder.mkdir()
    for number, row in enumerate(rows):
        (folder / f"{number}.jsonl").write_text(json.dumps({"text": row}) + "\n")
    write_corpus(folder, tmp_path / "out", workers=1, **options)
    return tmp_path / "out"


CHATS = [
    [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}],
    [{"role": "user", "content": "and?"}],
]


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize(
    ("format", "rows", "options"),
    [
        ("chat", CHATS, {"train_roles": ["asistant"]}),
        ("segments", [[{"text": "ab", "train": False}], []], {}),
    ],
)
def test_a_corpus_of_which_nothing_is_trained_on_is_a_finding(tmp_path, format, rows, options, compression):
    root = _corpus(tmp_path, rows, format=format, compression=compression, **options)
    (finding,) = validate_corpus(root).findings
    assert (finding.shard, finding.check) == (None, "loss_mask")
    assert (
        "tokens, so nothing is trained on; expected messages whose role is in train_roles" in finding.message
    )
    assert validate_corpus(root, quick=True).ok


@pytest.mark.parametrize(
    ("format", "rows", "options"),
    [
        ("chat", CHATS, {}),  # one shard of the two has nothing that is trained on
        ("segments", [[{"text": "ab", "train": False}], [{"text": "", "train": True}]], {}),
        ("text", ["ab"], {}),
    ],
)
def test_one_token_that_is_trained_on_is_enough(tmp_path, format, rows, options):
    assert validate_corpus(_corpus(tmp_path, rows, format=format, **options)).ok
