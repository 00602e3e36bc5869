"""EpochOrder: which item each sample of an endless run is; a function of (seed, epoch, step, rank), nothing stored.

Samples are numbered n = 0, 1, 2, … over all ranks. A step takes the next global batch of them, rank after rank.
Sample n belongs to epoch n div N and is the item that the epoch's order puts at n mod N, with N items. An item is
a window, a document or a record; here it is only a number.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from corpus_assets.errors import CorpusError, StateMismatchError
from corpus_assets.loading.permutation import MAX_LENGTH, hash64, permute, stream_key, unpermute
from corpus_assets.loading.windows import first_sample

Tail = Literal["wrap", "drop", "pad"]
Scheme = Literal["sequential", "permuted", "drawn"]

_DRAWN_ITEM = 2  # purposes 0 and 1: permutations, and starts inside cells
_KEPT_EPOCHS = 4


class CorpusTooShortError(CorpusError, ValueError):
    """The corpus has not one whole item, or with tail="drop" not one global batch of them."""


class EpochOrder:
    """The items 0 to item_count - 1, put in order anew each epoch.

    Items that are skipped leave no gap: the others follow each other as they would have, and keep their numbers.

    Args:
        item_count: items, skipped ones included.
        scheme: `sequential`: by number. `permuted`: a permutation keyed by (seed, epoch). `drawn`: each sample
            any of them, with replacement.
        seed: 0 to 2^64 - 1.
        epoch: number of the first epoch.
        tail: what follows an epoch's last whole global batch. `wrap`: the batch is filled from the next epoch.
            `drop`: the rest of the epoch is left out. `pad`: the batch is filled from the epoch's beginning.
        global_batch: samples per step over all ranks.
        skipped: (S,) int64, sorted, each once: items that are left out.
        what: what the items are, for messages.

    Raises:
        CorpusTooShortError: not one item is left, or not one batch with `drop`.
        ValueError: a number or name that does not fit.
    """

    def __init__(
        self,
        item_count: int,
        *,
        scheme: Scheme,
        seed: int,
        epoch: int = 0,
        tail: Tail = "wrap",
        global_batch: int = 1,
        skipped: np.ndarray | None = None,
        what: str = "items",
    ) -> None:
        if tail not in get_args(Tail):
            raise ValueError(f"tail is {tail!r}, expected one of {', '.join(get_args(Tail))}")
        if not 0 <= seed < 2**64:
            raise ValueError(f"seed is {seed}, expected 0 to 2^64 - 1")
        if not 0 <= epoch < MAX_LENGTH:
            raise ValueError(f"epoch is {epoch}, expected 0 to 2^62")
        self._skipped = np.empty(0, np.int64) if skipped is None else skipped
        self.item_count = item_count
        self.kept_count = item_count - len(self._skipped)
        self.epoch = epoch
        self.tail: Tail = tail
        self.global_batch = global_batch
        # Samples that come before step 0; not 0 after the skip list was changed in the middle of a run.
        self.origin = 0
        self.scheme: Scheme = scheme
        self._seed = seed
        self._skipped_places_of: OrderedDict[int, np.ndarray] = OrderedDict()
        if self.kept_count == 0:
            raise CorpusTooShortError(f"all {item_count} {what} are skipped, expected one or more")
        if tail == "drop" and self.kept_count < global_batch:
            raise CorpusTooShortError(
                f"an epoch has {self.kept_count} {what}, tail='drop' needs a global batch of {global_batch}"
            )

    @property
    def steps_per_epoch(self) -> int:
        """Steps in which an epoch's items have all been seen; with `drop` its whole batches."""
        whole, rest = divmod(self.kept_count, self.global_batch)
        return whole + (rest > 0 and self.tail != "drop")

    def steps_to_plan(self, samples: int, *, batch_size: int) -> int:
        """How many steps of a rank are best planned together, to plan about `samples`; at least 1.

        What is skipped must be found in the order of each epoch anew, so a plan should not hold many epochs then.
        """
        steps = max(1, samples // batch_size)
        return max(1, min(steps, self.steps_per_epoch)) if self._skipped.size else steps

    def epoch_at(self, step: int) -> int:
        """The epoch, counted from the first, that the first sample of a step belongs to."""
        if self.tail == "wrap":
            return (self.origin + step * self.global_batch) // self.kept_count
        return step // self.steps_per_epoch

    def epoch_end(self, step: int) -> int:
        """The first step behind `step` whose samples are all of a later epoch than the first sample of `step`."""
        epoch = self.epoch_at(step) + 1
        if self.tail == "wrap":
            return -((self.origin - epoch * self.kept_count) // self.global_batch)
        return epoch * self.steps_per_epoch

    def begin_at(self, origin: int, step: int) -> None:
        """Let `origin` samples come before step 0, where a run goes on at `step`.

        Raises:
            StateMismatchError: numbers that no run comes to.
        """
        if not 0 <= origin + step * self.global_batch < MAX_LENGTH:
            raise StateMismatchError(f"loader state: step {step} behind {origin} samples is in no run")
        self.origin = origin

    def check_step(self, step: int) -> None:
        """Raise ValueError for a step that no run comes to, or one before the skip list was changed in the middle."""
        check_samples(step, self.global_batch)
        if self.origin + step * self.global_batch < 0:
            raise ValueError(f"step is {step}, which was before the skip list was changed")

    def places(self, steps: Sequence[int], *, rank: int, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
        """(len(steps), batch_size) epochs, and places within them, of the samples of `rank`.

        O(size of the result) in time and memory, at any step.
        """
        world_size = self.global_batch // batch_size
        firsts = []
        for step in steps:
            if self.tail == "wrap":
                sample = first_sample(step, batch_size=batch_size, rank=rank, world_size=world_size)
                firsts.append(divmod(self.origin + sample, self.kept_count))
            else:
                epoch, step_in_epoch = divmod(step, self.steps_per_epoch)
                sample = first_sample(step_in_epoch, batch_size=batch_size, rank=rank, world_size=world_size)
                firsts.append((epoch, sample))
        first = np.array(firsts, np.int64).reshape(-1, 2)
        offsets = first[:, 1:] + np.arange(batch_size)
        epochs = np.broadcast_to(first[:, :1] + self.epoch, offsets.shape)
        if self.tail == "wrap":
            epochs = epochs + offsets // self.kept_count
        return epochs, offsets % self.kept_count

    def places_of(self, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Epochs, and places within them, of any samples of an endless run."""
        return self.epoch + samples // self.kept_count, samples % self.kept_count

    def kept(self, numbers: np.ndarray) -> np.ndarray:
        """The items with these numbers among those that are not skipped, by item number."""
        return _pass_over(numbers, self._skipped)

    def items(self, epochs: np.ndarray, places: np.ndarray) -> np.ndarray:
        """The item at each place of its epoch; int64, same shape."""
        if self.scheme == "sequential":
            return _pass_over(places, self._skipped)
        keyed = single_epoch(epochs)
        if self.scheme == "drawn":
            keys = stream_key(self._seed, keyed, purpose=_DRAWN_ITEM)
            drawn = hash64(keys if len(keys) == 1 else keys.reshape(places.shape), places)
            return _pass_over((drawn % np.uint64(self.kept_count)).astype(np.int64), self._skipped)
        return permute(self._raw_places(epochs, places), self.item_count, seed=self._seed, epochs=keyed)

    def _raw_places(self, epochs: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Where each place would be if nothing were skipped."""
        if not self._skipped.size:
            return places
        raw = np.empty_like(places)
        for epoch in np.unique(epochs).tolist():
            inside = epochs == epoch
            raw[inside] = _pass_over(places[inside], self._skipped_places(epoch))
        return raw

    def _skipped_places(self, epoch: int) -> np.ndarray:
        """Where an epoch's order has the skipped items, sorted."""
        if self.scheme != "permuted" or not self._skipped.size:
            return self._skipped
        places = self._skipped_places_of.get(epoch)
        if places is None:
            places = np.sort(unpermute(self._skipped, self.item_count, seed=self._seed, epochs=epoch))
            self._skipped_places_of[epoch] = places
            if len(self._skipped_places_of) > _KEPT_EPOCHS:
                self._skipped_places_of.popitem(last=False)
        return places

    def take_over(self, other: EpochOrder, step: int) -> None:
        """Go on at `step` with the first item that `other`, which skips other items, has not come to.

        Raises:
            ValueError: the tail is not `wrap`: epochs begin at fixed steps then.
        """
        if self.tail != "wrap" and step % other.steps_per_epoch:
            raise ValueError(
                f"tail is {self.tail!r}: the skip list can change where an epoch ends, not at step {step}; "
                "expected tail='wrap'"
            )
        epoch, place = divmod(other.origin + step * self.global_batch, other.kept_count)
        passed = self.place_like(other, epoch, place)
        self.begin_at(epoch * self.kept_count + passed - step * self.global_batch, step)

    def place_like(self, other: EpochOrder, epoch: int, place: int) -> int:
        """How many items of an epoch, counted from the first, come before the place where `other` stands in it."""
        if self.scheme == "drawn":
            return min(place, self.kept_count)
        skipped = other._skipped_places(self.epoch + epoch)
        raw = int(_pass_over(np.array([place]), skipped)[0])
        return raw - int(np.searchsorted(self._skipped_places(self.epoch + epoch), raw))


def check_samples(step: int, global_batch: int) -> None:
    """Raise ValueError for a step whose samples have no numbers any more."""
    if step * global_batch >= MAX_LENGTH:
        raise ValueError(
            f"step is {step}, expected below {MAX_LENGTH // global_batch} at a global batch of {global_batch}"
        )


def single_epoch(epochs: np.ndarray) -> np.ndarray:
    """One epoch where all are the same, the usual case, in which one key serves all; else all of them, flat."""
    return epochs.ravel()[:1] if epochs.size and (epochs == epochs.flat[0]).all() else epochs.ravel()


def _pass_over(places: np.ndarray, skipped: np.ndarray) -> np.ndarray:
    """The place-th of the numbers that are not in `skipped`, which is sorted."""
    if not skipped.size:
        return places
    return places + np.searchsorted(skipped - np.arange(len(skipped)), places, side="right")
