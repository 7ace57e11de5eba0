"""The time in which a memory fills, as SPTM and SGM spend it: walks, from which the networks learn if they do."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sfl.core.seeding import generator_state, restore_generator, spawn
from sfl.data.types import AgentState, Array, EnvSpec, Metrics, Policy, Transitions
from sfl.learners.locomotion import Locomotion
from sfl.learners.networks import NetworkConfig, Networks
from sfl.learners.retrieval import Retrieval
from sfl.learners.trail import Trail, TrailConfig


@dataclass(frozen=True)
class GatheringConfig(NetworkConfig):
    """Networks, and the walks that fill the memory."""

    updates_per_step: float = 0.0
    """Gradient steps of each network per environment step, until the memory is full; 0 = they stay as they are."""
    memory: TrailConfig = TrailConfig()


class Gathering:
    """Walks at random, or as an explorer does, until the trail is full."""

    def __init__(self, config: GatheringConfig, spec: EnvSpec, seed: int, device: str) -> None:
        self._config, self._spec = config, spec
        self.networks = Networks(config, spec, seed, torch.device(device))
        self.rng = spawn(seed, ["act"])["act"]
        self.trail = Trail(config.memory, spec)
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
        self.trail.observe(transitions)

    def learn(self) -> Metrics:
        """The networks' gradient steps that are due."""
        new, self._observed = self._observed, 0
        return self.networks.update(new)

    def frozen(self) -> tuple[Retrieval, Locomotion]:
        """Copies of both networks that later learning does not change."""
        return self.networks.retrieval.frozen(), self.networks.locomotion.frozen()

    def forget(self) -> None:
        """The graph is made: what it was made of is needed no more."""
        self.trail = Trail(self._config.memory, self._spec)

    def write_state(self, state: AgentState, full: bool) -> None:
        """Networks, generator and the trail; `full`: the graph is made, and the trail forgotten."""
        state.generators["act"] = generator_state(self.rng)
        self.networks.write_state(state)
        state.counters |= {"full": full, "remembered": self.trail.decisions}
        if not full:
            state.replay |= self.trail.state()

    def read_state(self, state: AgentState) -> bool:
        """Everything that `write_state` wrote. True: act by the state's graph, because it is made or because the state
        is a slim copy, which has no trail to make one of."""
        self.networks.read_state(state)
        restore_generator(self.rng, state.generators["act"])
        if state.counters["full"]:
            return True
        self.trail.load_state(state.replay)
        return bool(self.trail.decisions != state.counters["remembered"])
