"""Progress in words: what is summed, what is said, how often."""

import pytest

from corpus_assets.defs import progress
from corpus_assets.defs.progress import ProgressMeter, RunProgress
from corpus_assets.shards.build import BuildProgress
from corpus_assets.shards.worker import ShardOutcome


def step(key, *, rows, tokens, read, total):
    return BuildProgress(
        key=key, documents=rows, rows=rows, tokens=tokens, bytes_read=read, bytes_total=total
    )


def end(key, *, failed=False, reused=False):
    return ShardOutcome(
        key=key,
        info=None if failed else object(),
        error="why" if failed else None,
        seconds=1.0,
        reused=reused,
    )


def test_shards_are_added_up():
    meter = ProgressMeter(sizes={"a": 100, "b": 300}, log=print)
    meter.advance(step("a", rows=1, tokens=10, read=40, total=100))
    meter.advance(step("b", rows=2, tokens=20, read=100, total=300))
    meter.advance(step("a", rows=3, tokens=30, read=80, total=100))
    now = meter.now()
    assert (now.rows, now.tokens, now.bytes_done, now.bytes_total) == (5, 50, 180, 400)
    assert (now.shards_done, now.shards_total) == (0, 2)


def test_a_finished_shard_counts_as_read_whether_it_was_built_reused_or_failed():
    meter = ProgressMeter(sizes={"a": 100, "b": 300, "c": 50}, log=print)
    meter.advance(step("a", rows=1, tokens=10, read=90, total=100))
    meter.finish(end("a"))
    meter.finish(end("b", reused=True))
    meter.finish(end("c", failed=True))
    now = meter.now()
    assert (now.bytes_done, now.shards_done, now.shards_reused, now.shards_failed) == (450, 3, 1, 1)
    assert now.bytes_read == 150


def test_the_words_have_rates_megabytes_and_time_left():
    now = RunProgress(
        shards_done=2,
        shards_reused=1,
        shards_failed=1,
        shards_total=4,
        rows=2000,
        tokens=3_000_000,
        bytes_done=30_000_000,
        bytes_reused=20_000_000,
        bytes_total=60_000_000,
        seconds=2.0,
    )
    assert now.seconds_left == 6.0
    assert str(now) == (
        "2 of 4 shards, 1 reused, 1 failed; "
        "1,000 rows/s, 1,500,000 tokens/s, 30.0 of 60.0 MB (5.0 MB/s), 6 s left"
    )


def test_before_anything_is_read_the_time_left_is_unknown():
    meter = ProgressMeter(sizes={"a": 1, "b": 1}, log=print)
    assert "unknown left" in str(meter.now())
    meter.finish(end("a", reused=True))
    assert "unknown left" in str(meter.now())
    meter.finish(end("b", reused=True))
    assert "0 s left" in str(meter.now())


@pytest.mark.parametrize(("seconds", "lines"), [(0.0, 3), (3600.0, 0)])
def test_the_log_is_bounded_and_the_listener_hears_all(monkeypatch, seconds, lines):
    monkeypatch.setattr(progress, "LOG_SECONDS", seconds)
    logged, heard = [], []
    meter = ProgressMeter(sizes={"a": 100}, log=logged.append, on_progress=heard.append)
    meter.advance(step("a", rows=1, tokens=1, read=50, total=100))
    meter.advance(step("a", rows=2, tokens=2, read=100, total=100))
    meter.finish(end("a"))
    assert len(logged) == lines
    assert len(heard) == 3
