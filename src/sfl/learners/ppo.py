"""Proximal policy optimisation (Schulman et al., 2017): an actor-critic improved on what it did itself."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from sfl.core.config import require
from sfl.core.seeding import draw_seed, generator_state, restore_generator, spawn
from sfl.data.types import AgentState, EnvSpec, Metrics
from sfl.learners.adam import Adam
from sfl.learners.device import to_device
from sfl.learners.rollouts import Decisions, Experience
from sfl.learners.state import load_module, module_state
from sfl.nn.actor_critic import ActorCritic
from sfl.nn.pullback import pull_autograd


@dataclass(frozen=True)
class PPOConfig:
    """How the policy is improved."""

    horizon: int = 256
    """Steps of each environment between two improvements."""
    epochs: int = 4
    """Passes over those steps."""
    minibatches: int = 4
    """Gradient steps in a pass."""
    gamma: float = 0.99
    """Discount of rewards."""
    trace: float = 0.95
    """lambda of generalized advantage estimation: 0 trusts the value of the next state, 1 only rewards."""
    learning_rate: float = 2.5e-4
    """Adam's step size at the beginning."""
    clip: float = 0.1
    """At the beginning, how far the odds of an action may move from what they were before a gradient no longer
    follows."""
    decay_steps: int = 0
    """Learning rate and clip fall linearly to 0 over this many environment steps; 0 = they stay."""
    entropy: float = 0.01
    """Weight of the policy's entropy."""
    value_weight: float = 0.5
    """Weight of the squared error of the values."""
    gradient_norm: float = 0.5
    """Gradients are scaled down to at most this norm."""
    dim: int = 512
    """Features that policy and value share."""

    def __post_init__(self) -> None:
        for name in ("horizon", "epochs", "minibatches", "dim"):
            require(getattr(self, name) >= 1, f"ppo.{name} must be at least 1, got {getattr(self, name)}.")
        for name in ("gamma", "trace"):
            require(0 <= getattr(self, name) <= 1, f"ppo.{name} must lie in [0, 1], got {getattr(self, name)}.")
        for name in ("learning_rate", "clip", "gradient_norm"):
            option, value = name.replace("_", "-"), getattr(self, name)
            require(value > 0, f"ppo.{option} must be positive, got {value}.")
        for name in ("decay_steps", "entropy", "value_weight"):
            option, value = name.replace("_", "-"), getattr(self, name)
            require(value >= 0, f"ppo.{option} must not be negative, got {value}.")


def advantages(taken: Experience, gamma: float, trace: float) -> Tensor:
    """Generalized advantage estimation (Schulman et al., 2016), [T, E]; 0 beyond an environment's steps.

    A_t = d_t + gamma * lambda * A_(t+1) with d_t = r_t + gamma * V(s_(t+1)) - V(s_t); nothing passes an episode's end.
    """
    counts = to_device(taken.counts, taken.rewards.device)
    going = (~taken.ended).float()
    errors = taken.rewards + gamma * taken.next_values * going - taken.steps.values
    made, carried = torch.empty_like(errors), torch.zeros_like(errors[0])
    for time in reversed(range(len(errors))):
        carried = torch.where(time < counts, errors[time] + gamma * trace * going[time] * carried, 0.0)
        made[time] = carried
    return made


@dataclass(frozen=True)
class Minibatch:
    """Steps to learn from, in any order."""

    steps: Decisions  # each [B, ...]
    advantages: Tensor  # [B]
    returns: Tensor  # [B]


def policy_loss(logits: Tensor, batch: Minibatch, clip: float) -> tuple[Tensor, Tensor]:
    """Minus the clipped surrogate, mean over steps, and the share of steps that were clipped. Shapes: logits [B, A]."""
    log_probs = functional.log_softmax(logits, dim=1)
    taken = log_probs.gather(1, batch.steps.actions.unsqueeze(1)).squeeze(1)
    ratio = (taken - batch.steps.log_probs).exp()
    bounded = ratio.clamp(1.0 - clip, 1.0 + clip)
    gain = torch.minimum(ratio * batch.advantages, bounded * batch.advantages)
    return -gain.mean(), (ratio.detach() != bounded.detach()).float().mean()


def entropy_of(logits: Tensor) -> Tensor:
    """Mean entropy, in nats, of the policies with logits [B, A]."""
    log_probs = functional.log_softmax(logits, dim=1)
    return -(log_probs.exp() * log_probs).sum(1).mean()


