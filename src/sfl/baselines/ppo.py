"""Proximal policy optimisation (Schulman et al., 2017): an actor-critic improved on what it did itself.

In this order: the network, a policy and its value over one shared trunk; rollouts, what the policy did since it was
last improved; advantages, the loss, and the improvement. Episodic Curiosity is built on it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from sfl.api import AgentState, Array, EnvSpec, Metrics, encoder_kind
from sfl.baselines.config import PPOConfig
from sfl.fast.cuda import to_device
from sfl.nn.encoders import make_encoder
from sfl.nn.weights import adam_state, load_adam, load_module, make_adam, module_state
from sfl.seeding import draw_seed, generator_state, restore_generator, spawn

SMALL_SIDE = 84
"""Pictures are looked at in this size, as in the networks that this trunk comes from (Mnih et al., 2015)."""


class PixelTrunk(nn.Module):
    """Three convolutions and a layer: pictures [B, 84, 84, C] of bytes to features [B, F]."""

    def __init__(self, channels: int, dim: int) -> None:
        super().__init__()
        convolutions = (nn.Conv2d(channels, 32, 8, 4), nn.Conv2d(32, 64, 4, 2), nn.Conv2d(64, 64, 3, 1))
        parts = [part for convolution in convolutions for part in (convolution, nn.ReLU())]
        self.layers = nn.Sequential(*parts, nn.Flatten(), nn.Linear(64 * 7 * 7, dim), nn.ReLU())
        for name, value in self.layers.named_parameters():
            if name.endswith("weight"):
                nn.init.orthogonal_(value, 2**0.5)
            else:
                nn.init.zeros_(value)

    def forward(self, pictures: Tensor) -> Tensor:
        """Features [B, F]."""
        features: Tensor = self.layers(pictures.permute(0, 3, 1, 2).float() / 255.0)
        return features


class ActorCritic(nn.Module):
    """Logits of the actions and the value of a state.

    A grid or a vector is read by the encoder of its shape, a picture by `PixelTrunk` at 84 x 84.
    """

    def __init__(self, shape: tuple[int, ...], action_count: int, dim: int) -> None:
        super().__init__()
        self._is_picture = encoder_kind(shape) == "picture"
        self.seen_shape = (SMALL_SIDE, SMALL_SIDE, shape[2]) if self._is_picture else shape
        # A norm of sqrt(F) makes each feature about 1 in size, as the heads' first weights expect.
        self.trunk = PixelTrunk(shape[2], dim) if self._is_picture else make_encoder(shape, dim, dim**0.5)
        self.policy, self.value = nn.Linear(dim, action_count), nn.Linear(dim, 1)
        for head, gain in ((self.policy, 0.01), (self.value, 1.0)):  # it begins nearly uniform
            nn.init.orthogonal_(head.weight, gain)
            nn.init.zeros_(head.bias)

    def see(self, observations: Tensor) -> Tensor:
        """What is kept of observations [B, ...] to learn from: pictures become small."""
        if not self._is_picture:
            return observations
        pixels = observations.permute(0, 3, 1, 2).float()
        small = functional.adaptive_avg_pool2d(pixels, SMALL_SIDE)
        return small.round_().byte().permute(0, 2, 3, 1).contiguous()

    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [B, A] and values [B] of what `see` made of observations."""
        features = self.trunk(seen)
        return self.policy(features), self.value(features).squeeze(1)


@dataclass(frozen=True)
class Decisions:
    """What one batch of environments saw, and what the policy made of it."""

    seen: Tensor  # [B, ...]
    actions: Tensor  # [B] int64
    log_probs: Tensor  # [B] of the actions that were taken
    values: Tensor  # [B]


@dataclass(frozen=True)
class KnownSteps:
    """Steps whose reward is known, environments side by side; beyond `counts` an environment has none."""

    steps: Decisions  # each [T, E, ...]
    next_values: Tensor  # [T, E] of the states that the steps led to; of no meaning after an episode's end
    rewards: Tensor  # [T, E]
    ended: Tensor  # [T, E] bool
    counts: Array  # [E]


