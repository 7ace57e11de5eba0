"""The value function of MSS, which is its policy and its distance: how many steps away is a goal?

First goals in hindsight, by which it learns (Andrychowicz and others, 2017; the strategy "future", at most so many
steps ahead); then the universal value function (Schaul and others, 2015), its loss, the network and its gradient step.

The network's output is d(s, a, g), the steps that are left after the one that a takes, if the best are taken. Its value
is Q = -(1 - gamma^d) / (1 - gamma), the return of -1 for every step that does not arrive at the goal.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from sfl.api import Array
from sfl.baselines.mss.config import UVFAConfig
from sfl.nn.encoders import Encoder
from sfl.nn.mlp import PairNetwork
from sfl.nn.weights import make_adam
from sfl.replay.replay import Entries, SequenceReplay
from sfl.replay.store import distinct


@dataclass(frozen=True)
class HindsightBatch:
    """Steps with a goal each."""

    slots: Array  # [B, 3] of the state, the state after it and the goal; [B, 3, stack] of stacks
    actions: Array  # [B]
    places: Array  # [B, 3] where the three lie in the replay


def sample_hindsight(
    replay: SequenceReplay, rng: np.random.Generator, batch: int, future: int, share: float
) -> HindsightBatch | None:
    """Steps drawn uniformly; None while there is none.

    A `share` of them gets a goal from the next `future` states of its own episode, each as likely; the others get a
    state from anywhere in the replay.
    """
    steps, others = replay.draw_steps(rng, batch), replay.draw_steps(rng, batch)
    if steps is None or others is None:
        return None
    later = rng.integers(steps.at + 1, np.minimum(steps.at + future, steps.high) + 1)
    own = rng.random(batch) < share
    goals = Entries(
        envs=np.where(own, steps.envs, others.envs),
        at=np.where(own, later, others.at),
        low=np.where(own, steps.low, others.low),
        high=np.where(own, steps.high, others.high),
    )
    at = np.stack([steps.at, steps.at + 1, goals.at], axis=1)
    places = replay.places_of(np.stack([steps.envs, steps.envs, goals.envs], axis=1), at)
    return HindsightBatch(
        slots=np.concatenate([replay.states_from(steps, 1), replay.states_from(goals, 0)], axis=1),
        actions=replay.actions_at(places[:, 0]),
        places=places,
    )


def distinct_pairs(rows: Array) -> tuple[Array, Array]:
    """The pairs that a batch asks for, each once, given rows [B, 3] of s, s' and g.

    Returns the pairs' two rows [2, R], and which of them are (s, g) and (s, s') [2, B].
    """
    size = int(rows.max()) + 1
    found, places = distinct(rows[:, 0] * size + rows[:, [2, 1]].T)
    return np.stack(np.divmod(found, size)), places


def every_pair(rows: Array) -> tuple[Array, Array]:
    """The same pairs as often as they occur: batch normalization is to see the batch as it was drawn."""
    states, following, goals = rows.T
    pairs = np.stack([np.concatenate([states, states]), np.concatenate([goals, following])])
    return pairs, np.arange(2 * len(rows)).reshape(2, -1)


EPSILON = 1e-8  # Adam's own

Tensors = dict[str, Tensor]
"""Metrics that are still on the device."""


@dataclass(frozen=True)
class UVFABatch:
    """Steps (s, a, s') with a goal g each. What occurs in several of them is computed once."""

    features: Tensor  # [U, F] of states by the network that learns, from which gradients go on to its encoder
    pairs: Tensor  # [2, R] rows of pairs' states and goals among them
    places: Tensor  # [2, B] which of the pairs are (s, g), and which (s, s')
    actions: Tensor  # [B]
    wanted: Tensor  # [B] what Q(s, a, g) should be, by the target network


def value_of(distance: Tensor, gamma: float) -> Tensor:
    """Q of d: the return of -1 for each of d steps, -(1 - gamma^d) / (1 - gamma)."""
    return -(1.0 - torch.exp(math.log(gamma) * distance)) / (1.0 - gamma)


def td_target(reached: Tensor, ahead: Tensor, gamma: float) -> Tensor:
    """What Q(s, a, g) should be, [B]: 0 or -1 for the step, and Q [B] of what lies ahead; as far as a return can go."""
    return (reached.float() - 1.0 + gamma * ahead).clamp(-1.0 / (1.0 - gamma), 0.0)


def uvfa_loss(network: PairNetwork, batch: UVFABatch, gamma: float, anchor: float) -> tuple[Tensor, Tensors]:
    """Squared error of Q(s, a, g) against what it should be, and `anchor` times that of Q(s, a, s') against 0."""
    distances = network.of_rows(batch.features, *batch.pairs.unbind())  # [R, A]
    taken = distances.take(batch.places * distances.shape[1] + batch.actions)  # [2, B]
    to_goal, one_step = value_of(taken, gamma).unbind()
    loss = (to_goal - batch.wanted).square().mean() + anchor * one_step.square().mean()
    return loss, {"loss": loss.detach()}


class UVFA(nn.Module):
    """An encoder of states and goals alike, if they are not features already, and the network over both."""

    def __init__(self, encoder: Encoder | None, pairs: PairNetwork) -> None:
        super().__init__()
        self.encoder, self.pairs = encoder, pairs

    def embed(self, states: Tensor) -> Tensor:
        """Features [N, F] of states [N, ...]."""
        features: Tensor = states if self.encoder is None else self.encoder(states)
        return features

    def best(self, states: Tensor, goals: Tensor) -> tuple[Tensor, Tensor]:
        """Minus the steps from states to goals, at most 0, and the actions to take; both [N, M], of features."""
        distance, action = self.pairs.of_all(states, goals).min(2)
        return -distance.clamp_min(0.0), action

    def best_each(self, states: Tensor, goals: Tensor) -> tuple[Tensor, Tensor]:
        """The same of each state's own goal, both [B]."""
        distance, action = self.pairs(states, goals).min(1)
        return -distance.clamp_min(0.0), action


class UVFALearner:
    """The network, its target, and its gradient step."""

    def __init__(self, config: UVFAConfig, network: UVFA, device: torch.device) -> None:
        self.config, self.device = config, device
        self.network = network.to(device).eval()  # acting goes by running statistics; `gradient_step` takes the batch's
        self.target = copy.deepcopy(self.network).requires_grad_(False)
        self.optimiser = make_adam(self.network, config.learning_rate, EPSILON)
        self.gradient_steps = 0

    @torch.no_grad()
    def wanted(self, features: Tensor, rows: Tensor, reached: Tensor) -> Tensor:
        """What Q(s, a, g) should be, [B], given the target network's features [T, F] and rows [B, 2] of s' and g."""
        gamma = self.config.gamma
        distances = self.target.pairs.of_rows(features, *rows.unbind(1))
        return td_target(reached, value_of(distances.min(1).values, gamma), gamma)

    def update(self, batch: UVFABatch) -> Tensors:
        """One gradient step; the metrics of its loss, on the device."""
        metrics = self.gradient_step(batch)
        self.count_step()
        return metrics

    def gradient_step(self, batch: UVFABatch) -> Tensors:
        """The same but for what is not done on the device; `count_step` comes after it."""
        self.network.train()
        loss, metrics = uvfa_loss(self.network.pairs, batch, self.config.gamma, self.config.anchor)
        self.network.eval()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return metrics

    def count_step(self) -> None:
        """Another gradient step is made; now and then the target network becomes the network."""
        self.gradient_steps += 1
        if self.gradient_steps % self.config.target_every == 0:
            self.target.load_state_dict(self.network.state_dict())

    @property
    def target_is_new(self) -> bool:
        """The last gradient step replaced the target network."""
        return self.gradient_steps % self.config.target_every == 0

    @property
    def steps_to_target(self) -> int:
        """Gradient steps for which the target network stays what it is."""
        return self.config.target_every - self.gradient_steps % self.config.target_every
