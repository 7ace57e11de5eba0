"""Heads over features: the successor feature network."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sfl.nn.layers import train_layers
from sfl.nn.pullback import Pull, set_gradient, set_gradient_product


@dataclass(frozen=True)
class Draws:
    """Which states a batch is made of. Each is computed once, and counts as often as it was drawn: the same mean."""

    states: Tensor | None = None  # [S] rows of the features; None: all of them in turn
    places: Tensor | None = None  # [B] for each row of the batch its place among the states; None: each in turn
    counts: Tensor | None = None  # [S] how often each was drawn; None: once


class SuccessorNetwork(nn.Module):
    """psi(s, .): states [B, S] to successor features [B, A, F] of every action."""

    def __init__(
        self, dim: int, action_count: int, hidden: tuple[int, ...], batch_norm: bool, outputs: int | None = None
    ) -> None:
        """`dim`: numbers of a state; `outputs`: of its features, None where the state is its own features."""
        super().__init__()
        outputs = outputs or dim
        self.dim, self.outputs, self.action_count = dim, outputs, action_count
        layers: list[nn.Module] = []
        size = dim
        for units in hidden:
            layers.append(nn.Linear(size, units))
            if batch_norm:
                layers.append(nn.BatchNorm1d(units))
            layers.append(nn.ReLU())
            size = units
        self.trunk = nn.Sequential(*layers)
        # Inputs first: with the few rows that each action has in a batch, this product is several times faster.
        bound = size**-0.5  # as nn.Linear begins
        self.head_weight = nn.Parameter(torch.empty(action_count, size, outputs).uniform_(-bound, bound))
        self.head_bias = nn.Parameter(torch.empty(action_count, 1, outputs).uniform_(-bound, bound))

    def forward(self, features: Tensor) -> Tensor:
        """psi(s, a) for all actions, [B, A, F]."""
        hidden: Tensor = self.trunk(features)
        return (hidden @ self.head_weight + self.head_bias).transpose(0, 1)

    def of_actions(self, features: Tensor, draws: Draws) -> tuple[Tensor, Pull]:
        """psi(s, a) of one action each, [A, R, F] for draws with places [A * R], in training, and its pull.

        Only the heads that are asked for are computed, a quarter of the work with four actions. Autograd must be off.
        """
        assert draws.places is not None
        places = draws.places
        # Nobody asks for the gradient by the features.
        states = _taken(features, draws.states)
        hidden, pull_trunk = train_layers(self.trunk, states, draws.counts, by_inputs=False)
        inputs = hidden.index_select(0, places).unflatten(0, (self.action_count, -1))  # [A, R, H]
        psi = torch.baddbmm(self.head_bias, inputs, self.head_weight)

        def pull(gradient: Tensor) -> None:
            set_gradient_product(self.head_weight, inputs.mT, gradient)
            set_gradient(self.head_bias, gradient.sum(1, keepdim=True))
            by_inputs = (gradient @ self.head_weight.mT).flatten(0, 1)
            pull_trunk(torch.zeros_like(hidden).index_add_(0, places, by_inputs))

        return psi, pull


class MeanNetwork(nn.Module):
    """psi(s) of the uniform policy, following a successor network: heads are linear, so their mean is one head."""

    head_weight: Tensor
    head_bias: Tensor

    def __init__(self, source: SuccessorNetwork) -> None:
        super().__init__()
        self.trunk = copy.deepcopy(source.trunk).requires_grad_(False)
        self.register_buffer("head_weight", torch.zeros_like(source.head_weight[0]))
        self.register_buffer("head_bias", torch.zeros_like(source.head_bias[0]))
        self.follow(source)

    def forward(self, features: Tensor, draws: Draws) -> Tensor:
        """psi(s) of every row, [B, F], with the statistics of this batch, as in training. Autograd must be off."""
        hidden, _ = train_layers(self.trunk, _taken(features, draws.states), draws.counts, track=False)
        return _taken(torch.addmm(self.head_bias, hidden, self.head_weight), draws.places)

    @torch.no_grad()
    def follow(self, source: SuccessorNetwork, rate: float = 1.0) -> None:
        """Move by this share towards the source; all the way, become equal to it."""
        slow = (*self.trunk.parameters(), self.head_weight, self.head_bias)
        fast = (*source.trunk.parameters(), source.head_weight.mean(0), source.head_bias.mean(0))
        for ours, theirs in zip(slow, fast, strict=True):
            ours.lerp_(theirs, rate) if rate < 1 else ours.copy_(theirs)


def _taken(rows: Tensor, places: Tensor | None) -> Tensor:
    return rows if places is None else rows.index_select(0, places)
