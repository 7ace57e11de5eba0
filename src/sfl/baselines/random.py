"""The uniform random policy: the yardstick of every table."""

from __future__ import annotations

from dataclasses import dataclass

from sfl.api import AgentState, Array, Decision, EnvSpec, Metrics, Observation, Transitions
from sfl.seeding import generator_state, restore_generator, spawn


@dataclass(frozen=True)
class RandomConfig:
    """Nothing to choose."""


class RandomAgent:
    """Every action with the same probability, whatever is seen."""

    def __init__(self, config: RandomConfig, spec: EnvSpec, seed: int, device: str = "cpu") -> None:
        self.config, self.spec = config, spec
        self._rng = spawn(seed, ["act"])["act"]

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """Goals make no difference."""

    def act(self, observations: Array, env_indices: Array) -> Array:
        """One uniform draw per environment."""
        return self._rng.integers(self.spec.action_count, size=len(env_indices))

    def explain(self, env_index: int) -> Decision:
        """There is nothing behind a random action."""
        return Decision()

    def observe(self, transitions: Transitions) -> None:
        """Experience makes no difference."""

    def update(self) -> Metrics:
        """Nothing to learn."""
        return {}

    def policy(self, seed: int) -> RandomAgent:
        """A fresh random policy."""
        return RandomAgent(self.config, self.spec, seed)

    def state_dict(self) -> AgentState:
        """The generator is all there is."""
        return AgentState(generators={"act": generator_state(self._rng)})

    def load_state_dict(self, state: AgentState) -> None:
        """Go on from the saved generator."""
        restore_generator(self._rng, state.generators["act"])
