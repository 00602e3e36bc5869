"""The reference trainer: a NumPy bigram model that reads a released corpus through the loader.

    python -m corpus_assets.training.reference data/stdlib/corpus/shards.json --steps 200

Launched by the `training` asset it reads its parameters from Dagster Pipes and reports there; launched
by hand it prints. It shows that a corpus can be learned from: its loss falls below the unigram entropy.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from corpus_assets.errors import CorpusError
from corpus_assets.training.bigram import BigramModel, unigram_entropy

FINAL_SHARE = 10  # the final loss is the mean over the last tenth of the steps
REPORTS_PER_RUN = 20  # a stored log line costs Dagster about 40 ms

OnStep = Callable[[int, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions:
    """How to train; `mask_boundary` leaves the boundary out of the targets and of the entropy."""

    index_path: Path
    window_size: int = 1024
    batch_size: int = 16
    steps: int = 200
    seed: int = 0
    mask_boundary: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingReport:
    """What a training run saw; losses and entropy in nats per target."""

    index_fingerprint: str
    losses: tuple[float, ...]
    unigram_entropy: float
    target_count: int
    seconds: float

    @property
    def final_loss(self) -> float:
        """Mean loss over the last tenth of the steps."""
        last = self.losses[-max(1, len(self.losses) // FINAL_SHARE) :]
        return sum(last) / len(last)

    @property
    def beats_unigram(self) -> bool:
        return self.final_loss < self.unigram_entropy


def train(options: TrainingOptions, *, on_step: OnStep | None = None) -> TrainingReport:
    """Train on the released corpus and return its losses, each measured before its batch was learned.

    Raises:
        NotReleasedError: the corpus has no release for its present index.
        ValueError: the corpus holds no window of that size.
    """
    from corpus_assets.loading.loader import SlidingWindowDataloader
    from corpus_assets.loading.store import MmapTokenStore
    from corpus_assets.shards.index import load_index

    tokenizer = load_index(options.index_path).tokenizer
    if tokenizer is None:
        raise ValueError(f"{options.index_path}: the corpus has no shards, expected tokens to train on")
    masked = tokenizer.boundary_id if options.mask_boundary else None
    model = BigramModel(tokenizer.max_token_id + 1)
    losses: list[float] = []
    target_count, began = 0, time.perf_counter()
    with MmapTokenStore(options.index_path, require_release=True) as store:
        loader = SlidingWindowDataloader(store, options.window_size, options.batch_size, seed=options.seed)
        for step, batch in zip(range(options.steps), loader, strict=False):
            inputs, targets = _unmasked(batch[0], batch[1], masked)
            losses.append(model.loss(inputs, targets))
            model.update(inputs, targets)
            target_count += len(targets)
            if on_step is not None:
                on_step(step + 1, losses[-1])
        return TrainingReport(
            index_fingerprint=store.fingerprint,
            losses=tuple(losses),
            unigram_entropy=unigram_entropy(store, model.vocab_size, without=masked),
            target_count=target_count,
            seconds=time.perf_counter() - began,
        )


def _unmasked(inputs: np.ndarray, targets: np.ndarray, masked: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of a batch as flat int64 arrays, pairs whose target is `masked` left out."""
    flat_inputs, flat_targets = inputs.reshape(-1).astype(np.int64), targets.reshape(-1).astype(np.int64)
    if masked is None:
        return flat_inputs, flat_targets
    kept = flat_targets != masked
    return flat_inputs[kept], flat_targets[kept]


def report_metadata(report: TrainingReport) -> dict[str, Any]:
    """The report as plain values for a log, a JSON file or Dagster metadata."""
    return {
        "final_loss": report.final_loss,
        "unigram_entropy": report.unigram_entropy,
        "first_loss": report.losses[0],
        "steps": len(report.losses),
        "targets": report.target_count,
        "targets_per_second": report.target_count / max(report.seconds, 1e-9),
        "index_fingerprint": report.index_fingerprint,
        "losses": [round(loss, 4) for loss in report.losses],
    }


def _run_under_pipes() -> None:
    """Train as Dagster Pipes asks: parameters from its extras, the losses back as logs and metadata."""
    import dagster_pipes

    with dagster_pipes.open_dagster_pipes() as pipes:
        extras = pipes.extras
        options = TrainingOptions(
            index_path=Path(extras["index_path"]),
            window_size=extras["window_size"],
            batch_size=extras["batch_size"],
            steps=extras["steps"],
            mask_boundary=extras["mask_boundary"],
        )
        every = max(1, options.steps // REPORTS_PER_RUN)

        def log(step: int, loss: float) -> None:
            print(f"step {step}: loss {loss:.4f}", flush=True)
            if step % every == 0 or step == 1:
                pipes.log.info(f"step {step} of {options.steps}: loss {loss:.4f} nats")

        pipes.report_asset_materialization(metadata=report_metadata(train(options, on_step=log)))


def _run_by_hand(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m corpus_assets.training.reference", description=__doc__)
    parser.add_argument("index_path", type=Path, help="shards.json of a released corpus, or its folder")
    parser.add_argument("--window-size", type=int, default=1024)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--keep-boundary", dest="mask_boundary", action="store_false", help="learn to predict boundaries too"
    )
    options = TrainingOptions(**vars(parser.parse_args(arguments)))
    report = train(options, on_step=lambda step, loss: print(f"step {step}: loss {loss:.4f}", flush=True))
    print(f"final loss {report.final_loss:.4f}, unigram entropy {report.unigram_entropy:.4f} nats")


def main(arguments: list[str] | None = None) -> int:
    """Entry point; 0 when trained, 2 with one message when the corpus cannot be used."""
    import dagster_pipes

    try:
        if dagster_pipes.PipesEnvVarParamsLoader().is_dagster_pipes_process():
            _run_under_pipes()
        else:
            _run_by_hand(sys.argv[1:] if arguments is None else arguments)
    except (CorpusError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
