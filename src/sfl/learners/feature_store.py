"""Features of frames under numbers, on the device where they are learned from."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sfl.data.types import Array
from sfl.learners.device import to_device


class FreeSlots:
    """The numbers below a capacity that nothing is kept under."""

    def __init__(self, capacity: int) -> None:
        self._numbers = np.arange(capacity - 1, -1, -1)  # the first `_count` of these are free, the last goes first
        self._count = capacity

    def take(self, count: int) -> Array:
        """So many slots, which are no longer free."""
        left = self._count - count
        if left < 0:
            raise IndexError(f"{count} more features than there is room for: {self._count} slots are free")
        slots = self._numbers[left : self._count][::-1].copy()
        self._count = left
        return slots

    def give_back(self, slots: Array) -> None:
        """These are free again."""
        after = self._count + len(slots)
        self._numbers[self._count : after] = slots
        self._count = after

    def numbers(self) -> Array:
        """All that are free, in the reverse order of being taken."""
        return self._numbers[: self._count].copy()

    def set(self, numbers: Array) -> None:
        """Take up what `numbers` gave."""
        self._count = len(numbers)
        self._numbers[: self._count] = numbers


class FeatureStore:
    """As many feature vectors as a replay can refer to; slot -1 is the one for what was before an episode.

    With each may go `traces` more vectors of the same size: what there was before it in its episode.
    """

    def __init__(self, capacity: int, fill: Tensor, traces: int = 0) -> None:
        self._rows = torch.zeros(capacity + 1, len(fill), device=fill.device)
        self._rows[-1] = fill
        self._traces = torch.zeros(capacity + 1, traces * len(fill), device=fill.device)
        self._free = FreeSlots(capacity)

    def hold(self, observation: Array) -> int:
        """The slot of one feature vector."""
        return int(self.hold_rows(torch.from_numpy(observation)[None])[0])

    def hold_rows(self, features: Tensor) -> Array:
        """The slots [B] of features [B, (traces + 1) * F], traces first; each is referred to once."""
        slots = self._free.take(len(features))
        places, rows = to_device(slots, self._rows.device), features.to(self._rows)
        self._rows.index_copy_(0, places, rows[:, self._traces.shape[1] :])
        if self._traces.shape[1]:
            self._traces.index_copy_(0, places, rows[:, : self._traces.shape[1]])
        return slots

    def release(self, slot: int) -> None:
        """The slot may be used again."""
        self.release_rows(np.array([slot]))

    def release_rows(self, slots: Array) -> None:
        """The slots [B] may be used again."""
        self._free.give_back(slots)

    def places(self, slots: Array) -> Array:
        """Slots [...] as `at` wants them: numbers from 0 on."""
        return np.where(slots < 0, len(self._rows) - 1, slots)

    def at(self, places: Tensor) -> Tensor:
        """Features [..., F] at places [...] on the device."""
        features: Tensor = self._rows.index_select(0, places.flatten()).unflatten(0, places.shape)
        return features

    def states(self, places: Tensor, forgetful: Tensor | None = None) -> Tensor:
        """States [..., (traces + stack) * F] of stacks of places [..., stack], the newest last: traces, then frames.

        Where `forgetful`, of the same number of axes, is not 0, the newest frame stands in for the traces.
        """
        frames = self.at(places)
        if not self._traces.shape[1]:
            return frames.flatten(-2)
        newest = places[..., -1]
        traces = self._traces.index_select(0, newest.flatten()).unflatten(0, newest.shape)
        if forgetful is not None:
            instead = torch.cat([frames[..., -1, :]] * (traces.shape[-1] // frames.shape[-1]), dim=-1)
            traces = torch.where(forgetful != 0, instead, traces)
        return torch.cat([traces, frames.flatten(-2)], dim=-1)

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        rows = {"feature_rows": self._rows, "feature_traces": self._traces}
        arrays = {name: value.cpu().numpy().copy() for name, value in rows.items()}
        return arrays | {"feature_free": self._free.numbers()}

    def load_state(self, state: dict[str, Array], held: Array) -> None:
        """Take up arrays made by `state`; what is held is what is not free."""
        self._rows.copy_(torch.from_numpy(state["feature_rows"]))
        self._traces.copy_(torch.from_numpy(state["feature_traces"]))
        self._free.set(state["feature_free"])
