"""The first phase of SPTM and SGM: walks whose observations, in their order, are what a graph is made of.

First the recorded walks, then the phase that records them: at random or as Episodic Curiosity explores, while the
networks R and L learn, if they do. Raw observations to learn from are kept by `replay.store.WalkReplay`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from sfl.api import AgentState, Array, EnvSpec, Metrics, Policy, Transitions
from sfl.baselines.config import FillingConfig, WalksConfig
from sfl.baselines.networks import Locomotion, Networks, Retrieval
from sfl.seeding import generator_state, restore_generator, spawn


@dataclass(frozen=True)
class WalkObservations:
    """Observations, walk by walk and in the order of time."""

    observations: Array  # [N, ...]
    walks: Array  # [N] number of the walk, sorted
    origin: Array  # [N] number of the environment step at which each was seen

    def __len__(self) -> int:
        return len(self.walks)


class RecordedWalks:
    """Collects observations of all environments until there are as many decisions as wanted."""

    def __init__(self, config: WalksConfig, spec: EnvSpec) -> None:
        self._config, self._spec = config, spec
        self.decisions = 0
        self._walks = np.arange(spec.env_count)  # the walk that each environment is on
        self._times = np.zeros(spec.env_count, np.int64)  # and its decisions so far
        self._walk_count = spec.env_count
        self._observations: list[Array] = []
        self._rows: list[tuple[int, int, int]] = []  # walk, time, origin

    @property
    def is_full(self) -> bool:
        """Nothing more is remembered."""
        return self.decisions >= self._config.steps

    def __len__(self) -> int:
        return len(self._rows)

    def observe(self, transitions: Transitions) -> None:
        """Remember a step of each environment, if it is its turn and there is room."""
        envs, ended = transitions.env_indices.tolist(), transitions.ended
        for row, env in enumerate(envs):
            if self.is_full:
                return
            if self._times[env] % self._config.every == 0:
                self._observations.append(transitions.observations[row].copy())
                self._rows.append((int(self._walks[env]), int(self._times[env]), self.decisions))
            self._times[env] += 1
            self.decisions += 1
            if ended[row]:
                self._walks[env], self._times[env] = self._walk_count, 0
                self._walk_count += 1

    def sorted(self) -> WalkObservations:
        """All observations, walk by walk."""
        walks, times, origin = np.array(self._rows, np.int64).reshape(-1, 3).T
        order = np.lexsort((times, walks))
        kept = [self._observations[place] for place in order]
        shape, kind = self._spec.observation_shape, self._spec.observation_dtype
        observations = np.stack(kept) if kept else np.zeros((0, *shape), kind)
        return WalkObservations(observations, walks[order], origin[order])

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        shape, kind = self._spec.observation_shape, self._spec.observation_dtype
        seen = np.stack(self._observations) if self._observations else np.zeros((0, *shape), kind)
        return {
            "trail_observations": seen,
            "trail_rows": np.array(self._rows, np.int64).reshape(-1, 3),
            "trail_envs": np.stack([self._walks, self._times]),
            "trail_counts": np.array([self.decisions, self._walk_count]),
        }

    def load_state(self, state: dict[str, Array]) -> None:
        """Take up arrays made by `state`."""
        self._observations = list(state["trail_observations"].copy())
        self._rows = [(int(walk), int(time), int(origin)) for walk, time, origin in state["trail_rows"]]
        self._walks, self._times = state["trail_envs"].copy()
        self.decisions, self._walk_count = (int(number) for number in state["trail_counts"])


class FillingPhase:
    """Walks at random, or as an explorer does, until enough is recorded."""

    def __init__(self, config: FillingConfig, spec: EnvSpec, seed: int, device: str) -> None:
        self._config, self._spec = config, spec
        self.networks = Networks(config, spec, seed, torch.device(device))
        self.rng = spawn(seed, ["act"])["act"]
        self.recorded = RecordedWalks(config.memory, spec)
        self._explorer: Policy | None = None
        self._observed = 0

    def explore_with(self, policy: Policy) -> None:
        """Let another policy than the random walk fill the memory; its state is no part of this one's."""
        self._explorer = policy

    def begin_episode(self, env_index: int) -> None:
        """Walks have no goals."""
        if self._explorer is not None:
            self._explorer.begin_episode(env_index, None)

    def act(self, observations: Array, env_indices: Array) -> Array:
        """At random, or as the explorer does."""
        if self._explorer is not None:
            return self._explorer.act(observations, env_indices)
        return self.rng.integers(self._spec.action_count, size=len(env_indices))

    def observe(self, transitions: Transitions) -> None:
        """Remember, and keep to learn from."""
        self._observed += len(transitions.env_indices)
        self.networks.observe(transitions)
        self.recorded.observe(transitions)

    def learn(self) -> Metrics:
        """The networks' gradient steps that are due."""
        new, self._observed = self._observed, 0
        return self.networks.update(new)

    def snapshot(self) -> tuple[Retrieval, Locomotion]:
        """Copies of both networks that later learning does not change."""
        return self.networks.retrieval.snapshot(), self.networks.locomotion.snapshot()

    def clear(self) -> None:
        """Drop the recorded walks: the graph is made of them."""
        self.recorded = RecordedWalks(self._config.memory, self._spec)

    def write_state(self, state: AgentState, full: bool) -> None:
        """Networks, generator and the recorded walks; `full`: the graph is made, and the walks are dropped."""
        state.generators["act"] = generator_state(self.rng)
        self.networks.write_state(state)
        state.counters |= {"full": full, "remembered": self.recorded.decisions}
        if not full:
            state.replay |= self.recorded.state()

    def load_state(self, state: AgentState) -> bool:
        """Everything that `write_state` wrote. True: act by the state's graph, because it is made or because the state
        is a slim copy, which has no recorded walks to make one of."""
        self.networks.load_state(state)
        restore_generator(self.rng, state.generators["act"])
        if state.counters["full"]:
            return True
        self.recorded.load_state(state.replay)
        return bool(self.recorded.decisions != state.counters["remembered"])
