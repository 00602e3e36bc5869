"""The gate: what every blocking check last found, and whether that is about the index as it is now.

Dagster's own blocking holds back only what runs downstream in the same run. Whoever starts training by
another route meets this function instead.
"""

import dagster as dg
from dagster import AssetCheckEvaluation
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.digests import DIGESTS_CLAIM
from corpus_assets.defs.evaluation import FINGERPRINT
from corpus_assets.defs.shard_index import INDEX_CLAIMS
from corpus_assets.defs.statistics import STATISTICS_CLAIMS
from corpus_assets.errors import NotReleasedError
from corpus_assets.shards.records import ShardIndex
from corpus_assets.shards.release import Evidence

_FINISHED = {AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED}


def blocking_checks(corpus: Corpus) -> list[dg.AssetCheckKey]:
    """The checks that a release needs."""
    checks = [corpus.check("shard_index", name) for name in INDEX_CLAIMS]
    checks.append(corpus.check("shard_digests", DIGESTS_CLAIM))
    if corpus.config.statistics.blocking:
        checks += [corpus.check("corpus_statistics", name) for name in STATISTICS_CLAIMS]
    return checks


def gate(instance: dg.DagsterInstance, corpus: Corpus, index: ShardIndex) -> list[Evidence]:
    """One piece of evidence for each blocking check; passed only if it is finished, passing and current."""
    keys = blocking_checks(corpus)
    records = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    newest = {asset: _newest_materialization(instance, asset) for asset in {key.asset_key for key in keys}}
    evidence = []
    for key in keys:
        record = records.get(key)
        if record is None:
            found = "never evaluated"
        elif record.status not in _FINISHED or not isinstance(record.evaluation, AssetCheckEvaluation):
            found = f"its evaluation in run {record.run_id} did not finish"
        else:
            found = _objection(record.evaluation, index, newest[key.asset_key])
        detail = found or _description(record)
        evidence.append(Evidence(check=key.name, passed=not found, detail=detail))
    return evidence


def refuse_unless_passed(corpus: Corpus, index: ShardIndex, evidence: list[Evidence]) -> None:
    """Raise NotReleasedError that lists each check and what it found, unless all passed."""
    if all(item.passed for item in evidence):
        return
    lines = [
        f"  {'passed' if item.passed else 'NOT PASSED'}  {item.check}: {item.detail}" for item in evidence
    ]
    raise NotReleasedError(
        f"{corpus.name}: index {index.fingerprint[:16]} is not released, "
        f"{sum(not item.passed for item in evidence)} of {len(evidence)} blocking checks did not pass\n"
        + "\n".join(lines)
    )


def _objection(evaluation: AssetCheckEvaluation, index: ShardIndex, newest: int | None) -> str:
    """Why a finished evaluation is no pass for `index`; empty if it is one."""
    seen = evaluation.metadata.get(FINGERPRINT)
    target = evaluation.target_materialization_data
    if not evaluation.passed:
        return f"failed: {evaluation.description or 'no description'}"
    if seen is None or seen.value != index.fingerprint:
        return f"evaluated index {str(seen.value)[:16] if seen else '(none)'}, not the present one"
    if target is None or target.storage_id != newest:
        return "evaluated an older materialisation"
    return ""


def _description(record: object) -> str:
    evaluation = getattr(record, "evaluation", None)
    return str(getattr(evaluation, "description", None) or "passed")


def _newest_materialization(instance: dg.DagsterInstance, asset: dg.AssetKey) -> int | None:
    records = instance.fetch_materializations(asset, limit=1).records
    return records[0].storage_id if records else None
