"""Episodic Curiosity (Savinov et al., 2019): PPO, paid for observations that the episode has not come near yet.

In this order: the memory of an episode with the bonus, alpha (beta - F(c_1, ..., c_M)), where c_i is the chance by R
that an observation is near member i and F a percentile; the explorer that is left for SPTM and SGM; the agent.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from sfl.api import AgentState, Array, Decision, EnvSpec, Metrics, Observation, Transitions
from sfl.baselines.config import BonusConfig, ECConfig
from sfl.baselines.networks import FixedCodes, Networks
from sfl.baselines.ppo import PPO, ActorCritic, Rollouts, action_probabilities, decide
from sfl.fast.cuda import Fetched, to_device
from sfl.seeding import generator_state, restore_generator, spawn

Compare = Callable[[Tensor, Tensor], Tensor]
"""Chance [B, N] that observations with features [B, F] are a few decisions from others with [B, N, F]."""


class EpisodicMemory:
    """The memories of all environments side by side on the device, so that a decision of all is one call."""

    def __init__(self, config: BonusConfig, env_count: int, dim: int, device: torch.device) -> None:
        self.config, self._device = config, device
        self._rows = torch.zeros(env_count, config.capacity, dim, device=device)
        self._counts = torch.zeros(env_count, dtype=torch.int64, device=device)  # ever added in the episode
        self._added = np.zeros(env_count, np.int64)  # the same as far as the host knows

    def clear(self, env_index: int) -> None:
        """An episode of this environment starts."""
        self._counts[env_index] = 0
        self._added[env_index] = 0

    def visit(self, env_indices: Array, features: Tensor, compare: Compare) -> tuple[Tensor, Tensor]:
        """See observations with features [B, F]: what they earn before scaling, [B], and how many were added, [B].

        What is new enough is remembered. The counts are for `counts_arrived`, with which they come back to the host.
        """
        config, places = self.config, to_device(env_indices, self._device)
        # Only as wide as the fullest memory: most are far from full, and each member costs a pass of the head.
        width = max(1, int(min(self._added[env_indices].max(), config.capacity)))
        counts = self._counts[places]
        similarities = compare(features, self._rows[places, :width])
        earned = config.shift - percentile(similarities, counts.clamp_max(config.capacity), config.percentile)
        novel = earned > config.novelty_threshold
        slots = counts % config.capacity
        kept = torch.where(novel.unsqueeze(1), features, self._rows[places, slots])
        self._rows.index_put_((places, slots), kept)
        counts = counts + novel
        self._counts.index_copy_(0, places, counts)
        return earned, counts

    def counts_arrived(self, env_indices: Array, counts: Array) -> None:
        """The counts [B] of the last visit have arrived on the host."""
        self._added[env_indices] = counts

    @property
    def sizes(self) -> Array:
        """[E] how many observations each memory holds."""
        return np.minimum(self._added, self.config.capacity)

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        return {"memory.rows": self._rows.cpu().numpy().copy(), "memory.counts": self._counts.cpu().numpy().copy()}

    def load_state(self, arrays: dict[str, Array]) -> None:
        """Take up arrays made by `state`."""
        self._rows.copy_(torch.from_numpy(arrays["memory.rows"]))
        self._counts.copy_(torch.from_numpy(arrays["memory.counts"]))
        self._added = arrays["memory.counts"].copy()


def percentile(values: Tensor, counts: Tensor, share: float) -> Tensor:
    """The percentile [B] of the first `counts` [B] of values [B, N], with linear interpolation; 0 of none."""
    outside = torch.arange(values.shape[1], device=values.device) >= counts.unsqueeze(1)
    ordered = values.masked_fill(outside, torch.inf).sort(1).values
    place = (share / 100.0) * (counts - 1).clamp_min(0)
    low, high = place.floor().long(), place.ceil().long()
    below, above = (ordered.gather(1, rank.unsqueeze(1)).squeeze(1) for rank in (low, high))
    # Equal ranks are told apart: the difference of two infinities would be no number.
    between = torch.where(low == high, below, below + (place - low) * (above - below))
    return torch.where(counts > 0, between, 0.0)


class ExplorerPolicy:
    """The actor with a generator of its own: all that is left of the agent when nothing is to be learned."""

    def __init__(self, network: ActorCritic, rng: np.random.Generator, device: torch.device) -> None:
        self._network, self.rng, self._device = network, rng, device
        self._last: tuple[Tensor, list[int]] | None = None  # observations of the last call, and their environments

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """It explores, whatever the goal, and by what it sees now alone."""

    @torch.no_grad()
    def act(self, observations: Array, env_indices: Array) -> Array:
        """One draw from the policy for each environment."""
        draws = to_device(self.rng.random(len(env_indices)), self._device)
        pixels = to_device(observations, self._device)
        self._last = pixels, env_indices.tolist()
        return np.asarray(Fetched(decide(self._network, pixels, draws).actions).wait().numpy())

    def explain(self, env_index: int) -> Decision:
        """It follows no route."""
        return Decision()

    def action_values(self, env_index: int) -> Decision:
        """`explain` with the probabilities of the actions."""
        if self._last is None or env_index not in self._last[1]:
            return self.explain(env_index)
        probabilities = action_probabilities(self._network, self._last[0])[self._last[1].index(env_index)]
        return Decision(values=tuple(probabilities.tolist()), values_name="probability")


class EpisodicCuriosityAgent:
    """Acts, remembers and compares for all environments at once; the bonus of a step is known at the next one."""

    def __init__(self, config: ECConfig, spec: EnvSpec, seed: int, device: str) -> None:
        self.config, self.spec, self._device = config, spec, torch.device(device)
        self._rng = spawn(seed, ["act"])["act"]
        self.networks = Networks(config, spec, seed, self._device)
        self._codes = FixedCodes(self.networks.retrieval)
        self._ppo = PPO(config.ppo, spec, seed, self._device)
        self._memory = EpisodicMemory(config.bonus, spec.env_count, self.networks.retrieval.dim, self._device)
        shape, kind = self._ppo.network.seen_shape, spec.observation_dtype
        self._rollouts = Rollouts(config.ppo.horizon, spec.env_count, shape, kind, self._device)
        self.env_steps = self._observed = 0
        self._unlearned = 0  # environment steps since R and L were last trained
        self._earned, self._visits = 0.0, 0

    @property
    def _curious(self) -> bool:
        """R has learned something; before that its answers are worth nothing."""
        return bool(self.config.networks) or self.networks.retrieval.gradient_steps > 0

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """The memory is that of an episode."""
        env = np.array([env_index])
        if self._rollouts.awaits_reward(env).any():  # broken off: what came of the last decision is not known
            self._rollouts.end(env)
        self._memory.clear(env_index)

    @torch.no_grad()
    def act(self, observations: Array, env_indices: Array) -> Array:
        """Pay the last decisions by how new the observations are that they led to, and make the next ones."""
        pixels = to_device(observations, self._device)
        draws = to_device(self._rng.random(len(env_indices)), self._device)
        earned, counts = self._visit(pixels, env_indices)
        waiting = np.flatnonzero(self._rollouts.awaits_reward(env_indices))
        if len(waiting):
            rewards = self.config.bonus.scale * earned[to_device(waiting, self._device)]
            self._rollouts.reward(env_indices[waiting], rewards)
        made = decide(self._ppo.network, pixels, draws)
        self._rollouts.record(env_indices, made)
        numbers = Fetched(torch.stack([made.actions.double(), counts.double(), earned.double()])).wait().numpy()
        self._memory.counts_arrived(env_indices, numbers[1].astype(np.int64))
        self._earned += float(numbers[2][waiting].sum())
        self._visits += len(waiting)
        return np.asarray(numbers[0].astype(np.int64))

    def _visit(self, pixels: Tensor, env_indices: Array) -> tuple[Tensor, Tensor]:
        """What the observations earn before scaling, [B], and how many each memory was given, [B]."""
        if not self._curious:
            nothing = torch.zeros(len(env_indices), device=self._device)
            return nothing, nothing
        return self._memory.visit(env_indices, self._codes(pixels), self.networks.retrieval.reachable_each)

    def observe(self, transitions: Transitions) -> None:
        """Keep the step for R and L; the last decision of an episode earns nothing."""
        self._observed += len(transitions.env_indices)
        self.networks.observe(transitions)
        over = transitions.env_indices[transitions.ended]
        over = over[self._rollouts.awaits_reward(over)]
        if len(over):
            self._rollouts.end(over)

    def update(self) -> Metrics:
        """Improve the policy, and train R and L, where either is due."""
        self.env_steps += self._observed
        self._unlearned += self._observed
        self._observed = 0
        metrics = self._improve() if self._rollouts.ready else Metrics()
        if self._unlearned >= self.config.train_every:
            if not self._curious:
                self._rollouts.take_known()  # what was done without a bonus
            metrics |= self.networks.update(self._unlearned)
            self._codes = FixedCodes(self.networks.retrieval)
            self._unlearned = 0
        metrics["explore/memory_size"] = float(self._memory.sizes.mean())
        learners = (self._ppo, self.networks.retrieval, self.networks.locomotion)
        metrics["train/gradient_steps"] = float(sum(learner.gradient_steps for learner in learners))
        return metrics

    def _improve(self) -> Metrics:
        taken = self._rollouts.take_known()
        if not self._curious:  # nothing was earned: there is nothing to learn from it
            return Metrics()
        metrics = self._ppo.improve(taken, self.env_steps)
        metrics["explore/bonus"] = self._earned / max(1, self._visits)
        self._earned, self._visits = 0.0, 0
        return metrics

    def explain(self, env_index: int) -> Decision:
        """It follows no route."""
        return Decision()

    def policy(self, seed: int) -> ExplorerPolicy:
        """The actor as it is now; it goes exploring whatever the goal."""
        return ExplorerPolicy(self._ppo.snapshot(), spawn(seed, ["policy"])["policy"], self._device)

    def state_dict(self) -> AgentState:
        """Everything that going on exactly needs."""
        state = AgentState(generators={"act": generator_state(self._rng)})
        self.networks.write_state(state)
        self._ppo.write_state(state)
        state.replay |= self._rollouts.state() | self._memory.state()
        state.counters |= {
            "env_steps": self.env_steps,
            "unlearned": self._unlearned,
            "earned": self._earned,
            "visits": self._visits,
        }
        return state

    def load_state_dict(self, state: AgentState) -> None:
        """Take up a state made by `state_dict`."""
        restore_generator(self._rng, state.generators["act"])
        self.networks.load_state(state)
        self._codes = FixedCodes(self.networks.retrieval)
        self._ppo.load_state(state)
        self._rollouts.load_state(state.replay)
        self._memory.load_state(state.replay)
        counters = state.counters
        self.env_steps, self._unlearned = counters["env_steps"], counters["unlearned"]
        self._earned, self._visits = counters["earned"], counters["visits"]
