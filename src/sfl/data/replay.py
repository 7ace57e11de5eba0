"""Replay of whole sequences: one ring per environment, in the order of time, never read across an episode's end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfl.data.observations import ObservationTable
from sfl.data.types import Array, Transitions

Validity = Callable[[Array, Array], Array]

NO_ACTION = -1  # marks the last observation of an episode, which no action follows


@dataclass(frozen=True)
class Windows:
    """Where triplets come from, in environment steps (paper: K_p = 2, U_n = 10, L_n = 15)."""

    positive: int
    negative_min: int
    negative_max: int


@dataclass(frozen=True)
class NStepBatch:
    """Slots of the observations of n consecutive steps, and of the state that the return is bootstrapped from."""

    steps: Array  # [B, n] slots; beyond an episode's end they repeat the last and have weight 0
    weights: Array  # [B, n] gamma^k inside the episode, 0 beyond it
    actions: Array  # [B] the first step's action
    bootstrap: Array  # [B] slots
    bootstrap_weights: Array  # [B] gamma^k of the bootstrap state
    multiplicity: Array  # [B] how often each row was drawn; rows are in the order of their actions

    def slots(self) -> Array:
        """[B, n + 1] slots of all its states, the bootstrap state last."""
        return np.concatenate([self.steps, self.bootstrap[:, None]], axis=1)

    def merged(self, power: float = 1.0) -> NStepBatch:
        """Equal rows of one-step batches drawn into one: a mean weighted by multiplicity is the same mean.

        A power below 1 gives rare transitions more weight than their share.
        """
        size = int(max(self.steps.max(), self.bootstrap.max())) + 1
        keys = (self.actions * size + self.steps[:, 0]) * size + self.bootstrap
        _, rows, counts = np.unique(keys, return_index=True, return_counts=True)
        return NStepBatch(
            self.steps[rows],
            self.weights[rows],
            self.actions[rows],
            self.bootstrap[rows],
            self.bootstrap_weights[rows],
            (counts**power).astype(np.float32),
        )


class SequenceReplay:
    """Observation slots, actions and the flag "chosen by the random policy" of the last `capacity` steps."""

    def __init__(self, table: ObservationTable, capacity: int, env_count: int) -> None:
        self.table = table
        self.length = max(2, capacity // env_count)
        size = (env_count, self.length)
        self._slots = np.full(size, -1, dtype=np.int64)
        self._actions = np.full(size, NO_ACTION, dtype=np.int64)
        self._random = np.zeros(size, dtype=bool)
        self._first = np.zeros(size, dtype=np.int64)  # position of the first entry of the entry's episode
        self._last = np.zeros(size, dtype=np.int64)  # position of its last entry; -1 while the episode goes on
        self._head = np.zeros(env_count, dtype=np.int64)  # entries ever written, per environment
        self._episode_first = np.zeros(env_count, dtype=np.int64)

    def __len__(self) -> int:
        return int(np.minimum(self._head, self.length).sum())

    def add(self, transitions: Transitions, random: Array) -> None:
        """Store one step of each environment; an episode's last observation gets an entry of its own."""
        for row, env in enumerate(transitions.env_indices.tolist()):
            self._append(env, transitions.observations[row], int(transitions.actions[row]), bool(random[row]))
            if transitions.terminated[row] or transitions.truncated[row]:
                self._append(env, transitions.next_observations[row], NO_ACTION, False)
                self._close_episode(env)

    def sample_n_step(
        self, rng: np.random.Generator, batch: int, n: int, gamma: float, random_only: bool = True
    ) -> NStepBatch | None:
        """Steps whose n actions were all drawn from the random policy; None while there is none."""
        found = self._draw(rng, batch, lambda envs, at: self._n_step_valid(envs, at, n, random_only))
        if found is None:
            return None
        order = np.argsort(self._actions[found[0], found[1] % self.length], kind="stable")
        envs, at = found[0][order], found[1][order]
        offsets = np.arange(n)
        end = self._end(envs, at)
        inside = at[:, None] + offsets < end[:, None]
        steps = np.minimum(at[:, None] + offsets, end[:, None])
        reach = np.minimum(at + n, end)
        return NStepBatch(
            steps=self._slots[envs[:, None], steps % self.length],
            weights=np.where(inside, gamma**offsets, 0.0).astype(np.float32),
            actions=self._actions[envs, at % self.length],
            bootstrap=self._slots[envs, reach % self.length],
            bootstrap_weights=(gamma ** (reach - at)).astype(np.float32),
            multiplicity=np.ones(batch, dtype=np.float32),
        )

    def sample_triplets(self, rng: np.random.Generator, batch: int, windows: Windows) -> Array | None:
        """Slots [B, 3] of anchor, positive and negative of the same episode; None while there is none."""
        found = self._draw(rng, batch, lambda envs, at: self._negative_counts(envs, at, windows).sum(0) > 0)
        if found is None:
            return None
        envs, at = found
        low, high = self._start(envs, at), self._end(envs, at)
        positive_low = np.maximum(at - windows.positive, low)
        positive_high = np.minimum(at + windows.positive, high)
        positive = rng.integers(positive_low, positive_high + 1)
        before, after = self._negative_counts(envs, at, windows)
        draw = rng.integers(0, before + after)
        # The windows before and after the anchor form one list: the first `before` draws fall into the past.
        negative = np.where(draw < before, at - windows.negative_min - draw, at + windows.negative_min + draw - before)
        places = np.stack([at, positive, negative], axis=1)
        return np.asarray(self._slots[envs[:, None], places % self.length])

    def state(self) -> dict[str, Array]:
        """Plain arrays; observations are written out once each."""
        return {
            **self.table.state(),
            "slots": self._slots,
            "actions": self._actions,
            "random": self._random,
            "first": self._first,
            "last": self._last,
            "head": self._head,
            "episode_first": self._episode_first,
        }

    def load_state(self, state: dict[str, Array]) -> None:
        """Take up arrays made by `state` into an empty replay."""
        self._actions[:], self._random[:] = state["actions"], state["random"]
        self._first[:], self._last[:] = state["first"], state["last"]
        self._head[:], self._episode_first[:] = state["head"], state["episode_first"]
        self._slots[:] = state["slots"]
        self.table.load_state(state, self._slots[self._slots >= 0])

    def _append(self, env: int, observation: Array, action: int, random: bool) -> None:
        place = self._head[env] % self.length
        old = int(self._slots[env, place])
        self._slots[env, place] = self.table.hold(observation)
        if old >= 0:
            self.table.release(old)
        self._actions[env, place] = action
        self._random[env, place] = random
        self._first[env, place] = self._episode_first[env]
        self._last[env, place] = -1
        self._head[env] += 1

    def _close_episode(self, env: int) -> None:
        last = int(self._head[env]) - 1
        first = max(int(self._episode_first[env]), last - self.length + 1)
        self._last[env, np.arange(first, last + 1) % self.length] = last
        self._episode_first[env] = last + 1

    def _start(self, envs: Array, at: Array) -> Array:
        """First position of the episode that is still stored."""
        return np.asarray(np.maximum(self._first[envs, at % self.length], self._head[envs] - self.length))

    def _end(self, envs: Array, at: Array) -> Array:
        """Last position of the episode that is stored."""
        last = self._last[envs, at % self.length]
        return np.where(last < 0, self._head[envs] - 1, last)

    def _n_step_valid(self, envs: Array, at: Array, n: int, random_only: bool) -> Array:
        end = self._end(envs, at)
        going_on = self._last[envs, at % self.length] < 0
        valid = (at < end) & (~going_on | (at + n <= end))
        if random_only:
            for offset in range(n):
                inside = at + offset < end
                valid &= ~inside | self._random[envs, (at + offset) % self.length]
        return np.asarray(valid)

    def _negative_counts(self, envs: Array, at: Array, windows: Windows) -> Array:
        """[2, B]: how many valid negatives lie before and after each anchor."""
        width = windows.negative_max - windows.negative_min + 1
        before = np.clip(at - windows.negative_min - self._start(envs, at) + 1, 0, width)
        after = np.clip(self._end(envs, at) - at - windows.negative_min + 1, 0, width)
        return np.stack([before, after])

    def _draw(
        self, rng: np.random.Generator, batch: int, valid: Validity, tries: int = 20
    ) -> tuple[Array, Array] | None:
        """Uniform draws from the stored entries, rejected until `batch` valid ones are found."""
        stored = np.minimum(self._head, self.length)
        if stored.sum() == 0:
            return None
        bounds = np.cumsum(stored)
        picked_envs, picked_at, missing = [], [], batch
        for _ in range(tries):
            flat = rng.integers(bounds[-1], size=2 * batch)
            envs = np.searchsorted(bounds, flat, side="right")
            at = self._head[envs] - 1 - (flat - (bounds[envs] - stored[envs]))
            keep = np.flatnonzero(valid(envs, at))[:missing]
            picked_envs.append(envs[keep])
            picked_at.append(at[keep])
            missing -= len(keep)
            if missing == 0:
                return np.concatenate(picked_envs), np.concatenate(picked_at)
        return None
