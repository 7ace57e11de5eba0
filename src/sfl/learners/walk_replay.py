"""A replay of raw observations of walks, on the device where they are learned from."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sfl.data.replay import FILL, SequenceReplay, Windows
from sfl.data.types import Array, EnvSpec, Transitions
from sfl.learners.device import to_device
from sfl.learners.feature_store import FreeSlots

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
