"""Claims with thresholds: each just inside and just outside; and the metadata that goes with them."""

import base64
from dataclasses import replace

import pytest

from corpus_assets.benchmarks.records import ThroughputRow
from corpus_assets.config import StatisticsConfig
from corpus_assets.defs.digests import digests_match
from corpus_assets.defs.plots import length_plot, loss_plot, throughput_plot
from corpus_assets.defs.statistics import STATISTICS_CLAIMS, threshold_claims
from corpus_assets.defs.throughput import share_of_limit, throughput_is_above_floor
from corpus_assets.shards.inspection import Finding
from corpus_assets.shards.records import Ledger
from corpus_assets.shards.statistics import CorpusStatistics
from corpus_assets.shards.validate import ValidationReport

STATISTICS = CorpusStatistics(
    fingerprint="f",
    shard_count=1,
    token_count=1000,
    document_count=10,
    ledger=Ledger(),
    length_quantiles=(),
    histogram_edges=(),
    histogram_counts=(),
    mean_length=100.0,
    boundary_share=0.01,
    reject_share=0.02,
)


def failed(limits):
    return [claim.name for claim in threshold_claims(STATISTICS, limits) if not claim.passed]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"min_documents": 10, "max_boundary_share": 0.01, "max_reject_share": 0.02}, []),
        ({"min_documents": 11, "max_boundary_share": 0.01, "max_reject_share": 0.02}, ["enough_documents"]),
        (
            {"min_documents": 10, "max_boundary_share": 0.009, "max_reject_share": 0.02},
            ["boundary_share_is_low"],
        ),
        (
            {"min_documents": 10, "max_boundary_share": 0.01, "max_reject_share": 0.019},
            ["reject_share_is_low"],
        ),
    ],
)
def test_thresholds_of_the_statistics(limits, expected):
    assert failed(StatisticsConfig(**limits)) == expected


def test_the_claims_have_the_names_that_the_checks_are_declared_with():
    names = tuple(claim.name for claim in threshold_claims(STATISTICS, StatisticsConfig()))
    assert names == STATISTICS_CLAIMS


@pytest.mark.parametrize(
    ("share", "released", "passed"),
    [
        (0.01, None, True),  # nothing to compare with yet
        (0.2, 0.4, True),
        (0.19, 0.4, False),
        (0.9, 0.4, True),
    ],
)
def test_throughput_is_compared_with_the_last_release(share, released, passed):
    claim = throughput_is_above_floor(share, released=released, floor=0.5)
    assert claim.passed is passed
    assert f"{share:.3f} of the limit" in claim.detail


def row(rate, **changes):
    stock = ThroughputRow(
        chunk_size=1024,
        compression="none",
        cache="warm",
        as_built=False,
        windows_per_second=rate,
        limit=100.0,
    )
    return replace(stock, **changes)


def test_the_share_is_that_of_the_corpus_as_built():
    assert share_of_limit([row(50), row(30, as_built=True), row(80)]) == 0.3


def test_a_corpus_too_short_to_measure_has_the_share_of_its_warm_samples():
    assert share_of_limit([row(10), row(30), row(50), row(1, cache="cold")]) == 0.3


def test_digests_name_each_bad_shard_once():
    findings = [
        Finding(shard=shard, check="sha256", message=f"{shard} differs", token_range=None)
        for shard in ("b", "a", "b")
    ]
    report = ValidationReport(fingerprint="f", shard_count=9, token_bytes=10, findings=tuple(findings))
    claim = digests_match(report, findings)
    assert (claim.passed, claim.detail) == (False, "2 of 9 shards differ: a, b; first: b differs")
    assert digests_match(report, []).passed


def png_of(value):
    """The bytes of the picture inside a markdown value."""
    head, _, encoded = value.md_str.partition("base64,")
    assert head.startswith("![")
    return base64.b64decode(encoded.removesuffix(")"))


def test_pictures_are_png_inside_markdown():
    pictures = [
        length_plot((1.0, 2.0, 4.0), (3, 5)),
        throughput_plot({"warm": 10.0, "cold": 2.0}, pale=["cold"]),
        loss_plot({"losses": [3.0, 2.0], "unigram_entropy": 2.5})["loss_curve"],
    ]
    assert all(png_of(picture).startswith(b"\x89PNG\r\n") for picture in pictures)


def test_without_values_there_is_no_picture():
    assert length_plot((), ()).md_str == "no documents"
    assert loss_plot(None) == loss_plot({"losses": []}) == loss_plot({"final_loss": 1.0}) == {}
