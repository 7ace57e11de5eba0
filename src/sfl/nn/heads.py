"""Heads over features: the successor feature network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfl.nn.pullback import Pull, accumulate, accumulate_product


class SuccessorNetwork(nn.Module):
    """psi(s, .): features [B, F] to successor features [B, A, F] of every action."""

    def __init__(self, dim: int, action_count: int, hidden: tuple[int, ...], batch_norm: bool) -> None:
        super().__init__()
        self.dim, self.action_count = dim, action_count
        layers: list[nn.Module] = []
        size = dim
        for units in hidden:
            layers.append(nn.Linear(size, units))
            if batch_norm:
                layers.append(nn.BatchNorm1d(units))
            layers.append(nn.ReLU())
            size = units
        self.trunk = nn.Sequential(*layers)
        self.head = nn.Linear(size, action_count * dim)

    def forward(self, features: Tensor) -> Tensor:
        """psi(s, a) for all actions, [B, A, F]."""
        output: Tensor = self.head(self.trunk(features)).unflatten(1, (self.action_count, self.dim))
        return output

    @torch.no_grad()
    def of_actions(self, features: Tensor, counts: list[int]) -> tuple[Tensor, Pull]:
        """psi(s, a) of one action each, [B, F], and its pull; the first counts[0] rows are for action 0, and so on.

        Only the heads that are asked for are computed, a quarter of the work with four actions.
        """
        hidden, pull_trunk = self._trunk_forward(features)
        weights, biases = self._heads()
        parts = hidden.split(counts)
        psi = torch.cat([functional.linear(*row) for row in zip(parts, weights, biases, strict=True)])

        @torch.no_grad()
        def pull(gradient: Tensor) -> None:
            rows = gradient.split(counts)
            self._pull_heads(rows, parts)
            accumulate(self.head.bias, torch.cat([row.sum(0) for row in rows]))
            pull_trunk(torch.cat([row @ weight for row, weight in zip(rows, weights, strict=True)]))

        return psi, pull

    def _pull_heads(self, rows: Sequence[Tensor], parts: Sequence[Tensor]) -> None:
        """Each action's rows add to its own slice of the gradient."""
        if self.head.weight.grad is None:
            self.head.weight.grad = torch.zeros_like(self.head.weight)
        slices = self.head.weight.grad.unflatten(0, (self.action_count, self.dim)).unbind(0)
        for part_of_gradient, row, part in zip(slices, rows, parts, strict=True):
            part_of_gradient.addmm_(row.mT, part)

    def _heads(self) -> tuple[Tensor, Tensor]:
        """Weights [A, F, H] and biases [A, F] by action."""
        shape = (self.action_count, self.dim)
        return self.head.weight.unflatten(0, shape), self.head.bias.unflatten(0, shape)

    def _trunk_forward(self, features: Tensor) -> tuple[Tensor, Pull]:
        pulls: list[Callable[[Tensor], Tensor]] = []
        hidden = features
        for layer in self.trunk:
            # Nobody asks for the gradient by the features, so the first layer does not compute it.
            hidden, pull = _layer_forward(layer, hidden, is_first=layer is self.trunk[0])
            pulls.append(pull)

        def pull_all(gradient: Tensor) -> None:
            for pull in reversed(pulls):
                gradient = pull(gradient)

        return hidden, pull_all

    def mean_over_actions(self, features: Tensor) -> Tensor:
        """psi(s) of the uniform policy, [B, F]: heads are linear, so their weights are averaged, not their outputs."""
        weights, biases = self._heads()
        return functional.linear(self.trunk(features), weights.mean(0), biases.mean(0))


def _layer_forward(layer: nn.Module, inputs: Tensor, is_first: bool) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Output of one layer, and what turns the gradient by it into the gradient by its inputs."""
    if isinstance(layer, nn.Linear):
        return functional.linear(inputs, layer.weight, layer.bias), partial(_pull_linear, layer, inputs, is_first)
    if isinstance(layer, nn.BatchNorm1d):
        return _batch_norm_forward(layer, inputs)
    output = inputs.relu()
    return output, lambda gradient: gradient * (output > 0)


def _pull_linear(layer: nn.Linear, inputs: Tensor, is_first: bool, gradient: Tensor) -> Tensor:
    accumulate_product(layer.weight, gradient.mT, inputs)
    accumulate(layer.bias, gradient.sum(0))
    return gradient if is_first else gradient @ layer.weight


def _batch_norm_forward(layer: nn.BatchNorm1d, inputs: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    statistics = (layer.running_mean, layer.running_var)
    output, mean, inverse = torch.native_batch_norm(
        inputs, layer.weight, layer.bias, *statistics, True, layer.momentum or 0.1, layer.eps
    )
    assert layer.num_batches_tracked is not None
    layer.num_batches_tracked += 1

    def pull(gradient: Tensor) -> Tensor:
        by_inputs, by_weight, by_bias = torch.ops.aten.native_batch_norm_backward(
            gradient, inputs, layer.weight, *statistics, mean, inverse, True, layer.eps, [True, True, True]
        )
        accumulate(layer.weight, by_weight)
        accumulate(layer.bias, by_bias)
        return by_inputs  # type: ignore[no-any-return]

    return output, pull


@torch.no_grad()
def copy_weights(source: nn.Module, target: nn.Module) -> None:
    """Make `target` equal to `source`, running statistics included."""
    target.load_state_dict(source.state_dict())
