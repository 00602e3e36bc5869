"""One run's partitions, built by the library: what they are made from, how each ended."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import dagster as dg

from corpus_assets.defs.ahead import working_ahead
from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.failures import FAILED_PARTITIONS
from corpus_assets.defs.observation import Discovery, discover, observations
from corpus_assets.defs.progress import OnRunProgress, ProgressMeter
from corpus_assets.defs.provenance import input_pointers, latest_event_id, provenance_tags
from corpus_assets.shards.build import BuildProgress
from corpus_assets.shards.manifest import InputFile
from corpus_assets.shards.pipeline import ShardedTokenizationPipeline
from corpus_assets.shards.records import ShardInfo
from corpus_assets.shards.worker import ShardOutcome

NAMED_FAILURES = 100


@dataclass(slots=True, kw_only=True)
class PartitionBuild:
    """The build of the partitions of one run.

    Attributes:
        partition_count: how many partitions the run was asked for.
        files: the inputs as they are now, one for each partition whose input exists.
        pointers: by key, the event that a later observation is compared with.
        failures: by key, why it failed; filled by `outcomes`.
    """

    corpus: Corpus
    partition_count: int
    files: tuple[InputFile, ...]
    pointers: dict[str, int]
    failures: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, instance: dg.DagsterInstance, corpus: Corpus, keys: Sequence[str]) -> "PartitionBuild":
        """Look at the inputs of `keys` and report those that changed since Dagster last observed them."""
        before = latest_event_id(instance)
        discovery = discover(instance, corpus)
        for observation in observations(corpus, _only(discovery, keys)):
            instance.report_runless_asset_event(observation)
        files = tuple(discovery.manifest[key] for key in keys if key in discovery.manifest)
        fingerprints = {file.key: file.fingerprint for file in files}
        return cls(
            corpus=corpus,
            partition_count=len(keys),
            files=files,
            pointers=input_pointers(instance, corpus, fingerprints, before=before),
            failures={key: "its input shard is gone" for key in keys if key not in discovery.manifest},
        )

    def outcomes(
        self,
        *,
        force: bool,
        workers: int | None,
        log: dg.DagsterLogManager,
        on_progress: OnRunProgress | None,
    ) -> Iterator[ShardOutcome]:
        """Build the partitions; yields each as it ends, those that failed included."""
        sizes = {file.key: file.size for file in self.files}
        meter = ProgressMeter(sizes=sizes, log=log.info, on_progress=on_progress)
        pipeline = ShardedTokenizationPipeline(self.corpus.config, workers=workers)

        def build(say: Callable[[BuildProgress | ShardOutcome], None]) -> Iterator[ShardOutcome]:
            return pipeline.run(self.files, force=force, on_progress=say)

        for item in working_ahead(build):
            if isinstance(item, BuildProgress):
                meter.advance(item)
                continue
            meter.finish(item)
            if item.info is None:
                self.failures[item.key] = item.error or "no reason given"
                log.error(_line(item.key, self.failures[item.key]))
            yield item
        log.info(str(meter.now()))

    def tags(self, info: ShardInfo, *, version: str) -> dict[str, str]:
        """The provenance of the partition that holds `info`."""
        return provenance_tags(self.corpus, info, version=version, pointer=self.pointers[info.key])

    def raise_failures(self) -> None:
        """Raise one Failure that names each failed partition and its reason."""
        if not self.failures:
            return
        named = dict(sorted(self.failures.items())[:NAMED_FAILURES])
        more = len(self.failures) - len(named)
        lines = [_line(key, reason) for key, reason in named.items()]
        if more:
            lines.append(f"and {more} more")
        count = f"{len(self.failures)} of {self.partition_count} partitions failed"
        raise dg.Failure(
            description="\n".join([count, *lines]),
            metadata={FAILED_PARTITIONS: dg.MetadataValue.json(named), "failed": len(self.failures)},
            allow_retries=False,
        )


def _line(key: str, reason: str) -> str:
    """The reason, with the key where it does not begin with it already."""
    return reason if reason.startswith(f"{key}:") else f"{key}: {reason}"


def _only(discovery: Discovery, keys: Sequence[str]) -> Discovery:
    wanted = set(keys)
    return Discovery(
        manifest=discovery.manifest,
        added=(),
        removed=(),
        changed=tuple(key for key in discovery.changed if key in wanted),
    )
