import json
from dataclasses import asdict

import pytest

from corpus_assets.benchmarks.records import BenchmarkRow, ThroughputRow, compared
from corpus_assets.benchmarks.timing import Rates


@pytest.mark.parametrize(
    ("target", "meets"),
    [(2.0, True), (2.1, False), (None, None)],
)
def test_a_row_compares_two_medians(target, meets):
    row = compared(
        "gather",
        Rates((3.0, 4.0, 100.0)),
        "stack",
        Rates((2.0, 1.0, 3.0)),
        group="reading",
        unit="windows/s",
        target=target,
        scale=256,
    )
    assert (row.rate, row.reference_rate, row.ratio) == (1024.0, 512.0, 2.0)
    assert row.meets_target is meets
    assert row.repeats == 3
    assert json.loads(json.dumps(asdict(row)))["name"] == "gather"


def test_a_row_without_a_reference_has_no_ratio():
    row = BenchmarkRow(group="cold", name="gather", unit="windows/s", rate=5.0)
    assert row.ratio is None
    assert row.meets_target is None


def test_throughput_is_a_share_of_the_limit():
    row = ThroughputRow(
        chunk_size=512, compression="none", cache="warm", as_built=False, windows_per_second=3.0, limit=12.0
    )
    assert row.share_of_limit == 0.25
