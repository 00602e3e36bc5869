"""A corpus as Dagster sees it: its configuration and every Dagster name that belongs to it."""

from dataclasses import dataclass
from functools import cached_property

import dagster as dg

from corpus_assets.config import CorpusConfig

CORPUS_TAG = "corpus_assets/corpus"
NIGHT_TAG = "corpus_assets/night"
PHASE_TAG = "corpus_assets/phase"


@dataclass(frozen=True)
class Corpus:
    """One corpus; no two of them share a key, a partition set, a pool, a job or a folder."""

    config: CorpusConfig

    @property
    def name(self) -> str:
        return self.config.name

    def key(self, asset: str) -> dg.AssetKey:
        """The key of one of the corpus's assets."""
        return dg.AssetKey([self.name, asset])

    def check(self, asset: str, claim: str) -> dg.AssetCheckKey:
        """The key of a claim about one of the corpus's assets."""
        return dg.AssetCheckKey(self.key(asset), claim)

    def named(self, what: str) -> str:
        """The name of a job, schedule, sensor, pool or resource of this corpus."""
        return f"{self.name}_{what}"

    @property
    def partition_set(self) -> str:
        """The dynamic partitions: one per input shard."""
        return self.named("input_shards")

    @cached_property
    def partitions(self) -> dg.DynamicPartitionsDefinition:
        return dg.DynamicPartitionsDefinition(name=self.partition_set)

    @property
    def run_tags(self) -> dict[str, str]:
        """What every run of the corpus's own jobs carries."""
        return {CORPUS_TAG: self.name}
