"""Replay of whole sequences: one ring per environment, in the order of time, never read across an episode's end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from sfl.api import Array, Transitions

Validity = Callable[[Array, Array], Array]
"""Whether entries may be drawn, given their environments and positions."""

NO_ACTION = -1  # marks the last observation of an episode, which no action follows
FILL = -1  # stands in a stack for what was before the episode


class Store(Protocol):
    """Keeps what was observed under numbers, its slots (`sfl.replay.store`); the replay keeps the numbers."""

    def add(self, rows: Any) -> Array:
        """The slots [B] of rows [B, ...], each with one reference more."""

    def free(self, slots: Array) -> None:
        """One reference less to each of the slots [B]; a slot without any is used again."""

    def state(self) -> dict[str, Array]:
        """Plain arrays."""

    def load_state(self, state: dict[str, Array], held: Array) -> None:
        """Continue from arrays made by `state`; `held` lists the slot of every reference."""


@dataclass(frozen=True)
class Windows:
    """Where triplets come from, in environment steps (paper: K_p = 2, U_n = 10, L_n = 15)."""

    positive: int
    negative_min: int
    negative_max: int


@dataclass(frozen=True)
class Entries:
    """Entries of the replay: positions in time, and what is still stored of their episodes."""

    envs: Array  # [N]
    at: Array  # [N] positions, counted from the first entry ever written
    low: Array  # [N] first position of the episode
    high: Array  # [N] last position of the episode


@dataclass(frozen=True)
class Beginnings:
    """For each entry whether a window may begin there, found when `heads` entries had been written."""

    flags: Array  # [size]
    heads: Array  # [E]


@dataclass(frozen=True)
class NStepBatch:
    """Slots of the observations of n consecutive steps, and of the state that the return is bootstrapped from."""

    slots: Array  # [B, n + 1] ([B, n + 1, stack] of stacks); beyond an episode's end they repeat its last state
    weights: Array  # [B, n] gamma^k inside the episode, 0 beyond it
    actions: Array  # [B] the first step's action
    bootstrap_weights: Array  # [B] gamma^k of the bootstrap state
    multiplicity: Array  # [B] how often each row was drawn

    @property
    def steps(self) -> Array:
        """Slots [B, n] of the states of the steps, or [B, n, stack]."""
        return self.slots[:, :-1]

    @property
    def bootstrap(self) -> Array:
        """Slots [B] of the states that the returns are bootstrapped from, or [B, stack]."""
        return self.slots[:, -1]

    def merged(self, power: float = 1.0) -> NStepBatch:
        """Equal rows of one-step batches drawn into one: a mean weighted by multiplicity is the same mean.

        A power below 1 gives rare transitions more weight than their share.
        """
        size = int(self.slots.max()) + 1
        keys = (self.actions * size + self.steps[:, 0]) * size + self.bootstrap
        _, rows, counts = np.unique(keys, return_index=True, return_counts=True)
        return replace(self._take(rows), multiplicity=(counts**power).astype(np.float32))

    def _take(self, rows: Array) -> NStepBatch:
        return NStepBatch(
            self.slots[rows],
            self.weights[rows],
            self.actions[rows],
            self.bootstrap_weights[rows],
            self.multiplicity[rows],
        )


class SequenceReplay:
    """Observation slots, actions and the flag "chosen by the random policy" of the last `capacity` steps.

    With a `stack` above 1 a state is made of that many entries, the newest last; before an episode's first entry it is
    filled up with slot `FILL`.
    """

    def __init__(self, store: Store, capacity: int, env_count: int, stack: int = 1) -> None:
        self.store, self.stack = store, stack
        self.length = max(2, capacity // env_count)
        size = env_count * self.length  # one ring after the other
        self._slots = np.full(size, -1, dtype=np.int64)
        self._actions = np.full(size, NO_ACTION, dtype=np.int64)
        self._random = np.zeros(size, dtype=bool)
        self._first = np.zeros(size, dtype=np.int64)  # position of the first entry of the entry's episode
        self._last = np.zeros(size, dtype=np.int64)  # position of its last entry; -1 while the episode goes on
        self._head = np.zeros(env_count, dtype=np.int64)  # entries ever written, per environment
        self._episode_first = np.zeros(env_count, dtype=np.int64)
        self._beginnings: dict[tuple[int, bool], Beginnings] = {}  # for each n, and random steps only or all

    def __len__(self) -> int:
        return int(np.minimum(self._head, self.length).sum())

    def observe(self, transitions: Transitions, random: Array) -> None:
        """Store one step of each of several environments [B], and the last observations of episodes that ended; for
        stores of raw observations."""
        envs, ended = transitions.env_indices, np.flatnonzero(transitions.ended)
        self.add(envs, transitions.observations, transitions.actions, random)
        if len(ended):
            self.end(envs[ended], transitions.next_observations[ended])

    def add(self, envs: Array, rows: Any, actions: Array, random: Array) -> None:
        """Store one step of each of several environments [B]: what the store keeps of its observation [B, ...], the
        action [B] and whether the random policy chose it [B]."""
        heads = self._head[envs]
        places = self._place(envs, heads)
        old, self._slots[places] = self._slots[places], self.store.add(rows)
        self._actions[places], self._random[places] = actions, random
        self._first[places], self._last[places] = self._episode_first[envs], -1
        self._head[envs] = heads + 1
        self.store.free(old[old >= 0])

    def end(self, envs: Array, rows: Any) -> None:
        """Store the last observations [B, ...] of episodes of environments [B], which no action follows."""
        self.add(envs, rows, np.full(len(envs), NO_ACTION), np.zeros(len(envs), bool))
        for env in envs.tolist():
            last = int(self._head[env]) - 1
            first = max(int(self._episode_first[env]), last - self.length + 1)
            self._last[env * self.length + np.arange(first, last + 1) % self.length] = last
            self._episode_first[env] = last + 1

    def sample_n_step(
        self, rng: np.random.Generator, batch: int, n: int, gamma: float, random_only: bool = True
    ) -> NStepBatch | None:
        """Steps whose n actions were all drawn from the random policy; None while there is none."""
        flags = self._begins(n, random_only)
        found = self._draw(rng, batch, lambda envs, at: np.asarray(flags[self._place(envs, at)]))
        if found is None:
            return None
        inside = np.minimum(found.high - found.at, n)  # [B] steps before the episode ends
        powers = (gamma ** np.arange(n + 1)).astype(np.float32)
        return NStepBatch(
            slots=self._states(found, n, inside),
            weights=np.where(np.arange(n) < np.arange(n + 1)[:, None], powers[:n], np.float32(0))[inside],
            actions=self._actions[self._place(found.envs, found.at)],
            bootstrap_weights=powers[inside],
            multiplicity=np.ones(batch, dtype=np.float32),
        )

    def sample_triplets(self, rng: np.random.Generator, batch: int, windows: Windows) -> Array | None:
        """Slots [B, 3] of anchor, positive and negative of the same episode; None while there is none."""
        found = self._draw(rng, batch, lambda *where: _has_negative(self._entries(*where), windows.negative_min))
        if found is None:
            return None
        at = found.at
        positive_low = np.maximum(at - windows.positive, found.low)
        positive_high = np.minimum(at + windows.positive, found.high)
        positive = rng.integers(positive_low, positive_high + 1)
        before, after = _negative_counts(found, windows)
        draw = rng.integers(0, before + after)
        # The windows before and after the anchor form one list: the first `before` draws fall into the past.
        negative = np.where(draw < before, at - windows.negative_min - draw, at + windows.negative_min + draw - before)
        places = np.stack([at, positive, negative], axis=1)
        return np.asarray(self._slots[self._place(found.envs[:, None], places)])

    def draw_steps(self, rng: np.random.Generator, batch: int) -> Entries | None:
        """Uniform draws of steps, by the random policy or not; None while there is none."""
        flags = self._begins(1, random_only=False)
        return self._draw(rng, batch, lambda envs, at: np.asarray(flags[self._place(envs, at)]))

    def states_from(self, entries: Entries, n: int) -> Array:
        """Slots [B, n + 1] of the states of entries and of the n after each, all of its episode, or with a stack."""
        return self._states(entries, n, np.full(len(entries.at), n))

    def actions_at(self, places: Array) -> Array:
        """What was done at entries, given where they lie."""
        return np.asarray(self._actions[places])

    def places_of(self, envs: Array, at: Array) -> Array:
        """Where positions lie, below `size`: a reader's own notes on entries go by this number."""
        return self._place(envs, at)

    def upcoming(self, envs: Array, ahead: int = 0) -> Array:
        """Where the next entries of environments will lie, or those `ahead` of them."""
        return self._place(envs, self._head[envs] + ahead)

    @property
    def size(self) -> int:
        """Entries that there is room for."""
        return len(self._slots)

    def state(self) -> dict[str, Array]:
        """Plain arrays; observations are written out once each."""
        return {
            **self.store.state(),
            "slots": self._slots,
            "actions": self._actions,
            "random": self._random,
            "first": self._first,
            "last": self._last,
            "head": self._head,
            "episode_first": self._episode_first,
        }

    def load_state(self, state: dict[str, Array]) -> None:
        """Continue from arrays made by `state`, in an empty replay."""
        self._actions[:], self._random[:] = state["actions"], state["random"]
        self._first[:], self._last[:] = state["first"], state["last"]
        self._head[:], self._episode_first[:] = state["head"], state["episode_first"]
        self._slots[:] = state["slots"]
        self._beginnings.clear()
        self.store.load_state(state, self._slots[self._slots >= 0])

    def _states(self, entries: Entries, n: int, inside: Array) -> Array:
        """Slots [B, n + 1] from the entries on, or [B, n + 1, stack] of stacks; after `inside` steps they repeat."""
        envs, at, back = entries.envs, entries.at, self.stack - 1
        offsets, stacks = np.arange(n + 1), np.arange(-back, 1)
        if self.stack == 1:
            steps = at[:, None] + np.minimum(offsets, inside[:, None])
            return np.asarray(self._slots[self._place(envs[:, None], steps)])
        ring = at % self.length
        places = (envs * self.length + ring)[:, None, None] + (offsets[:, None] + stacks)
        slots = np.asarray(self._slots.take(places, mode="clip"))
        # Few windows pass their ring's end or a border of their episode; for those that was only a guess.
        odd = np.flatnonzero((ring < back) | (ring + n >= self.length) | (at - back < entries.low) | (inside < n))
        steps = at[odd, None] + np.minimum(offsets, inside[odd, None])
        exact = steps[:, :, None] + stacks
        found = self._slots[self._place(envs[odd, None, None], exact)]
        slots[odd] = np.where(exact < entries.low[odd, None, None], FILL, found)
        return slots

    def _place(self, envs: Array, at: Array) -> Array:
        """Where positions lie in the rings."""
        return np.asarray(envs * self.length + at % self.length)

    def _entries(self, envs: Array, at: Array) -> Entries:
        place, heads = self._place(envs, at), self._head[envs]
        last = self._last[place]
        low = np.maximum(self._first[place], heads - self.length)
        return Entries(envs, at, low, np.where(last < 0, heads - 1, last))

    def _begins(self, n: int, random_only: bool) -> Array:
        """For each entry whether it may be the first of n steps; looks at what has changed since it was last asked."""
        if n == 1 and self.stack == 1 and random_only:  # nothing worth remembering: all random steps but the newest
            flags = self._random.copy()
            flags[self._place(np.arange(len(self._head)), self._head - 1)] = False
            return flags
        key = (n, random_only)
        if key not in self._beginnings:
            self._beginnings[key] = Beginnings(np.zeros(len(self._slots), dtype=bool), np.zeros_like(self._head))
        known = self._beginnings[key]
        envs = np.flatnonzero(known.heads != self._head)
        if len(envs):
            self._look_on(known, envs[:, None], n, random_only)
            known.heads[:] = self._head
        return known.flags

    def _look_on(self, known: Beginnings, envs: Array, n: int, random_only: bool) -> None:
        """Find the beginnings among new entries of environments [E, 1] and the n before them; the rest is known.

        The episode must go on after the entry, by n steps unless it ended, all random; its whole stack is stored.
        """
        heads = self._head[envs]
        oldest = np.maximum(heads - self.length, 0)
        first = np.maximum(known.heads[envs] - n, oldest)
        at = np.minimum(first + np.arange((heads - first).max()), heads - 1)  # [E, W]
        places = self._place(envs, at)
        last, goes_on = self._last[places], self._random[places] if random_only else self._actions[places] != NO_ACTION
        stops = np.where(goes_on, heads - 1, at)  # no window passes an episode's last entry, nor the newest one
        stops = np.minimum.accumulate(stops[:, ::-1], axis=1)[:, ::-1]
        known.flags[places] = (stops >= at + n) | ((stops == last) & (at < last))
        if self.stack > 1:
            tail = self._place(envs, oldest + np.arange(min(self.stack, self.length) - 1))
            known.flags[tail[self._first[tail] < oldest]] = False  # the ring has reached into their stacks

    def _draw(self, rng: np.random.Generator, batch: int, valid: Validity, tries: int = 20) -> Entries | None:
        """Uniform draws from the stored entries, rejected until `batch` valid ones are found."""
        stored = np.minimum(self._head, self.length)
        bounds = np.cumsum(stored)
        if bounds[-1] == 0:
            return None
        newest = self._head - 1 + bounds - stored
        parts_of = _parts(bounds, int(stored.min()))
        picked, missing = [], batch
        for _ in range(tries):
            flat = rng.integers(bounds[-1], size=2 * batch)
            envs = parts_of(flat)
            at = newest[envs] - flat
            rows = np.flatnonzero(valid(envs, at))[:missing]
            picked.append((envs[rows], at[rows]))
            missing -= len(rows)
            if missing == 0:
                columns = picked[0] if len(picked) == 1 else map(np.concatenate, zip(*picked, strict=True))
                return self._entries(*columns)
        return None


