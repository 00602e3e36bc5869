"""Names and contents of inputs reach the UI as text, never as markup, and its logs in one line."""

from pathlib import Path

import dagster as dg

from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.launch import build_corpus
from corpus_assets_tests.defs.conftest import toy_config, write_input

NAMES = ["<img src=x onerror=alert(1)>.jsonl", "[x](javascript:alert(1))\n# head.jsonl", "\x1b[2J.jsonl"]


def test_nothing_of_an_input_is_markdown_or_steers_a_terminal(instance, tmp_path):
    config = toy_config(tmp_path, max_reject_fraction=0.5)
    for name in NAMES:
        write_input(Path(config.input) / name, documents=3)
        with (Path(config.input) / name).open("a") as file:
            file.write('{"text\\u001b[2J<b>": 1}\n')
    broken = Path(config.input) / "<b>\n\x1b[2J.jsonl"
    broken.write_text('{"<script>": 1}\n')
    build_corpus(instance, config)
    texts, markdown = [], []
    for record in instance.get_run_records():
        for entry in instance.all_logs(record.dagster_run.run_id):
            texts.append(entry.user_message)
            event = entry.dagster_event
            for metadata in _metadata(event):
                for value in metadata.values():
                    shown = str(value.value)
                    (markdown if isinstance(value, dg.MarkdownMetadataValue) else texts).append(shown)
    observed = instance.fetch_observations(Corpus(config).key("input_shards"), limit=10).records
    assert len(observed) == 4
    for record in observed:
        texts += [str(value.value) for value in record.asset_observation.metadata.values()]
    assert any("<img src=x" in text for text in texts)
    assert not [text for text in texts if "\x1b" in text or "\n# head" in text]
    assert all(text.startswith("![") or text == "no documents" for text in markdown)


def _metadata(event):
    data = event.event_specific_data if event is not None else None
    for holder in (
        data,
        getattr(data, "materialization", None),
        getattr(data, "asset_observation", None),
        getattr(getattr(data, "user_failure_data", None), "metadata", None) and data.user_failure_data,
    ):
        if isinstance(getattr(holder, "metadata", None), dict):
            yield holder.metadata