class Rollouts:
    """One column per environment.

    Columns need not grow together: halves take turns, and a game that was started again lags behind. What a decision
    earned is known at the next one of its environment, or when its episode ends.
    """

    def __init__(self, horizon: int, env_count: int, shape: tuple[int, ...], dtype: str, device: torch.device) -> None:
        self._wanted, self._device = horizon * env_count, device
        rows = 2 * horizon + 2  # none may get farther ahead of the others than once more the horizon
        kind = torch.from_numpy(np.zeros(0, dtype)).dtype
        self._seen = torch.zeros(rows, env_count, *shape, dtype=kind, device=device)
        self._actions = torch.zeros(rows, env_count, dtype=torch.int64, device=device)
        self._log_probs, self._values, self._rewards = torch.zeros(3, rows, env_count, device=device).unbind()
        self._ended = torch.zeros(rows, env_count, dtype=torch.bool, device=device)
        self._decided = np.zeros(env_count, np.int64)  # decisions in each column
        self._known = np.zeros(env_count, np.int64)  # of them, those whose reward is known

    @property
    def ready(self) -> bool:
        """There is enough to learn from, or some column is full."""
        return int(self._known.sum()) >= self._wanted or int(self._decided.max()) == len(self._seen) - 1

    def awaits_reward(self, env_indices: Array) -> Array:
        """[B] bool: the environment's last decision has no reward yet."""
        return np.asarray(self._decided[env_indices] > self._known[env_indices])

    def reward(self, env_indices: Array, rewards: Tensor) -> None:
        """What the last decisions of these environments earned, [B]; their episodes go on."""
        self._set_reward(env_indices, rewards, False)

    def end(self, env_indices: Array) -> None:
        """The episodes of these environments are over; the last decision earns nothing."""
        self._set_reward(env_indices, torch.zeros(len(env_indices), device=self._device), True)

    def _set_reward(self, env_indices: Array, rewards: Tensor, ended: bool) -> None:
        at = self._places(self._known, env_indices)
        self._rewards.index_put_(at, rewards)
        self._ended.index_put_(at, torch.full((), ended, device=self._device))
        self._known[env_indices] += 1

    def record(self, env_indices: Array, decisions: Decisions) -> None:
        """The newest decisions of these environments."""
        at = self._places(self._decided, env_indices)
        self._seen.index_put_(at, decisions.seen)
        self._actions.index_put_(at, decisions.actions)
        self._log_probs.index_put_(at, decisions.log_probs)
        self._values.index_put_(at, decisions.values)
        self._decided[env_indices] += 1

    def _places(self, rows: Array, env_indices: Array) -> tuple[Tensor, Tensor]:
        at = to_device(np.stack([rows[env_indices], env_indices]), self._device)
        return at[0], at[1]

    def take_known(self) -> KnownSteps:
        """All steps whose reward is known; decisions that wait for theirs stay."""
        counts, length = self._known.copy(), int(self._known.max())
        steps = Decisions(
            self._seen[:length].clone(),
            self._actions[:length].clone(),
            self._log_probs[:length].clone(),
            self._values[:length].clone(),
        )
        next_values, ended = self._values[1 : length + 1].clone(), self._ended[:length].clone()
        taken = KnownSteps(steps, next_values, self._rewards[:length].clone(), ended, counts)
        waiting = np.flatnonzero(self._decided > self._known)
        row, env = self._places(self._known, waiting)
        for part in (self._seen, self._actions, self._log_probs, self._values):
            part[0].index_copy_(0, env, part[row, env])
        self._decided, self._known = self._decided - self._known, np.zeros_like(self._known)
        return taken

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        parts = {name: part.cpu().numpy().copy() for name, part in self._parts().items()}
        return parts | {"rollouts.decided": self._decided.copy(), "rollouts.known": self._known.copy()}

    def load_state(self, arrays: dict[str, Array]) -> None:
        """Take up arrays made by `state`."""
        for name, part in self._parts().items():
            part.copy_(torch.from_numpy(arrays[name]))
        self._decided, self._known = arrays["rollouts.decided"].copy(), arrays["rollouts.known"].copy()

    def _parts(self) -> dict[str, Tensor]:
        return {
            "rollouts.seen": self._seen,
            "rollouts.actions": self._actions,
            "rollouts.log_probs": self._log_probs,
            "rollouts.values": self._values,
            "rollouts.rewards": self._rewards,
            "rollouts.ended": self._ended,
        }


def advantages(taken: KnownSteps, gamma: float, trace: float) -> Tensor:
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
        self._optimiser = make_adam(self.network, config.learning_rate, epsilon=1e-5)
        self._size = max(1, config.horizon * spec.env_count // config.minibatches)
        self.gradient_steps = 0

    def improve(self, taken: KnownSteps, env_steps: int) -> Metrics:
        """Some passes over what the policy did; `env_steps` says how far the run is."""
        config, left = self.config, self.share_left(env_steps)
        self._optimiser.param_groups[0]["lr"], clip = config.learning_rate * left, config.clip * left
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

    def _minibatches(self, taken: KnownSteps) -> Iterator[Minibatch]:
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
        self._optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), self.config.gradient_norm)
        self._optimiser.step()
        return torch.stack([error.detach(), entropy.detach(), clipped])

    def snapshot(self) -> ActorCritic:
        """A copy of the network that later learning does not change."""
        return copy.deepcopy(self.network).requires_grad_(False)

    def write_state(self, state: AgentState) -> None:
        """Network, optimiser, generator and counter."""
        state.networks |= module_state(self.network, "ppo")
        state.optimisers |= adam_state(self._optimiser, "ppo")
        state.generators["ppo"] = generator_state(self._rng)
        state.counters["ppo_gradient_steps"] = self.gradient_steps

    def load_state(self, state: AgentState) -> None:
        """Everything that `write_state` wrote; without an optimiser the network still acts."""
        load_module(self.network, "ppo", state.networks)
        if state.optimisers:
            load_adam(self._optimiser, "ppo", state.optimisers)
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
def action_probabilities(network: ActorCritic, observations: Tensor) -> Tensor:
    """The probabilities [B, A] that `decide` draws by."""
    return functional.softmax(network(network.see(observations))[0], dim=1)


def _standardised(gains: Tensor) -> Tensor:
    """Mean 0 and standard deviation 1: the bonus is small beside the entropy."""
    return (gains - gains.mean()) / (gains.std(correction=0) + 1e-8)
