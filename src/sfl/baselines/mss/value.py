"""Hindsight experience replay: what was seen later in an episode becomes the goal of a step before it.

(Andrychowicz and others, 2017; the strategy "future", at most so many steps ahead.)
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
from sfl.fast.layers import Adam, Pull
from sfl.nn.encoders import Encoder
from sfl.nn.mlp import PairNetwork
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


def distinct_pairs(rows: Array) -> tuple[Array, Array, Array]:
    """The pairs that a batch asks for, each once, given rows [B, 3] of s, s' and g.

    Returns the pairs' two rows [2, R], which of them are (s, g) and (s, s') [2, B], and how often each occurs [R].
    """
    states, following, goals = rows.T
    size = int(rows.max()) + 1
    found, places = distinct(states * size + np.stack([goals, following]))
    return np.stack(np.divmod(found, size)), places, np.bincount(places.reshape(-1)).astype(np.float32)


# ---- A universal value function: how many steps away is a goal? (Schaul and others, 2015; MSS's policy and distance.)
#
# The network's output is d(s, a, g), the steps that are left after the one that a takes, if the best are taken. Its
# value is Q = -(1 - gamma^d) / (1 - gamma), the return of -1 for every step that does not arrive at the goal.

EPSILON = 1e-8  # Adam's own


@dataclass(frozen=True)
class UVFABatch:
    """Steps (s, a, s') with a goal g each."""

    pull: Pull | None  # from features to the encoder that made them; None: it is fixed
    features: Tensor  # [U, F] of states by the network that learns
    pairs: Tensor  # [2, R] rows of pairs' states and goals among the features
    places: Tensor  # [2, B] which of the pairs are (s, g), and which (s, s')
    counts: Tensor | None  # [R] how often each pair occurs, for batch normalization; None: once
    target_halves: Tensor  # [2, T, H] of states by the target's first layer, as states and as goals
    target_rows: Tensor  # [B, 2] rows of s' and g among them
    actions: Tensor  # [B]
    reached: Tensor  # [B] bool: s' counts as g


def value_of(distance: Tensor, gamma: float) -> Tensor:
    """Q of d: the return of -1 for each of d steps, -(1 - gamma^d) / (1 - gamma)."""
    return -(1.0 - torch.exp(math.log(gamma) * distance)) / (1.0 - gamma)


def wanted(reached: Tensor, ahead: Tensor, gamma: float) -> Tensor:
    """What Q(s, a, g) should be, [B]: 0 or -1 for the step, and Q [B] of what lies ahead; as far as a return can go."""
    return (reached.float() - 1.0 + gamma * ahead).clamp(-1.0 / (1.0 - gamma), 0.0)


def slope_of(value: Tensor, gamma: float) -> Tensor:
    """The derivative of Q by d, given Q: log(gamma) gamma^d / (1 - gamma)."""
    return math.log(gamma) * (value + 1.0 / (1.0 - gamma))


def uvfa_loss(values: Tensor, target: Tensor, anchor: float) -> tuple[Tensor, Tensor]:
    """Squared error of Q(s, a, g) against its target [B], and of Q(s, a, s') against 0; means over the batch.

    `values` [2, B] are the two. Returns the loss and its gradient by them.
    """
    error, single = values[0] - target, values[1]
    loss = error.square().mean() + anchor * single.square().mean()
    return loss, torch.stack([error, anchor * single]) * (2.0 / len(target))


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
        self.network = network.to(device).eval()  # acting goes by running statistics; `update` takes the batch's
        self.target = copy.deepcopy(self.network).requires_grad_(False)
        self.optimiser = Adam(self.network, config.learning_rate, EPSILON)
        self.gradient_steps = 0

    def update(self, batch: UVFABatch) -> Tensor:
        """One gradient step; its loss, on the device."""
        loss = self.descend(batch)
        self.count_step()
        return loss

    @torch.no_grad()
    def descend(self, batch: UVFABatch) -> Tensor:
        """The same but for what is not done on the device; `count_step` comes after it."""
        gamma, (states, goals) = self.config.gamma, batch.pairs.unbind()
        distances, pull_pairs = self.network.pairs.train_rows(
            batch.features, states, goals, batch.counts, by_features=batch.pull is not None
        )
        taken = batch.places * distances.shape[1] + batch.actions  # [2, B] among all distances
        values = value_of(distances.take(taken), gamma)
        loss, by_values = uvfa_loss(values, self._target_of(batch), self.config.anchor)
        by_taken = by_values * slope_of(values, gamma)
        by_distances = torch.zeros_like(distances)
        by_distances.view(-1).index_add_(0, taken.view(-1), by_taken.view(-1))

        def pull(gradient: Tensor) -> None:
            by_features = pull_pairs(gradient)
            if batch.pull is not None and by_features is not None:
                batch.pull(by_features)

        self.optimiser.step(pull, by_distances)
        return loss

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

    def _target_of(self, batch: UVFABatch) -> Tensor:
        distances = self.target.pairs.of_halves(batch.target_halves, *batch.target_rows.unbind(1))
        return wanted(batch.reached, value_of(distances.min(1).values, self.config.gamma), self.config.gamma)
