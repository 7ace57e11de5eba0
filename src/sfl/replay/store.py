"""Distinct observations, each kept once.

A gridworld's replay buffer of twenty thousand steps holds a few hundred distinct observations. Keeping each once saves
memory, and lets the learners encode each once per batch, which gives the same numbers.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sfl.api import Array, EnvSpec, Observation, Transitions
from sfl.fast.cuda import to_device
from sfl.fast.windows import WindowTable
from sfl.replay.replay import FILL, SequenceReplay, Windows


class ObservationTable:
    """Observations by slot, counted by reference; a slot nobody refers to is used again."""

    def __init__(self, shape: tuple[int, ...], dtype: str, windows: WindowTable | None = None) -> None:
        self.windows = windows
        self._rows = np.zeros((64, *shape), dtype=dtype)
        self._references = np.zeros(64, dtype=np.int64)
        self._slots: dict[bytes, int] = {}
        self._free = list(range(63, -1, -1))
        self._written: list[int] = []

    def __len__(self) -> int:
        return len(self._slots)

    def hold(self, observation: Observation) -> int:
        """The slot of an observation, with one reference more."""
        key = observation.tobytes()
        slot = self._slots.get(key)
        if slot is None:
            slot = self._take_slot()
            self._slots[key] = slot
            self._rows[slot] = observation
            self._written.append(slot)
            if self.windows is not None:
                self.windows.set(slot, self._rows[slot])
        self._references[slot] += 1
        return slot

    def release(self, slot: int) -> None:
        """Drop one reference; the last one frees the slot."""
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
        """Take up arrays made by `state`; `held` lists the slot of every reference."""
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
        """Raise when the table contradicts itself."""
        held = np.flatnonzero(self._references)
        if sorted(self._slots.values()) != held.tolist() or set(self._free) & set(held.tolist()):
            raise AssertionError("observation table: slots and reference counts disagree")

    def _take_slot(self) -> int:
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


# ---- Features of frames under numbers, on the device where they are learned from.


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


# ---- A replay of raw observations of walks, on the device where they are learned from.

PREVIOUS_AND_CURRENT = 2
"""Observations of a state: what was seen before is known, so that movement can be seen."""


class ObservationStore:
    """Observations under numbers, as they came; each is referred to once."""

    def __init__(self, capacity: int, spec: EnvSpec, device: torch.device) -> None:
        kind = torch.from_numpy(np.zeros(0, spec.observation_dtype)).dtype
        self._rows = torch.zeros(capacity, *spec.observation_shape, dtype=kind, device=device)
        self._free = FreeSlots(capacity)

    def hold(self, observation: Array) -> int:
        """The slot of one observation."""
        return int(self.hold_rows(observation[None])[0])

    def hold_rows(self, observations: Array) -> Array:
        """The slots [B] of observations [B, ...]."""
        slots = self._free.take(len(observations))
        device = self._rows.device
        self._rows.index_copy_(0, to_device(slots, device), to_device(observations, device))
        return slots

    def release(self, slot: int) -> None:
        """The slot may be used again."""
        self.release_rows(np.array([slot]))

    def release_rows(self, slots: Array) -> None:
        """The slots [B] may be used again."""
        self._free.give_back(slots)

    def at(self, slots: Array) -> Tensor:
        """Observations [..., *shape] in slots [...]."""
        places = to_device(slots, self._rows.device)
        observations: Tensor = self._rows.index_select(0, places.flatten()).unflatten(0, places.shape)
        return observations

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        return {"observation_rows": self._rows.cpu().numpy().copy(), "observation_free": self._free.numbers()}

    def load_state(self, state: dict[str, Array], held: Array) -> None:
        """Take up arrays made by `state`; what is held is what is not free."""
        self._rows.copy_(torch.from_numpy(state["observation_rows"]))
        self._free.set(state["observation_free"])


class WalkReplay:
    """The last observations of every environment and the actions between them."""

    def __init__(self, spec: EnvSpec, capacity: int, device: torch.device) -> None:
        # Each environment writes one entry, or two at an episode's end, before it lets go of its oldest.
        self._store = ObservationStore(max(capacity, 2 * spec.env_count) + 2 * spec.env_count, spec, device)
        self._replay = SequenceReplay(self._store, capacity, spec.env_count, PREVIOUS_AND_CURRENT)

    def __len__(self) -> int:
        return len(self._replay)

    def observe(self, transitions: Transitions) -> None:
        """Keep one step of each environment."""
        envs = transitions.env_indices
        slots = self._store.hold_rows(transitions.observations)
        every = np.ones(len(envs), dtype=bool)
        self._store.release_rows(self._replay.append_rows(envs, slots, transitions.actions, every))
        ended = np.flatnonzero(transitions.ended)
        if len(ended):
            last = self._store.hold_rows(transitions.next_observations[ended])
            self._replay.close_rows(envs[ended], last)

    def triplets(self, rng: np.random.Generator, count: int, near: int, far: int) -> Tensor | None:
        """Observations [3, B, ...] of some moments, of others at most `near` decisions from them and of others more
        than `far` from them, in the same episode; None while there are none."""
        longest = Windows(near, far + 1, self._replay.length)
        slots = self._replay.sample_triplets(rng, count, longest)
        return None if slots is None else self._store.at(slots.T)

    def chases(self, rng: np.random.Generator, count: int, ahead: int) -> tuple[Tensor, Array] | None:
        """Previous, current and a later observation [3, B, ...], 1 to `ahead` decisions on in the same episode, and
        the action [B] that was taken at the current one; None while there are none."""
        batch = self._replay.sample_n_step(rng, count, ahead, gamma=1.0)
        if batch is None:
            return None
        until = 1 + rng.integers(batch.weights.sum(1).astype(np.int64))
        first, goals = batch.slots[:, 0], batch.slots[np.arange(count), until, -1]
        previous = np.where(first[:, 0] == FILL, first[:, 1], first[:, 0])  # as if it had stood still
        return self._store.at(np.stack([previous, first[:, 1], goals])), batch.actions

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        return self._replay.state()

    def load_state(self, state: dict[str, Array]) -> None:
        """Take up arrays made by `state` into an empty replay."""
        self._replay.load_state(state)
