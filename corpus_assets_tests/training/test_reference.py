"""The reference trainer reads a released corpus through the loader and beats the unigram entropy."""

import json
import subprocess
import sys

import pytest

from corpus_assets import write_corpus
from corpus_assets.errors import NotReleasedError
from corpus_assets.shards.release import Evidence, write_release
from corpus_assets.training.reference import TrainingOptions, TrainingReport, main, train

PROSE = "the cat sat on the mat and the dog lay by the door until the sun went down over the hill. "


@pytest.fixture
def corpus(tmp_path):
    """An index of a small corpus, not released."""
    inputs = tmp_path / "input"
    inputs.mkdir()
    for shard in range(2):
        rows = [json.dumps({"text": PROSE * (1 + (row + shard) % 5)}) for row in range(60)]
        (inputs / f"part{shard}.jsonl").write_text("\n".join(rows))
    return write_corpus(inputs, tmp_path / "corpus", window_size=64, workers=1)


def release(index):
    write_release(
        index, [Evidence(check="by_hand", passed=True, detail="")], created="2024-01-01T00:00:00+00:00"
    )


def options(index, **changes):
    return TrainingOptions(
        **{"index_path": index.root, "window_size": 64, "batch_size": 4, "steps": 60} | changes
    )


@pytest.mark.parametrize("mask_boundary", [True, False])
def test_loss_falls_below_the_unigram_entropy(corpus, mask_boundary):
    release(corpus)
    seen = []
    report = train(
        options(corpus, mask_boundary=mask_boundary), on_step=lambda step, loss: seen.append((step, loss))
    )
    assert report.beats_unigram
    assert report.final_loss < report.losses[0]
    assert [step for step, _ in seen] == list(range(1, 61))
    assert [loss for _, loss in seen] == list(report.losses)
    assert report.index_fingerprint == corpus.fingerprint


def test_masking_leaves_exactly_the_boundaries_out(corpus):
    release(corpus)
    masked = train(options(corpus, steps=20, mask_boundary=True))
    kept = train(options(corpus, steps=20, mask_boundary=False))
    assert kept.target_count == 20 * 4 * 64
    assert 0 < kept.target_count - masked.target_count < 20 * 4  # a document is longer than a window


def test_the_same_seed_trains_the_same(corpus):
    release(corpus)
    first, second, other = (train(options(corpus, steps=5, seed=seed)) for seed in (1, 1, 2))
    assert first.losses == second.losses
    assert first.losses != other.losses


def test_a_corpus_without_a_release_is_refused(corpus):
    with pytest.raises(NotReleasedError, match="no release"):
        train(options(corpus))


def test_final_loss_is_the_mean_over_the_last_tenth():
    report = TrainingReport(
        index_fingerprint="f",
        losses=tuple(map(float, range(20, 0, -1))),
        unigram_entropy=1.6,
        target_count=1,
        seconds=1,
    )
    assert report.final_loss == 1.5
    assert report.beats_unigram


def test_the_command_line_prints_its_losses(corpus, capsys):
    release(corpus)
    arguments = ["--window-size", "64", "--batch-size", "4", "--steps", "3", "--keep-boundary"]
    assert main([str(corpus.root / "shards.json"), *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[:3]] == ["step 1", "step 2", "step 3"]
    assert lines[3].startswith("final loss ")


def test_the_command_refuses_with_one_message_and_status_2(corpus):
    command = [sys.executable, "-m", "corpus_assets.training.reference", str(corpus.root)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 2
    assert finished.stderr.startswith("error: ")
    assert "no release" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_a_window_larger_than_the_corpus_is_refused(corpus, capsys):
    release(corpus)
    assert main([str(corpus.root), "--window-size", "10000000", "--steps", "1"]) == 2
    assert "error: " in capsys.readouterr().err
