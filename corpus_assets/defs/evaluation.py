"""A check's evaluation, bound to the generation of the index that it looked at."""

import dagster as dg

from corpus_assets.defs.claims import Claim
from corpus_assets.defs.metadata import Metadata
from corpus_assets.shards.records import ShardIndex

FINGERPRINT = "index_fingerprint"
FOUND = "found"


def check_result(
    asset: dg.AssetKey,
    claim: Claim,
    index: ShardIndex,
    *,
    blocking: bool = True,
    metadata: Metadata | None = None,
) -> dg.AssetCheckResult:
    """The claim as a result that names the index; one that does not block is only a warning."""
    return dg.AssetCheckResult(
        asset_key=asset,
        check_name=claim.name,
        passed=claim.passed,
        severity=dg.AssetCheckSeverity.ERROR if blocking else dg.AssetCheckSeverity.WARN,
        description=claim.detail,
        metadata={FINGERPRINT: index.fingerprint, FOUND: claim.detail, **(metadata or {})},
    )
