"""The plain loop that ours is measured against: what one writes first, with the same networks, batches and updates.

Raw observations in a ring of bytes, vectorised sampling, every observation of a batch encoded, autograd, torch's Adam.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from minigrid.wrappers import FullyObsWrapper
from torch import Tensor, nn
from torch.nn import functional

from sfl.api import Array, EnvSpec, Transitions
from sfl.method.config import FeatureConfig, SuccessorConfig
from sfl.seeding import draw_seed, spawn
from sfl.worlds import make_env
from sfl.worlds.gym import env_spec
from sfl.worlds.session import Env

if TYPE_CHECKING:
    from benchmarks.bench.grids import Subject


class PlainReplay:
    """The last observations and actions of each environment, as they came."""

    def __init__(self, spec: EnvSpec, capacity: int) -> None:
        self.length = capacity // spec.env_count
        shape = (spec.env_count, self.length)
        self.frames = np.zeros((*shape, *spec.observation_shape), dtype=spec.observation_dtype)
        self.actions = np.zeros(shape, dtype=np.int64)
        self.episodes = np.full(shape, -1)
        self.heads = np.zeros(spec.env_count, dtype=np.int64)
        self._episode = np.zeros(spec.env_count, dtype=np.int64)

    def add(self, transitions: Transitions) -> None:
        """Store one step of every environment, and the last observation of episodes that ended."""
        envs, ended = transitions.env_indices, transitions.ended
        self._append(envs, transitions.observations, transitions.actions)
        if ended.any():
            self._append(envs[ended], transitions.next_observations[ended], transitions.actions[ended])
            self._episode[envs[ended]] += 1

    def triplets(self, rng: np.random.Generator, batch: int, config: FeatureConfig) -> Array:
        """Observations [B, 3, ...] of anchor, positive and negative."""

        def offsets(count: int) -> Array:
            near = rng.integers(-config.positive_window, config.positive_window + 1, size=count)
            far = rng.integers(config.negative_min, config.negative_max + 1, size=count)
            return np.stack([near, far * rng.choice([-1, 1], size=count)], axis=1)

        envs, at = self._draw(rng, batch, offsets)
        return np.asarray(self.frames[envs[:, None], at % self.length])

    def transitions(self, rng: np.random.Generator, batch: int) -> tuple[Array, Array]:
        """Observations [B, 2, ...] before and after actions [B]."""
        envs, at = self._draw(rng, batch, lambda count: np.ones((count, 1), dtype=np.int64))
        return np.asarray(self.frames[envs[:, None], at % self.length]), self.actions[envs, at[:, 0] % self.length]

    def _append(self, envs: Array, frames: Array, actions: Array) -> None:
        places = self.heads[envs] % self.length
        self.frames[envs, places], self.actions[envs, places] = frames, actions
        self.episodes[envs, places] = self._episode[envs]
        self.heads[envs] += 1

    def _draw(self, rng: np.random.Generator, batch: int, offsets: Callable[[int], Array]) -> tuple[Array, Array]:
        """Environments [B] and positions [B, 1 + offsets]; draws that leave the episode or the ring are made again."""
        found: list[tuple[Array, Array]] = []
        while sum(len(envs) for envs, _ in found) < batch:
            envs = rng.integers(len(self.heads), size=2 * batch)
            heads = self.heads[envs]
            first = heads - 1 - rng.integers(np.minimum(heads, self.length))
            at = np.concatenate([first[:, None], first[:, None] + offsets(len(first))], axis=1)
            stored = (at < heads[:, None]) & (at >= np.maximum(0, heads - self.length)[:, None])
            episodes = self.episodes[envs[:, None], at % self.length]
            good = (stored & (episodes == episodes[:, :1])).all(1)
            found.append((envs[good], at[good]))
        return np.concatenate([envs for envs, _ in found])[:batch], np.concatenate([at for _, at in found])[:batch]


class PlainEncoder(nn.Module):
    """The paper's MiniGrid encoder, of torch's own layers."""

    def __init__(self, shape: tuple[int, ...], dim: int, norm: float) -> None:
        super().__init__()
        cells = ((shape[0] - 3) // 2 - 1) * ((shape[1] - 3) // 2 - 1)
        self.norm = norm
        self.conv1, self.conv2 = nn.Conv2d(shape[2], 32, 3, stride=2), nn.Conv2d(32, 32, 3)
        self.linear = nn.Linear(32 * cells, dim)

    def forward(self, observations: Tensor) -> Tensor:
        """Observations [B, W, H, C] to features [B, F]."""
        hidden = functional.relu(self.conv1(observations.float().permute(0, 3, 1, 2)))
        hidden = functional.relu(self.conv2(hidden)).flatten(1)
        return self.norm * functional.normalize(self.linear(hidden), dim=1)


def plain_successor_network(dim: int, action_count: int, config: SuccessorConfig) -> nn.Sequential:
    """The paper's network: features [B, F] to psi [B, A, F]."""
    layers: list[nn.Module] = []
    size = dim
    for units in config.hidden:
        layers += [nn.Linear(size, units)] + [nn.BatchNorm1d(units)] * config.batch_norm + [nn.ReLU()]
        size = units
    return nn.Sequential(*layers, nn.Linear(size, action_count * dim), nn.Unflatten(1, (action_count, dim)))


