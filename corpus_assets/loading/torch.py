"""Loaders in PyTorch: as iterable and map-style datasets, as tensors, on a device. The one module that imports torch."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from corpus_assets.loading.loader import SlidingWindowDataloader
from corpus_assets.loading.ragged import RaggedBatch
from corpus_assets.loading.stepped import SteppedLoader


class RaggedTensors(NamedTuple):
    """A `RaggedBatch` of tensors."""

    values: torch.Tensor
    cu_seqlens: torch.Tensor
    documents: torch.Tensor
    fields: dict[str, torch.Tensor]


def as_tensors(batch: Any) -> Any:
    """`batch` with tensors in place of arrays, in the same tuples and dicts; memory is shared, nothing is copied."""
    if isinstance(batch, np.ndarray):
        return torch.from_numpy(batch)
    if isinstance(batch, RaggedBatch):
        values, cu_seqlens, documents = map(
            torch.from_numpy, (batch.values, batch.cu_seqlens, batch.documents)
        )
        return RaggedTensors(values, cu_seqlens, documents, as_tensors(dict(batch.fields)))
    if isinstance(batch, tuple):
        parts = [as_tensors(part) for part in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else tuple(parts)
    if isinstance(batch, Mapping):
        return {name: as_tensors(part) for name, part in batch.items()}
    return batch


class BatchIterableDataset(IterableDataset[Any]):
    """The batches of a loader for `DataLoader(dataset, batch_size=None, num_workers=…)`.

    The workers of a DataLoader share out the loader's steps, and since it takes one batch of each in turn, its
    batches are those of the loader alone, in order, with any number of workers, forked or spawned, persistent or
    not. Every iteration begins where the dataset stands: at the loader's step when it was made, then where
    `seek` or `set_epoch` of this object in the main process put it; as with torch's DistributedSampler,
    `set_epoch` is called before each epoch.

    In torchdata's StatefulDataLoader a state has the step of each worker, so a run goes on in the middle with the
    same number of workers.

    Args:
        loader: any loader of this package; each worker makes its own of it, with threads of its own.
        until: `epoch` ends each iteration with the epoch that it begins in, `forever` never.
    """

    def __init__(self, loader: SteppedLoader[Any], *, until: str = "epoch") -> None:
        if until not in ("epoch", "forever"):
            raise ValueError(f"until is {until!r}, expected epoch or forever")
        self._loader = loader
        self._until = until
        # In shared memory, so that workers that live on see what the main process chose.
        self._start = torch.tensor([loader.step], dtype=torch.int64).share_memory_()

    def seek(self, step: int) -> None:
        """Let the next iteration begin at a global step."""
        step = operator.index(step)
        if step < 0:
            raise ValueError(f"step is {step}, expected 0 or more")
        self._start[0] = step

    def set_epoch(self, number: int) -> None:
        """Let the next iteration be epoch `number`, counted from the loader's first."""
        self.seek(self._loader.epoch_start(number))

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        worker, count = (0, 1) if info is None else (info.id, info.num_workers)
        loader = self._loader.as_worker(worker, count)
        start = int(self._start[0])
        loader.seek(start)
        end = loader.epoch_end(start) if self._until == "epoch" else None
        return _WorkerBatches(loader, worker=worker, end=end)


class _WorkerBatches:
    """What one worker yields; its state says what it has yielded."""

    def __init__(self, loader: SteppedLoader[Any], *, worker: int, end: int | None) -> None:
        self._loader = loader
        self._worker = worker
        self._end = end

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if self._end is not None and self._loader.step + self._worker >= self._end:
            self._loader.close()
            raise StopIteration
        return as_tensors(next(self._loader))

    def state_dict(self) -> dict[str, Any]:
        return {"loader": self._loader.state_dict(), "end": self._end}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._loader.load_state_dict(state["loader"])
        self._end = state["end"]


class WindowMapDataset(Dataset[Any]):
    """The windows of a loader by number, for a DataLoader with a sampler of torch's.

    `dataset[i]` is (input_ids, target_ids) of window i by position, with fields a `WindowBatch` of one window.
    The order is the sampler's: of the loader's options, those that say what a window is are used, and skip.
    A DataLoader's batch is read in one call. Its `collate_fn` must know about annotations and cu_seqlens, whose
    length differs from window to window.

    Args:
        loader: what a window is.
    """

    def __init__(self, loader: SlidingWindowDataloader) -> None:
        self._loader = loader

    def __len__(self) -> int:
        """Windows per epoch."""
        return self._loader.window_count

    def __getitem__(self, number: int) -> Any:
        """One window.

        Raises:
            IndexError: a number outside.
        """
        return self.__getitems__([number])[0]

    def __getitems__(self, numbers: Sequence[int]) -> list[Any]:
        """Several windows, read together."""
        batch = self._loader.windows(np.asarray(numbers, np.int64))
        return [as_tensors(_row(batch, place)) for place in range(len(numbers))]


def _row(batch: Any, place: int) -> Any:
    if isinstance(batch, dict):
        return {name: values[place] for name, values in batch.items()}
    return (
        type(batch)(*(_row_of(part, place) for part in batch))
        if hasattr(batch, "_fields")
        else (
            batch[0][place],
            batch[1][place],
        )
    )


def _row_of(part: Any, place: int) -> Any:
    return _row(part, place) if isinstance(part, dict) else part[place]


class DeviceBatches:
    """A loader's batches as tensors on a device; resumes as the loader does.

    Args:
        batches: a loader of this package, or any iterator of batches.
        device: where tensors go; None leaves them in memory.
        pin_memory: copy each batch to pinned memory first, so that the transfer runs beside the computation.
            Without an accelerator there is nothing to pin for, and it does nothing.
    """

    def __init__(
        self, batches: Iterator[Any], *, device: torch.device | str | None = None, pin_memory: bool = False
    ) -> None:
        self._batches = batches
        self._device = None if device is None else torch.device(device)
        self._pins = pin_memory and has_accelerator()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self._placed(as_tensors(next(self._batches)))

    def _placed(self, part: Any) -> Any:
        if isinstance(part, torch.Tensor):
            pinned = part.pin_memory() if self._pins else part
            return pinned if self._device is None else pinned.to(self._device, non_blocking=self._pins)
        if isinstance(part, tuple):
            parts = [self._placed(item) for item in part]
            return type(part)(*parts) if hasattr(part, "_fields") else tuple(parts)
        if isinstance(part, dict):
            return {name: self._placed(item) for name, item in part.items()}
        return part

    def state_dict(self) -> dict[str, Any]:
        """The loader's state: what was taken from here was taken from it."""
        state: dict[str, Any] = self._batches.state_dict()  # type: ignore[attr-defined]
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `SteppedLoader.load_state_dict`."""
        self._batches.load_state_dict(state)  # type: ignore[attr-defined]


def has_accelerator() -> bool:
    """Whether torch sees a device that pinned memory is transferred to faster."""
    accelerator = getattr(torch, "accelerator", None)  # torch 2.6
    return torch.cuda.is_available() if accelerator is None else bool(accelerator.is_available())
