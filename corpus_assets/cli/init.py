"""`corpus init`: a project folder that is ready to build."""

from __future__ import annotations

from pathlib import Path

import click

from corpus_assets.cli.help import CommandWithExamples

CORPORA_YAML = """\
# The corpora of this project. Relative paths start from the folder of workspace.yaml.
# `corpus build NAME` builds one, `corpus ui` shows all of them.
corpora:
  # The demo: `corpus demo` exports Python's own standard library as its input.
  stdlib:
    input: data/stdlib/input
    root: data/stdlib/corpus

  # One of your own. Every key with its default:
  # mine:
  #   input: data/mine/input          # a folder, a glob, or an fsspec URL (s3://…, gs://…)
  #   root: data/mine/corpus          # where the token shards and shards.json go
  #   tokenizer: byte                 # or a path to a tokenizer.json, or a tiktoken encoding
  #   boundary_token: null            # ends every document; null: the tokenizer's own end of text
  #   text_field: text                # a.b reaches into nested objects
  #   format: text                    # or segments, chat, package.module:Name
  #   train_roles: null               # of chat: the roles that are trained on; null: assistant
  #   template: null                  # of chat: the text of a message; null: the built-in one
  #   fields: {}                      # numbers of the record, as {name: {from: a.b, dtype: float32}}
  #   spans: {}                       # annotations of characters, as {name: {from: a.b}}
  #   window_size: 1024               # tokens of a training window
  #   chunk_size: null                # tokens of an HDF5 chunk; null: by window and compression
  #   compression: none               # none | gzip | lzf | zstd | zstd-dict | blosc2
  #   max_document_tokens: null       # a longer document is cut and counted
  #   max_reject_fraction: 0.01       # share of bad rows that a shard may have
  #   max_line_bytes: 67108864        # a longer line is a reject
  #   max_quarantine_bytes: 1073741824  # room for the rejects of one input shard
  #   document_timeout: 60            # seconds that the tokenizer may spend on one document
  #   follow_symlinks: false          # follow links that lead out of the input folder
  #   workers: null                   # processes; null: one a core
  #   partitions_per_run: null        # of a backfill; null: all in one run
  #   throughput_floor: 0.5           # of the last release's loader throughput
  #   schedule: {cron: "0 2 * * *", timezone: UTC, train: false}   # switched on in the UI
  #   statistics: {min_documents: 1, max_boundary_share: 0.2, max_reject_share: 0.01, blocking: false}
  #   training: {command: null, steps: 200, batch_size: 16, mask_boundary: true}
"""
WORKSPACE_YAML = """\
load_from:
  - python_module:
      module_name: corpus_assets.definitions
      location_name: corpus_assets
"""


@click.command(
    cls=CommandWithExamples,
    short_help="Write a ready project to a folder.",
    examples=(("corpus init mine && cd mine && corpus demo", "a project, and a first corpus in it"),),
)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def command(folder: Path) -> None:
    """Write a ready project to FOLDER; existing files are never overwritten.

    It holds data/corpora.yaml (which corpora there are), workspace.yaml (what the Dagster UI loads) and
    data/dagster_home/dagster.yaml (how the Dagster instance runs).
    """
    from corpus_assets.cli.console import say
    from corpus_assets.cli.project import DAGSTER_HOME, DAGSTER_YAML, WORKSPACE, dagster_yaml
    from corpus_assets.config import DEFAULT_CONFIG
    from corpus_assets.errors import ConfigError
    from corpus_assets.shards.publish import publish_bytes, scratch_folder

    contents = {
        folder / DEFAULT_CONFIG: CORPORA_YAML.encode(),
        folder / DAGSTER_HOME / DAGSTER_YAML: dagster_yaml(),
        folder / WORKSPACE: WORKSPACE_YAML.encode(),
    }
    if present := [str(path) for path in contents if path.exists()]:
        raise ConfigError(
            f"{', '.join(present)}: there already; expected a folder without it, nothing written"
        )
    scratch = scratch_folder(folder)
    try:
        for path, content in contents.items():
            publish_bytes(path, content, scratch=scratch)
            say(f"wrote {path}")
    finally:
        scratch.rmdir()
    say(f"next: cd {folder} && corpus demo")