def encoder_loss(features: Tensor, config: FeatureConfig) -> Tensor:
    """The time-contrastive loss of features [B, 3, F]."""
    anchor, positive, negative = features.unbind(1)
    near, far = (anchor - positive).square().sum(1), (anchor - negative).square().sum(1)
    if not config.squared:
        near, far = (near + 1e-8).sqrt(), (far + 1e-8).sqrt()
    return functional.relu(config.margin + near - far).mean()


def successor_loss(
    network: nn.Module, target: nn.Module, phi: Tensor, actions: Tensor, config: SuccessorConfig
) -> Tensor:
    """The one-step TD loss of features [B, 2, F] before and after actions [B]."""
    psi = network(phi[:, 0])[torch.arange(len(actions)), actions]
    with torch.no_grad():
        wanted = phi[:, 0] + config.gamma * target(phi[:, 1]).mean(1)
    return functional.huber_loss(psi, wanted, delta=config.huber_delta)


class PlainLoop:
    """Act, observe, update, without any of our short cuts."""

    def __init__(self, subject: Subject, seed: int = 0) -> None:
        features, successor = self.features, self.successor = subject.agent.features, subject.agent.successor
        envs = [make_env(subject.env, goal_terminates=False) for _ in range(subject.env_count)]
        spec = env_spec(envs[0], len(envs))
        self.action_count = spec.action_count
        rngs = spawn(seed, ["plain", "plain-init"])
        self.rng = rngs["plain"]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(draw_seed(rngs["plain-init"]))
            self.encoder = PlainEncoder(spec.observation_shape, features.dim, features.norm)
            self.network, self.target = (
                plain_successor_network(features.dim, spec.action_count, successor) for _ in range(2)
            )
            self.landmarks = functional.normalize(torch.randn(subject.agent.landmarks.limit, features.dim), dim=1)
        self.target.load_state_dict(self.network.state_dict())
        self.encoder_optimiser = torch.optim.Adam(self.encoder.parameters(), lr=features.learning_rate)
        self.network_optimiser = torch.optim.Adam(self.network.parameters(), lr=successor.learning_rate)
        self.replay = PlainReplay(spec, subject.agent.replay_size)
        self.envs: list[Env] = [FullyObsWrapper(env) for env in envs]  # type: ignore[no-untyped-call]
        self.observations = np.stack([self._reset(index) for index in range(len(envs))])
        self.gradient_steps = 0

    def step(self) -> None:
        """One step of every environment, and the updates that it calls for."""
        self.replay.add(self._step_environments(self._act()))
        count = len(self.envs)
        for _ in range(round(count * self.features.updates_per_step)):
            self._update_encoder()
        for _ in range(round(count * self.successor.updates_per_step)):
            self._update_successor()

    @torch.no_grad()
    def _act(self) -> Array:
        """SFS to landmarks, as localizing needs it, and random actions."""
        self.network.eval()
        psi = self.network(self.encoder(torch.from_numpy(self.observations))).mean(1)
        nearest = (functional.normalize(psi, dim=1) @ self.landmarks.T).argmax(1)
        return self.rng.integers(self.action_count, size=len(nearest))

    def _step_environments(self, actions: Array) -> Transitions:
        before = self.observations
        outcomes = [env.step(int(action)) for env, action in zip(self.envs, actions, strict=True)]
        after = np.stack([outcome[0]["image"] for outcome in outcomes])
        rewards, terminated, truncated = (np.array([outcome[i] for outcome in outcomes]) for i in (1, 2, 3))
        self.observations = after.copy()
        for index in np.flatnonzero(terminated | truncated).tolist():
            self.observations[index] = self._reset(index)
        return Transitions(np.arange(len(self.envs)), before, actions, rewards, terminated, truncated, after)

    def _reset(self, index: int) -> Array:
        observation, _ = self.envs[index].reset(seed=draw_seed(self.rng), options={"goal": None})
        return np.asarray(observation["image"])

    def _update_encoder(self) -> None:
        frames = self.replay.triplets(self.rng, self.features.batch_size, self.features)
        features = self.encoder(torch.from_numpy(frames).flatten(0, 1)).unflatten(0, frames.shape[:2])
        self.encoder_optimiser.zero_grad()
        encoder_loss(features, self.features).backward()
        self.encoder_optimiser.step()

    def _update_successor(self) -> None:
        frames, actions = self.replay.transitions(self.rng, self.successor.batch_size)
        with torch.no_grad():
            phi = self.encoder(torch.from_numpy(frames).flatten(0, 1)).unflatten(0, frames.shape[:2])
        self.network.train()
        self.network_optimiser.zero_grad()
        loss = successor_loss(self.network, self.target, phi, torch.from_numpy(actions), self.successor)
        loss.backward()
        self.network_optimiser.step()
        self.gradient_steps += 1
        if self.gradient_steps % self.successor.target_every == 0:
            self.target.load_state_dict(self.network.state_dict())
