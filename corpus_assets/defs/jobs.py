"""The jobs of a corpus: observe the inputs, build partitions, release; and all of it for one button."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg

from corpus_assets.defs.corpus import Corpus

if TYPE_CHECKING:
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

TAIL = ("shard_index", "shard_digests", "corpus_statistics", "loader_throughput", "training_release")


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusJobs:
    """The jobs of one corpus.

    Attributes:
        observe: look at the inputs; what the discovery sensor asks for when there is much to read.
        build: token_shards, a range of partitions in a run.
        release: index, checks, statistics, throughput and release.
        corpus: the whole graph up to the release, and training; in the UI a backfill, run after run.
    """

    observe: "UnresolvedAssetJobDefinition"
    build: "UnresolvedAssetJobDefinition"
    release: "UnresolvedAssetJobDefinition"
    corpus: "UnresolvedAssetJobDefinition"

    def __iter__(self) -> Iterator["UnresolvedAssetJobDefinition"]:
        return iter((self.observe, self.build, self.release, self.corpus))


def corpus_jobs(corpus: Corpus) -> CorpusJobs:
    """The jobs; in process, since a step of its own process costs more than most steps here."""

    def job(name: str, keys: list[dg.AssetKey], description: str) -> "UnresolvedAssetJobDefinition":
        return dg.define_asset_job(
            corpus.named(name),
            selection=dg.AssetSelection.assets(*keys),
            executor_def=dg.in_process_executor,
            tags=corpus.run_tags,
            description=description,
        )

    shards, tail = corpus.key("token_shards"), tail_keys(corpus)
    return CorpusJobs(
        observe=job("observe", [corpus.key("input_shards")], "Register new inputs and observe changed ones."),
        build=job("build", [shards], "Build the token shards of a range of partitions."),
        release=job("release", tail, "Index the built shards, check them, and release the corpus."),
        corpus=job("corpus", [shards, *tail, corpus.key("training")], "The whole corpus, then training."),
    )


def tail_keys(corpus: Corpus, *, train: bool = False) -> list[dg.AssetKey]:
    """From the index to the release, and training where asked for."""
    names = (*TAIL, "training") if train else TAIL
    return [corpus.key(name) for name in names]
