"""What a token shard was made from, in the tags that Dagster's stale marks are computed from.

For a partitioned upstream asset Dagster compares data versions after the recorded event pointer with the
one at the pointer. A partition without the two input tags shows as stale for ever.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import dagster as dg
from dagster import DagsterEventType

from corpus_assets.config import CorpusConfig
from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.observation import DATA_VERSION_TAG, USER_VERSION_TAG, observed_fingerprints
from corpus_assets.formats import content_fingerprint
from corpus_assets.shards.records import FORMAT_VERSION, ShardInfo


def code_version(config: CorpusConfig) -> str:
    """Changes with the tokenizer and with every option that decides the content of a shard.

    Computed from the tokenizer's file rather than from the loaded tokenizer, so that definitions load in
    milliseconds and a broken tokenizer file fails builds, not the whole code location.
    """
    tokenizer = f"{config.tokenizer}\n{config.boundary_token}\n{_file_digest(config.tokenizer)}"
    parts = f"{FORMAT_VERSION}\n{content_fingerprint(config)}\n{tokenizer}"
    return hashlib.sha256(parts.encode()).hexdigest()[:16]


def latest_event_id(instance: dg.DagsterInstance) -> int:
    """The storage id of the newest event; every later event has a greater one."""
    return instance.event_log_storage.get_maximum_record_id() or 0


def input_pointers(
    instance: dg.DagsterInstance, corpus: Corpus, fingerprints: Mapping[str, str], *, before: int
) -> dict[str, int]:
    """For each key the event after which a new observation means a changed input.

    That is the key's latest observation if it is of the fingerprint that is being built. Otherwise it is
    `before`, an event id taken before the inputs were looked at: a newer observation then shows as a change.
    """
    observed = observed_fingerprints(instance, corpus)
    latest = instance.event_log_storage.get_latest_storage_id_by_partition(
        corpus.key("input_shards"), DagsterEventType.ASSET_OBSERVATION
    )
    return {
        key: latest[key] if observed.get(key) == fingerprint and key in latest else max(before, 1)
        for key, fingerprint in fingerprints.items()
    }


def provenance_tags(corpus: Corpus, info: ShardInfo, *, version: str, pointer: int) -> dict[str, str]:
    """The tags of the materialisation of the partition that holds `info`."""
    upstream = corpus.key("input_shards").to_user_string()
    return {
        DATA_VERSION_TAG: info.build,
        USER_VERSION_TAG: "true",
        "dagster/code_version": version,
        f"dagster/input_data_version/{upstream}": info.input_sha256,
        f"dagster/input_event_pointer/{upstream}": str(pointer),
    }


def _file_digest(spec: str) -> str:
    """Digest of the tokenizer's file; empty where the tokenizer is not one readable file."""
    try:
        return hashlib.sha256(Path(spec).read_bytes()).hexdigest()
    except OSError:
        return ""