class PPO:
    """An actor-critic, its optimiser and its improvement."""

    def __init__(self, config: PPOConfig, spec: EnvSpec, seed: int, device: torch.device) -> None:
        self.config, self._device = config, device
        rngs = spawn(seed, ["init", "ppo"])
        self._rng = rngs["ppo"]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(draw_seed(rngs["init"]))
            self.network = ActorCritic(spec.observation_shape, spec.action_count, config.dim).to(device)
        self._optimiser = Adam(self.network, config.learning_rate, epsilon=1e-5)
        self._size = max(1, config.horizon * spec.env_count // config.minibatches)
        self.gradient_steps = 0

    def improve(self, taken: Experience, env_steps: int) -> Metrics:
        """Some passes over what the policy did; `env_steps` says how far the run is."""
        config, left = self.config, self.share_left(env_steps)
        self._optimiser.learning_rate, clip = config.learning_rate * left, config.clip * left
        sums, steps = torch.zeros(3, device=self._device), 0
        for batch in self._minibatches(taken):
            sums += self._step(batch, clip)
            steps += 1
        self.gradient_steps += steps
        value_error, entropy, clipped = (sums / steps).tolist()
        return {"train/value_loss": value_error, "train/policy_entropy": entropy, "train/policy_clipped": clipped}

    def share_left(self, env_steps: int) -> float:
        """What is left of learning rate and clip after so many environment steps."""
        decay = self.config.decay_steps
        return max(0.0, 1.0 - env_steps / decay) if decay else 1.0

    def _minibatches(self, taken: Experience) -> Iterator[Minibatch]:
        """Passes in random order; what is left of a pass when minibatches of full size are made is not used in it."""
        gained = advantages(taken, self.config.gamma, self.config.trace)
        steps, returns = taken.steps, gained + taken.steps.values
        times = np.arange(len(gained))[:, None]
        rows = np.flatnonzero(times < taken.counts)  # of [T * E]
        size = min(self._size, max(1, len(rows) // self.config.minibatches))
        for _ in range(self.config.epochs):
            order = to_device(rows[self._rng.permutation(len(rows))], self._device)
            for start in range(0, len(rows) - size + 1, size):
                some = order[start : start + size]
                parts = (steps.seen, steps.actions, steps.log_probs, steps.values, gained, returns)
                seen, actions, log_probs, values, gains, goals = (part.flatten(0, 1)[some] for part in parts)
                yield Minibatch(Decisions(seen, actions, log_probs, values), _standardised(gains), goals)

    def _step(self, batch: Minibatch, clip: float) -> Tensor:
        """One gradient step; error of the values, entropy and share clipped, [3]."""
        logits, values = self.network(batch.steps.seen)
        against, clipped = policy_loss(logits, batch, clip)
        error, entropy = (values - batch.returns).square().mean(), entropy_of(logits)
        loss = against + self.config.value_weight * error - self.config.entropy * entropy
        pull = pull_autograd(loss, self.network)

        def bounded_pull(gradient: Tensor) -> None:
            pull(gradient)
            nn.utils.clip_grad_norm_(self.network.parameters(), self.config.gradient_norm)

        self._optimiser.step(bounded_pull, torch.ones_like(loss))
        return torch.stack([error.detach(), entropy.detach(), clipped])

    def frozen(self) -> ActorCritic:
        """A copy of the network that later learning does not change."""
        return copy.deepcopy(self.network).requires_grad_(False)

    def write_state(self, state: AgentState) -> None:
        """Network, optimiser, generator and counter."""
        state.networks |= module_state(self.network, "ppo")
        state.optimisers |= self._optimiser.state("ppo")
        state.generators["ppo"] = generator_state(self._rng)
        state.counters["ppo_gradient_steps"] = self.gradient_steps

    def read_state(self, state: AgentState) -> None:
        """Everything that `write_state` wrote; without an optimiser the network still acts."""
        load_module(self.network, "ppo", state.networks)
        if state.optimisers:
            self._optimiser.load_state("ppo", state.optimisers)
        restore_generator(self._rng, state.generators["ppo"])
        self.gradient_steps = state.counters["ppo_gradient_steps"]


def decide(network: ActorCritic, observations: Tensor, draws: Tensor) -> Decisions:
    """An action for each observation, [B, ...], by a uniform draw in [0, 1) each, [B]."""
    seen = network.see(observations)
    logits, values = network(seen)
    log_probs = functional.log_softmax(logits, dim=1)
    below = (log_probs.exp().cumsum(1) <= draws.unsqueeze(1)).sum(1)
    actions = below.clamp_max(logits.shape[1] - 1)  # the probabilities may sum to a little less than 1
    return Decisions(seen, actions, log_probs.gather(1, actions.unsqueeze(1)).squeeze(1), values)


@torch.no_grad()
def chances(network: ActorCritic, observations: Tensor) -> Tensor:
    """The probabilities [B, A] that `decide` draws by."""
    return functional.softmax(network(network.see(observations))[0], dim=1)


def _standardised(gains: Tensor) -> Tensor:
    """Mean 0 and standard deviation 1: the bonus is small beside the entropy."""
    return (gains - gains.mean()) / (gains.std(correction=0) + 1e-8)
