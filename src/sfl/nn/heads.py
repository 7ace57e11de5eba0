"""Heads over features: the successor feature network."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

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
        hidden, pull_trunk = _train_trunk(self.trunk, features, draws, track=True)
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
        hidden, _ = _train_trunk(self.trunk, features, draws, track=False)
        return _taken(torch.addmm(self.head_bias, hidden, self.head_weight), draws.places)

    @torch.no_grad()
    def follow(self, source: SuccessorNetwork, rate: float = 1.0) -> None:
        """Move by this share towards the source; all the way, become equal to it."""
        slow = (*self.trunk.parameters(), self.head_weight, self.head_bias)
        fast = (*source.trunk.parameters(), source.head_weight.mean(0), source.head_bias.mean(0))
        for ours, theirs in zip(slow, fast, strict=True):
            ours.lerp_(theirs, rate) if rate < 1 else ours.copy_(theirs)


def _train_trunk(trunk: nn.Sequential, features: Tensor, draws: Draws, track: bool) -> tuple[Tensor, Pull]:
    """Hidden units [S, H] of the distinct states, and their pull; `track` moves running statistics."""
    pulls: list[Callable[[Tensor], Tensor]] = []
    hidden = _taken(features, draws.states)
    pull: Callable[[Tensor], Tensor]
    for layer in trunk:
        if isinstance(layer, nn.Linear):
            # Nobody asks for the gradient by the features, so the first layer does not compute it.
            pull = partial(_pull_linear, layer, hidden, layer is trunk[0])
            hidden = functional.linear(hidden, layer.weight, layer.bias)
        elif isinstance(layer, nn.BatchNorm1d):
            hidden, pull = _train_batch_norm(layer, hidden, draws.counts, track)
        else:
            hidden = hidden.relu()
            pull = partial(_pull_relu, hidden)
        pulls.append(pull)

    def pull_all(gradient: Tensor) -> None:
        for pull in reversed(pulls):
            gradient = pull(gradient)

    return hidden, pull_all


def _taken(rows: Tensor, places: Tensor | None) -> Tensor:
    return rows if places is None else rows.index_select(0, places)


def _pull_relu(output: Tensor, gradient: Tensor) -> Tensor:
    return torch.ops.aten.threshold_backward(gradient, output, 0)  # type: ignore[no-any-return]


def _pull_linear(layer: nn.Linear, inputs: Tensor, is_first: bool, gradient: Tensor) -> Tensor:
    set_gradient_product(layer.weight, gradient.mT, inputs)
    set_gradient(layer.bias, gradient.sum(0))
    return gradient if is_first else gradient @ layer.weight


def _train_batch_norm(
    layer: nn.BatchNorm1d, inputs: Tensor, counts: Tensor | None, track: bool
) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Batch normalization over the batch as it was drawn: a state drawn twice weighs twice in mean and variance."""
    if counts is None:
        return _train_even_batch_norm(layer, inputs, track)
    drawn = counts.sum()
    shares = counts / drawn
    mean = shares @ inputs
    centred = inputs - mean
    variance = shares @ centred.square()
    inverse = (variance + layer.eps).rsqrt()
    white = centred.mul_(inverse)
    if track:
        _track_statistics(layer, mean, variance * (drawn / (drawn - 1)))

    def pull(gradient: Tensor) -> Tensor:
        by_bias, by_weight = gradient.sum(0), (gradient * white).sum(0)
        set_gradient(layer.weight, by_weight)
        set_gradient(layer.bias, by_bias)
        through_statistics = shares.unsqueeze(1) * torch.addcmul(by_bias, white, by_weight)
        return (gradient - through_statistics) * (layer.weight * inverse)

    return torch.addcmul(layer.bias, white, layer.weight), pull


def _train_even_batch_norm(
    layer: nn.BatchNorm1d, inputs: Tensor, track: bool
) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """The same where each row counts once: torch's own, a tenth of the operations."""
    running = (layer.running_mean, layer.running_var) if track else (None, None)
    momentum = layer.momentum or 0.1
    output, mean, inverse = torch.native_batch_norm(
        inputs, layer.weight, layer.bias, *running, True, momentum, layer.eps
    )
    if track:
        assert layer.num_batches_tracked is not None
        layer.num_batches_tracked += 1

    def pull(gradient: Tensor) -> Tensor:
        by_inputs, by_weight, by_bias = torch.ops.aten.native_batch_norm_backward(
            gradient, inputs, layer.weight, None, None, mean, inverse, True, layer.eps, [True, True, True]
        )
        set_gradient(layer.weight, by_weight)
        set_gradient(layer.bias, by_bias)
        return by_inputs  # type: ignore[no-any-return]

    return output, pull


def _track_statistics(layer: nn.BatchNorm1d, mean: Tensor, variance: Tensor) -> None:
    assert layer.running_mean is not None
    assert layer.running_var is not None
    assert layer.num_batches_tracked is not None
    layer.running_mean.lerp_(mean, layer.momentum or 0.1)
    layer.running_var.lerp_(variance, layer.momentum or 0.1)
    layer.num_batches_tracked += 1