def _parts(bounds: Array, smallest: int) -> Callable[[Array], Array]:
    """A function from numbers below bounds[-1] to the part they lie in, which ends before its bound."""
    count, total = len(bounds), int(bounds[-1])
    if smallest * count == total:
        return lambda numbers: np.asarray(numbers // smallest)
    if count <= 8 or smallest * count * 8 < total:
        return lambda numbers: np.searchsorted(bounds, numbers, side="right")
    # Parts of similar size need no search: in a piece as long as the smallest at most one of them ends.
    begins = np.searchsorted(bounds, np.arange(0, total, smallest), side="right")  # where pieces begin

    def parts_of(numbers: Array) -> Array:
        parts = begins[numbers // smallest]
        return np.asarray(parts + (numbers >= bounds[parts]))

    return parts_of


def _has_negative(entries: Entries, distance: int) -> Array:
    """Whether the episode reaches at least this far before or after the entry."""
    return np.asarray((entries.at - distance >= entries.low) | (entries.at + distance <= entries.high))


def _negative_counts(entries: Entries, windows: Windows) -> tuple[Array, Array]:
    """[B] each: how many valid negatives lie before and after each anchor."""
    width = windows.negative_max - windows.negative_min + 1
    before = np.minimum(np.maximum(entries.at - windows.negative_min - entries.low + 1, 0), width)
    after = np.minimum(np.maximum(entries.high - entries.at - windows.negative_min + 1, 0), width)
    return before, after
