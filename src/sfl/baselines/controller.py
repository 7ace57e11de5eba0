"""The visual controller: inverse dynamics towards the picture of the goal, without a memory or a plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from sfl.api import GOAL, AgentState, Array, Decision, EnvSpec, Metrics, Observation, Transitions
from sfl.baselines.config import ControllerConfig
from sfl.baselines.networks import (
    PROBABILITY,
    ActionSampler,
    Locomotion,
    Networks,
    PreviousObservations,
    ReachabilityField,
    Retrieval,
)
from sfl.fast.cuda import to_device
from sfl.seeding import generator_state, restore_generator, spawn


class ControllerPolicy(ReachabilityField):
    """Draws actions from L wherever there is a goal, and uniformly elsewhere."""

    def __init__(self, networks: tuple[Retrieval, Locomotion], spec: EnvSpec, rng: np.random.Generator) -> None:
        self.spec, self._rng = spec, rng
        self._retrieval, self._locomotion = networks
        self._views, self._sampler = (
            PreviousObservations(spec, self._locomotion.device),
            ActionSampler(self._locomotion, rng),
        )
        self._goals: dict[int, Tensor] = {}

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """Without a goal the episode is a random walk."""
        self._views.begin(env_index)
        self._goals.pop(env_index, None)
        if goal is not None:
            self._goals[env_index] = to_device(goal, self._locomotion.device)

    def act(self, observations: Array, env_indices: Array) -> Array:
        """One draw per environment."""
        self._sampler.clear()
        actions = self._rng.integers(self.spec.action_count, size=len(env_indices))
        rows = [row for row, env in enumerate(env_indices.tolist()) if env in self._goals]
        if rows:
            seen = self._views.push(observations[rows], env_indices[rows])
            envs = env_indices[rows].tolist()
            goals = torch.stack([self._goals[env] for env in envs])
            actions[rows] = self._sampler.draw(torch.cat([seen, goals.unsqueeze(0)]), envs)
        return actions

    def explain(self, env_index: int) -> Decision:
        """It walks to the goal, or at random."""
        return Decision(target=GOAL if env_index in self._goals else None)

    def action_values(self, env_index: int) -> Decision:
        """`explain` with the probabilities of the actions."""
        return replace(self.explain(env_index), values=self._sampler.probabilities(env_index), values_name=PROBABILITY)


class ControllerAgent(ControllerPolicy):
    """Walks at random and learns R and L from it."""

    def __init__(self, config: ControllerConfig, spec: EnvSpec, seed: int, device: str) -> None:
        self.config = config
        self.networks = Networks(config, spec, seed, torch.device(device))
        both = self.networks.retrieval, self.networks.locomotion
        super().__init__(both, spec, spawn(seed, ["act"])["act"])
        self._observed = 0

    def observe(self, transitions: Transitions) -> None:
        """Keep the step to learn from."""
        self._observed += len(transitions.env_indices)
        self.networks.observe(transitions)

    def update(self) -> Metrics:
        """Learn from what was observed since the last time."""
        new, self._observed = self._observed, 0
        return self.networks.update(new)

    def policy(self, seed: int) -> ControllerPolicy:
        """A frozen copy for evaluation, with a generator of its own."""
        frozen = self.networks.retrieval.snapshot(), self.networks.locomotion.snapshot()
        return ControllerPolicy(frozen, self.spec, spawn(seed, ["policy"])["policy"])

    def state_dict(self) -> AgentState:
        """Everything that going on exactly needs."""
        state = AgentState(generators={"act": generator_state(self._rng)})
        self.networks.write_state(state)
        return state

    def load_state_dict(self, state: AgentState) -> None:
        """Take up a state made by `state_dict`."""
        self.networks.load_state(state)
        restore_generator(self._rng, state.generators["act"])
