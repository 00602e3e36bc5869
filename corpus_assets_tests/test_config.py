from pathlib import Path

import pytest
import yaml

from corpus_assets.config import default_chunk_size, load_config
from corpus_assets.errors import ConfigError


def write_config(folder: Path, content) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "corpora.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


@pytest.mark.parametrize(
    ("window_size", "expected"),
    [
        (1024, 65_536),
        (1000, 66_000),  # 65 windows are 65,000 tokens, short of 64 Ki
        (65_537, 65_537),
        (1, 65_536),
    ],
)
def test_the_default_chunk_is_the_smallest_multiple_of_the_window_of_64_ki(window_size, expected):
    assert default_chunk_size(window_size) == expected


def test_a_compressed_corpus_has_smaller_chunks_of_its_own():
    assert default_chunk_size(1000, compression="zstd") == 17_000


def test_relative_paths_start_from_the_folder_of_workspace_yaml(tmp_path):
    (tmp_path / "workspace.yaml").touch()
    path = write_config(tmp_path / "data", {"corpora": {"c": {"input": "in", "root": "out"}}})
    config = load_config(path)["c"]
    assert (config.input, config.root) == (str(tmp_path / "in"), tmp_path / "out")


def test_urls_and_encoding_names_stay_as_they_are(tmp_path):
    entry = {"input": "s3://bucket/x", "root": "out", "tokenizer": "cl100k_base"}
    config = load_config(write_config(tmp_path, {"corpora": {"c": entry}}))["c"]
    assert (config.input, config.tokenizer) == ("s3://bucket/x", "cl100k_base")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"input": "a"}, "corpus c:\n  root: missing"),
        (
            {"input": "a", "root": "b", "tokenzier": "byte"},
            "tokenzier: unknown key, expected one of: boundary",
        ),
        ({"input": "a", "root": "b", "window_size": 0}, "window_size: found 0"),
        ({"input": "a", "root": "b", "compression": "rar"}, "compression: found 'rar'"),
        ({"input": "a", "root": "b", "schedule": {"cron": "daily"}}, "schedule.cron: found 'daily'"),
        (
            {"input": "a", "root": "b", "schedule": {"cron": "61 * * * *"}},
            "minute: found 61, expected * or 0 to 59",
        ),
        (
            {"input": "a", "root": "b", "schedule": {"cron": "0 2 * 1-13/2 *"}},
            "month: found 1-13/2, expected * or 1 to 12",
        ),
        ({"input": "a", "root": "b", "schedule": {"timezone": "Mars"}}, "schedule.timezone: found 'Mars'"),
        (
            {"input": "a", "root": "b", "schedule": {"crom": "x"}},
            "schedule.crom: unknown key, expected one of: cron",
        ),
        ("text", "corpus c: found str"),
    ],
)
def test_a_wrong_entry_is_refused_naming_file_corpus_and_key(tmp_path, entry, message):
    path = write_config(tmp_path, {"corpora": {"c": entry}})
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value).startswith(f"{path}: corpus c")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "cron", ["0 2 * * *", "*/15 0-6/2 1,15 jan-mar MON-FRI", "0 0 L * 7", "59 23 31 12 5#3", "0 2 ? * 1-5"]
)
def test_a_schedule_may_be_all_that_cron_knows(tmp_path, cron):
    entry = {"input": "a", "root": "b", "schedule": {"cron": cron}}
    assert load_config(write_config(tmp_path, {"corpora": {"c": entry}}))["c"].schedule.cron == cron


@pytest.mark.parametrize("content", ["a: [", "", "corpora: {}", "corpus: {}", "- 1"])
def test_a_file_that_is_no_list_of_corpora_is_refused(tmp_path, content):
    path = write_config(tmp_path, content)
    with pytest.raises(ConfigError, match=r"corpora\.yaml: "):
        load_config(path)


def test_two_corpora_do_not_share_a_folder(tmp_path):
    corpora = {"a": {"input": "x", "root": "out"}, "b": {"input": "y", "root": "out/inner"}}
    with pytest.raises(ConfigError, match=r"corpus b: root .* overlaps the root of corpus a"):
        load_config(write_config(tmp_path, {"corpora": corpora}))


@pytest.mark.parametrize("root", ["link", "other/../out", "out/../out"])
def test_a_root_under_another_name_is_the_same_folder(tmp_path, root):
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to("out")
    corpora = {"a": {"input": "x", "root": "out"}, "b": {"input": "y", "root": root}}
    with pytest.raises(ConfigError, match=r"corpus b: root .* overlaps the root of corpus a"):
        load_config(write_config(tmp_path, {"corpora": corpora}))


@pytest.mark.parametrize("root", ["file", "file/corpus"])
def test_a_root_that_is_no_folder_is_refused(tmp_path, root):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"corpus a: root .*: .*/file is a file, expected a folder"):
        load_config(write_config(tmp_path, {"corpora": {"a": {"input": "x", "root": root}}}))


@pytest.mark.parametrize("key", ["input", "root", "tokenizer"])
def test_a_path_holds_no_nul(tmp_path, key):
    entry = {"input": "x", "root": "y", key: "a\0b"}
    with pytest.raises(ConfigError, match=rf"corpus a:\n  {key}: found .*without a NUL"):
        load_config(write_config(tmp_path, {"corpora": {"a": entry}}))


@pytest.mark.parametrize("root", ["in", "in/../in", "link"])
def test_a_root_is_not_its_input(tmp_path, root):
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to("in")
    with pytest.raises(ConfigError, match=r"corpus a: root .* is its input too"):
        load_config(write_config(tmp_path, {"corpora": {"a": {"input": "in", "root": root}}}))


def test_a_missing_file_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CORPUS_CONFIG", raising=False)
    with pytest.raises(ConfigError, match="expected --config FILE, CORPUS_CONFIG or `corpus init FOLDER`"):
        load_config()


def test_the_file_named_by_the_environment_is_used(tmp_path, monkeypatch):
    path = write_config(tmp_path, {"corpora": {"c": {"input": "in", "root": "out"}}})
    monkeypatch.setenv("CORPUS_CONFIG", str(path))
    assert list(load_config()) == ["c"]
