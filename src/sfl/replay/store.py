"""Stores: observations, or features of them, under numbers (slots) that the replay refers to.

`DistinctStore` keeps each distinct observation once, in memory that grows: a gridworld's replay of twenty thousand
steps holds a few hundred distinct ones, so that learners can encode each once per batch. `DeviceStore` keeps
tensors where they are learned from, as many as the replay has entries, and `FeatureStore` is one of features of frames.
They are two classes, because pictures hardly ever repeat and a GPU would have to wait for the comparison of bytes.
`WalkReplay` is a replay of raw observations over such a store.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from sfl.api import Array, EnvSpec, Transitions
from sfl.fast.cuda import to_device
from sfl.replay.replay import FILL, SequenceReplay, Windows


class Companion(Protocol):
    """Numbers beside the observations of a store, made whenever one is written (`sfl.fast.grid.WindowTable`)."""

    def set(self, slot: int, observation: Array) -> None:
        """The slot holds this observation from here on."""

    def state(self) -> dict[str, Array]:
        """Plain arrays."""

    def load_state(self, state: dict[str, Array]) -> None:
        """Continue from arrays made by `state`; `set` follows for every slot in use."""


class DistinctStore:
    """Observations, each kept once and counted by reference; a slot without references is used again."""

    def __init__(self, shape: tuple[int, ...], dtype: str, windows: Companion | None = None) -> None:
        self.windows = windows
        self._rows = np.zeros((64, *shape), dtype=dtype)
        self._references = np.zeros(64, dtype=np.int64)
        self._slots: dict[bytes, int] = {}
        self._free = list(range(63, -1, -1))
        self._written: list[int] = []

    def __len__(self) -> int:
        return len(self._slots)

    def add(self, rows: Array) -> Array:
        """The slots [B] of observations [B, ...], each with one reference more."""
        return np.array([self._add(row) for row in rows], dtype=np.int64)

    def _add(self, observation: Array) -> int:
        key = observation.tobytes()
        slot = self._slots.get(key)
        if slot is None:
            slot = self._next_slot()
            self._slots[key] = slot
            self._rows[slot] = observation
            self._written.append(slot)
            if self.windows is not None:
                self.windows.set(slot, self._rows[slot])
        self._references[slot] += 1
        return slot

    def free(self, slots: Array) -> None:
        """One reference less to each of the slots [B]; the last one frees the slot."""
        for slot in slots.tolist():
            self._references[slot] -= 1
            if self._references[slot] == 0:
                del self._slots[self._rows[slot].tobytes()]
                self._free.append(slot)

    def take_written(self) -> list[int]:
        """Slots that were given an observation since this was last asked."""
        written, self._written = self._written, []
        return written

    def rows(self, slots: Array) -> Array:
        """The observations in these slots, [N, ...]."""
        return np.asarray(self._rows[slots])

    def state(self) -> dict[str, Array]:
        """Plain arrays. The numbers of slots and windows are kept: sums over distinct ones follow their order."""
        free, written = np.array(self._free, np.int64), np.array(self._written, np.int64)
        windows = {} if self.windows is None else self.windows.state()
        return {"table_rows": self._rows, "table_free": free, "table_written": written, **windows}

    def load_state(self, state: dict[str, Array], held: Array) -> None:
        """Continue from arrays made by `state`; `held` lists the slot of every reference."""
        self._rows = state["table_rows"].copy()
        self._free, self._written = state["table_free"].tolist(), state["table_written"].tolist()
        self._references = np.bincount(held, minlength=len(self._rows)).astype(np.int64)
        used = np.flatnonzero(self._references)
        self._slots = {self._rows[slot].tobytes(): int(slot) for slot in used}
        if self.windows is not None:
            self.windows.load_state(state)
            for slot in used:
                self.windows.set(int(slot), self._rows[slot])

    def check_valid(self) -> None:
        """Raise when the store contradicts itself."""
        held = np.flatnonzero(self._references)
        if sorted(self._slots.values()) != held.tolist() or set(self._free) & set(held.tolist()):
            raise AssertionError("distinct store: slots and reference counts disagree")

    def _next_slot(self) -> int:
        if not self._free:
            size = len(self._rows)
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
            self._references = np.concatenate([self._references, np.zeros(size, dtype=np.int64)])
            self._free = list(range(2 * size - 1, size - 1, -1))
        return self._free.pop()


def distinct(slots: Array) -> tuple[Array, Array]:
    """Distinct slots in order and, for each given one, its place among them (as `np.unique`, without the sort)."""
    seen = np.zeros(int(slots.max()) + 1, dtype=bool)
    seen[slots] = True
    unique = np.flatnonzero(seen)
    place = np.empty(len(seen), dtype=np.int64)
    place[unique] = np.arange(len(unique))
    return unique, place[slots]


# ---- Tensors where they are learned from, and features of frames with what goes with them.


class DeviceStore:
    """As many tensors as a replay has entries, on the device; each is referred to once."""

    name = "observation"
    """Stands before what is saved."""

    def __init__(
        self, capacity: int, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, extra: int = 0
    ) -> None:
        """`extra`: rows after the others that have no slot."""
        self._rows = torch.zeros(capacity + extra, *shape, dtype=dtype, device=device)
        self._numbers = np.arange(capacity - 1, -1, -1)  # the first `_count` of these are free, the last goes first
        self._count = capacity

    def add(self, rows: Array | Tensor) -> Array:
        """The slots [B] of rows [B, ...]."""
        slots = self._next_slots(len(rows))
        self._write(self._rows, slots, rows)
        return slots

    def free(self, slots: Array) -> None:
        """The slots [B] may be used again."""
        after = self._count + len(slots)
        self._numbers[self._count : after] = slots
        self._count = after

    def at(self, places: Tensor) -> Tensor:
        """Rows [..., *shape] at places [...] on the device."""
        rows: Tensor = self._rows.index_select(0, places.flatten()).unflatten(0, places.shape)
        return rows

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        rows = self._rows.cpu().numpy().copy()
        return {f"{self.name}_rows": rows, f"{self.name}_free": self._numbers[: self._count].copy()}

    def load_state(self, state: dict[str, Array], held: Array) -> None:
        """Continue from arrays made by `state`; what is held is what is not free."""
        self._rows.copy_(torch.from_numpy(state[f"{self.name}_rows"]))
        numbers = state[f"{self.name}_free"]
        self._count = len(numbers)
        self._numbers[: self._count] = numbers

    def _next_slots(self, count: int) -> Array:
        left = self._count - count
        if left < 0:
            raise IndexError(f"{count} more rows than there is room for: {self._count} slots are free")
        slots = self._numbers[left : self._count][::-1].copy()
        self._count = left
        return slots

    @staticmethod
    def _write(room: Tensor, slots: Array, rows: Array | Tensor) -> None:
        given = rows.to(room) if isinstance(rows, Tensor) else to_device(rows, room.device)
        room.index_copy_(0, to_device(slots, room.device), given)


class FeatureStore(DeviceStore):
    """Feature vectors; slot -1 is the one for what was before an episode.

    With each may go `traces` more vectors of the same size: what there was before it in its episode.
    """

    name = "feature"

    def __init__(self, capacity: int, fill: Tensor, traces: int = 0) -> None:
        super().__init__(capacity, fill.shape, torch.float32, fill.device, extra=1)
        self._rows[-1] = fill
        self._traces = torch.zeros(capacity + 1, traces * len(fill), device=fill.device)

    def add(self, rows: Array | Tensor) -> Array:
        """The slots [B] of features [B, (traces + 1) * F], traces first."""
        size = self._traces.shape[1]
        slots = super().add(rows[:, size:])
        if size:
            self._write(self._traces, slots, rows[:, :size])
        return slots

    def places(self, slots: Array) -> Array:
        """Slots [...] as `at` wants them: numbers from 0 on."""
        return np.where(slots < 0, len(self._rows) - 1, slots)

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
        return super().state() | {"feature_traces": self._traces.cpu().numpy().copy()}

    def load_state(self, state: dict[str, Array], held: Array) -> None:
        """Continue from arrays made by `state`; what is held is what is not free."""
        super().load_state(state, held)
        self._traces.copy_(torch.from_numpy(state["feature_traces"]))


# ---- A replay of raw observations of walks, on the device where they are learned from.

PREVIOUS_AND_CURRENT = 2
"""Observations of a state: what was seen before is known, so that movement can be seen."""


class WalkReplay:
    """The last observations of every environment and the actions between them."""

    def __init__(self, spec: EnvSpec, capacity: int, device: torch.device) -> None:
        kind = torch.from_numpy(np.zeros(0, spec.observation_dtype)).dtype
        # Each environment writes one entry, or two at an episode's end, before it lets go of its oldest.
        room = max(capacity, 2 * spec.env_count) + 2 * spec.env_count
        self._store = DeviceStore(room, spec.observation_shape, kind, device)
        self._replay = SequenceReplay(self._store, capacity, spec.env_count, PREVIOUS_AND_CURRENT)
        self._device = device

    def __len__(self) -> int:
        return len(self._replay)

    def observe(self, transitions: Transitions) -> None:
        """Keep one step of each environment."""
        self._replay.observe(transitions, np.ones(len(transitions.actions), dtype=bool))

    def triplets(self, rng: np.random.Generator, count: int, near: int, far: int) -> Tensor | None:
        """Observations [3, B, ...] of some moments, of others at most `near` decisions from them and of others more
        than `far` from them, in the same episode; None while there are none."""
        longest = Windows(near, far + 1, self._replay.length)
        slots = self._replay.sample_triplets(rng, count, longest)
        return None if slots is None else self._at(slots.T)

    def action_examples(self, rng: np.random.Generator, count: int, ahead: int) -> tuple[Tensor, Array] | None:
        """Previous, current and a later observation [3, B, ...], 1 to `ahead` decisions on in the same episode, and
        the action [B] that was taken at the current one; None while there are none."""
        batch = self._replay.sample_n_step(rng, count, ahead, gamma=1.0)
        if batch is None:
            return None
        until = 1 + rng.integers(batch.weights.sum(1).astype(np.int64))
        first, goals = batch.slots[:, 0], batch.slots[np.arange(count), until, -1]
        previous = np.where(first[:, 0] == FILL, first[:, 1], first[:, 0])  # as if it had stood still
        return self._at(np.stack([previous, first[:, 1], goals])), batch.actions

    def _at(self, slots: Array) -> Tensor:
        return self._store.at(to_device(slots, self._device))

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        return self._replay.state()

    def load_state(self, state: dict[str, Array]) -> None:
        """Continue from arrays made by `state`, in an empty replay."""
        self._replay.load_state(state)
