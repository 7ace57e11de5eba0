"""Episodic Curiosity (Savinov et al., 2019): PPO, paid for observations that the episode has not come near yet."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from sfl.core.config import require
from sfl.core.seeding import generator_state, restore_generator, spawn
from sfl.data.types import AgentState, Array, EnvSpec, Explanation, Metrics, Observation, Transitions
from sfl.learners.device import Fetched, to_device
from sfl.learners.episodic_memory import BonusConfig, EpisodicMemory
from sfl.learners.locomotion import Locomotion, LocomotionConfig
from sfl.learners.ppo import PPO, PPOConfig, decide
from sfl.learners.retrieval import Retrieval, RetrievalConfig
from sfl.learners.rollouts import Rollouts
from sfl.learners.walk_replay import WalkReplay
from sfl.nn.actor_critic import ActorCritic


@dataclass(frozen=True)
class ECConfig:
    """Episodic Curiosity: an explorer. It has no use for goals; its graph-building kin are `sptm` and `sgm`."""

    bonus: BonusConfig = field(default_factory=BonusConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    retrieval: RetrievalConfig = field(default_factory=RetrievalConfig)
    locomotion: LocomotionConfig = field(default_factory=LocomotionConfig)
    replay_size: int = 20_000
    """Newest environment steps, over all environments, that the networks R and L learn from."""
    train_every: int = 20_000
    """Environment steps between two trainings of R and L; 0 = never."""
    retrieval_batches: int = 400
    """Gradient steps of R in a training."""
    locomotion_batches: int = 0
    """Gradient steps of L in a training; 0 = there is no L. Exploring needs none: it is for `sptm` and `sgm`, which can
    begin with the networks of this run."""

    def __post_init__(self) -> None:
        require(self.replay_size >= 100, f"replay-size must be at least 100, got {self.replay_size}.")
        for name in ("train_every", "retrieval_batches", "locomotion_batches"):
            option, value = name.replace("_", "-"), getattr(self, name)
            require(value >= 0, f"{option} must be 0 or more, got {value}.")


class ExplorerPolicy:
    """The actor with a generator of its own: all that is left of the agent when nothing is to be learned."""

    def __init__(self, network: ActorCritic, rng: np.random.Generator, device: torch.device) -> None:
        self._network, self.rng, self._device = network, rng, device

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """It explores, whatever the goal, and by what it sees now alone."""

    @torch.no_grad()
    def act(self, observations: Array, env_indices: Array) -> Array:
        """One draw from the policy for each environment."""
        draws = to_device(self.rng.random(len(env_indices)), self._device)
        made = decide(self._network, to_device(observations, self._device), draws)
        return np.asarray(Fetched(made.actions).wait().numpy())

    def explain(self, env_index: int) -> Explanation:
        """It follows no route."""
        return Explanation()


class EpisodicCuriosityAgent:
    """Acts, remembers and compares for all environments at once; the bonus of a step is known at the next one."""

    def __init__(self, config: ECConfig, spec: EnvSpec, seed: int, device: str) -> None:
        self.config, self.spec, self._device = config, spec, torch.device(device)
        rngs = spawn(seed, ["act", "replay"])
        self._rng, self._replay_rng = rngs["act"], rngs["replay"]
        self._ppo = PPO(config.ppo, spec, seed, self._device)
        self._retrieval = Retrieval(config.retrieval, spec, seed, self._device)
        self._locomotion = Locomotion(config.locomotion, spec, seed, device) if config.locomotion_batches else None
        self._memory = EpisodicMemory(config.bonus, spec.env_count, self._retrieval.dim, self._device)
        seen_shape = self._ppo.network.seen_shape
        self._rollouts = Rollouts(config.ppo.horizon, spec.env_count, seen_shape, spec.observation_dtype, self._device)
        self._walks = WalkReplay(spec, config.replay_size, self._device)
        self.env_steps = self._observed = 0
        self._earned, self._visits = 0.0, 0

    @property
    def _networks(self) -> list[PPO | Retrieval | Locomotion]:
        return [self._ppo, self._retrieval, *([self._locomotion] if self._locomotion else [])]

    @property
    def _curious(self) -> bool:
        """The retrieval network has learned something; before that its answers are worth nothing."""
        return self._retrieval.gradient_steps > 0

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """The memory is that of an episode."""
        env = np.array([env_index])
        if self._rollouts.awaits_reward(env).any():  # broken off: nobody says what came of the last decision
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
        self._memory.heard(env_indices, numbers[1].astype(np.int64))
        self._earned += float(numbers[2][waiting].sum())
        self._visits += len(waiting)
        return np.asarray(numbers[0].astype(np.int64))

    def _visit(self, pixels: Tensor, env_indices: Array) -> tuple[Tensor, Tensor]:
        """What the observations earn before scaling, [B], and how many each memory was given, [B]."""
        if not self._curious:
            nothing = torch.zeros(len(env_indices), device=self._device)
            return nothing, nothing
        features = self._retrieval.features(pixels)
        return self._memory.visit(env_indices, features, self._retrieval.reachable_each)

    def observe(self, transitions: Transitions) -> None:
        """Keep the step for the retrieval network; the last decision of an episode earns nothing."""
        self._observed += len(transitions.env_indices)
        self._walks.observe(transitions)
        over = transitions.env_indices[transitions.ended]
        over = over[self._rollouts.awaits_reward(over)]
        if len(over):
            self._rollouts.end(over)

    def update(self) -> Metrics:
        """Improve the policy, and train the retrieval network, where either is due."""
        before = self.env_steps
        self.env_steps += self._observed
        self._observed = 0
        metrics = self._improve() if self._rollouts.ready else Metrics()
        every = self.config.train_every
        if every and self.env_steps // every > before // every:
            metrics |= self._train_networks()
        metrics["explore/memory_size"] = float(self._memory.sizes.mean())
        metrics["train/gradient_steps"] = float(sum(network.gradient_steps for network in self._networks))
        return metrics

    def _improve(self) -> Metrics:
        taken = self._rollouts.take()
        if not self._curious:  # nothing was earned: there is nothing to learn from it
            return Metrics()
        metrics = self._ppo.improve(taken, self.env_steps)
        metrics["explore/bonus"] = self._earned / max(1, self._visits)
        self._earned, self._visits = 0.0, 0
        return metrics

    def _train_networks(self) -> Metrics:
        """R, and L if there is one, on the newest experience."""
        config, metrics = self.config, Metrics()
        if not self._curious:
            self._rollouts.take()  # what was done without a bonus
        for _ in range(config.retrieval_batches):
            near, far = config.retrieval.near, config.retrieval.far
            triplets = self._walks.triplets(self._replay_rng, config.retrieval.batch_size // 2, near, far)
            if triplets is not None:
                metrics |= self._retrieval.update(triplets)
        for _ in range(config.locomotion_batches if self._locomotion else 0):
            chases = self._walks.chases(self._replay_rng, config.locomotion.batch_size, config.locomotion.ahead)
            if chases is not None:
                metrics |= self._locomotion.update(*chases)
        return metrics

    def explain(self, env_index: int) -> Explanation:
        """It follows no route."""
        return Explanation()

    def policy(self, seed: int) -> ExplorerPolicy:
        """The actor as it is now; it goes exploring whatever the goal."""
        return ExplorerPolicy(self._ppo.frozen(), spawn(seed, ["policy"])["policy"], self._device)

    def state_dict(self) -> AgentState:
        """Everything that going on exactly needs."""
        generators = {"act": generator_state(self._rng), "replay": generator_state(self._replay_rng)}
        state = AgentState(generators=generators)
        for part in self._networks:
            part.write_state(state)
        state.replay = self._walks.state() | self._rollouts.state() | self._memory.state()
        state.counters |= {"env_steps": self.env_steps, "earned": self._earned, "visits": self._visits}
        return state

    def load_state_dict(self, state: AgentState) -> None:
        """Take up a state made by `state_dict`; a slim copy, without a replay, still explores."""
        restore_generator(self._rng, state.generators["act"])
        restore_generator(self._replay_rng, state.generators["replay"])
        for part in self._networks:
            part.read_state(state)
        if state.replay:
            self._walks.load_state(state.replay)
            self._rollouts.load_state(state.replay)
            self._memory.load_state(state.replay)
        counters = state.counters
        self.env_steps, self._earned, self._visits = counters["env_steps"], counters["earned"], counters["visits"]
