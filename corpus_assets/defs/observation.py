"""The inputs as Dagster knows them: which are registered as partitions, which content was observed."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import dagster as dg
from dagster import DagsterEventType

from corpus_assets.defs.backfills import targeted_keys
from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.partitions import latest_versions, partition_states, registered_keys
from corpus_assets.errors import IndexMismatchError, one_line
from corpus_assets.shards.index import current_shard, load_index
from corpus_assets.shards.manifest import InputManifest, load_manifest, observe_inputs
from corpus_assets.sources.discover import ListedInput, list_inputs

# An event costs SQLite about 40 ms: a first look at 10,000 inputs registers them without observing each.
# Their shards record the fingerprint themselves, so a later change is observed and seen all the same.
NEW_OBSERVATIONS = 500
DATA_VERSION_TAG = "dagster/data_version"
USER_VERSION_TAG = "dagster/data_version_is_user_provided"
UNREADABLE = "unreadable"  # the data version of an input that could not be read


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """How the inputs differ from what Dagster knows of them.

    Attributes:
        manifest: the inputs now.
        added: inputs that are no partition yet, in key order.
        removed: partitions whose input is gone.
        changed: partitions whose content is not the one last observed.
    """

    manifest: InputManifest
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The inputs as listed, before anything is read: cheap enough for a daemon's tick."""

    inputs: tuple[ListedInput, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    unread: tuple[str, ...]
    unread_bytes: int


def discover(instance: dg.DagsterInstance, corpus: Corpus, seen: Listing | None = None) -> Discovery:
    """Look at the inputs, hash those whose signature changed, and compare with what Dagster knows.

    Args:
        instance: what Dagster knows.
        corpus: whose inputs.
        seen: the inputs, where they were just listed.
    """
    manifest = observe_inputs(corpus.config, listed=None if seen is None else seen.inputs)
    registered = registered_keys(instance, corpus)
    known = set(registered)
    return Discovery(
        manifest=manifest,
        added=tuple(key for key in manifest.keys if key not in known),
        removed=tuple(key for key in registered if key not in manifest),
        changed=tuple(_changed(instance, corpus, manifest)),
    )


def listing(instance: dg.DagsterInstance, corpus: Corpus) -> Listing:
    """List the inputs without reading any: which are new, gone, or may have changed."""
    listed = list_inputs(corpus.config.input, follow_symlinks=corpus.config.follow_symlinks)
    recorded = load_manifest(corpus.config.root)
    read = {file.key: file.signature for file in recorded.files} if recorded else {}
    registered = registered_keys(instance, corpus)
    unread = [item for item in listed if read.get(item.key) != item.signature]
    present = {item.key for item in listed}
    return Listing(
        inputs=tuple(listed),
        added=tuple(sorted(present - set(registered))),
        removed=tuple(key for key in registered if key not in present),
        unread=tuple(item.key for item in unread),
        unread_bytes=sum(item.size for item in unread),
    )


def record(instance: dg.DagsterInstance, corpus: Corpus, discovery: Discovery) -> None:
    """Register and delete partitions, and report an observation for each changed input."""
    register(instance, corpus, added=discovery.added, removed=discovery.removed)
    for observation in observations(corpus, discovery):
        instance.report_runless_asset_event(observation)


def register(
    instance: dg.DagsterInstance, corpus: Corpus, *, added: Collection[str], removed: Collection[str]
) -> None:
    """Add and delete partitions; one that a run or a backfill is at stays until that has ended."""
    if added:
        instance.add_dynamic_partitions(corpus.partition_set, list(added))
    if removed:
        busy = partition_states(instance, corpus).in_progress | targeted_keys(instance, corpus)
        for key in set(removed) - busy:
            instance.delete_dynamic_partition(corpus.partition_set, key)


def observations(corpus: Corpus, discovery: Discovery) -> Iterator[dg.AssetObservation]:
    """One observation per changed input, its name and size beside the fingerprint."""
    for key in discovery.changed:
        file = discovery.manifest[key]
        yield dg.AssetObservation(
            asset_key=corpus.key("input_shards"),
            partition=key,
            metadata={"input": one_line(file.name), "bytes": file.size, "location": one_line(file.url)},
            tags={DATA_VERSION_TAG: file.fingerprint or UNREADABLE, USER_VERSION_TAG: "true"},
        )


def observed_fingerprints(instance: dg.DagsterInstance, corpus: Corpus) -> Mapping[str, str]:
    """The content that Dagster last observed of each input; no entry where it never observed one."""
    return latest_versions(instance, corpus.key("input_shards"), DagsterEventType.ASSET_OBSERVATION)


def _changed(instance: dg.DagsterInstance, corpus: Corpus, manifest: InputManifest) -> Iterator[str]:
    observed = observed_fingerprints(instance, corpus)
    indexed = _indexed_inputs(corpus)
    unbuilt = []
    for file in manifest.files:
        found = file.fingerprint or UNREADABLE
        if file.key in observed:
            known = observed[file.key]
        elif indexed.get(file.key) == found:
            continue  # one file tells it for all shards; only what differs is looked up by itself
        else:
            shard = current_shard(corpus.config.root, file.key)
            if shard is None:
                unbuilt.append(file.key)
                continue
            known = shard.input_sha256
        if known != found:
            yield file.key
    if len(unbuilt) <= NEW_OBSERVATIONS:
        yield from unbuilt


def _indexed_inputs(corpus: Corpus) -> dict[str, str]:
    """The input of each indexed shard; nothing where there is no index that can be read."""
    try:
        return {shard.key: shard.input_sha256 for shard in load_index(corpus.config.index_path).shards}
    except IndexMismatchError:
        return {}
