"""Heads over features: the successor feature network."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


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
        output: Tensor = self.head(self.trunk(features))
        return output.unflatten(1, (self.action_count, self.dim))

    def of_actions(self, features: Tensor, counts: list[int]) -> Tensor:
        """psi(s, a) of one action each, [B, F]; the first counts[0] rows are for action 0, and so on.

        Only the heads that are asked for are computed, a quarter of the work with four actions.
        """
        parts = self.trunk(features).split(counts)
        weights = self.head.weight.unflatten(0, (self.action_count, self.dim))
        biases = self.head.bias.unflatten(0, (self.action_count, self.dim))
        return torch.cat([functional.linear(part, weights[a], biases[a]) for a, part in enumerate(parts)])

    def mean_over_actions(self, features: Tensor) -> Tensor:
        """psi(s) of the uniform policy, [B, F]: the heads are linear, so their weights are averaged instead of outputs."""
        weight = self.head.weight.unflatten(0, (self.action_count, self.dim)).mean(0)
        bias = self.head.bias.unflatten(0, (self.action_count, self.dim)).mean(0)
        return functional.linear(self.trunk(features), weight, bias)


@torch.no_grad()
def copy_weights(source: nn.Module, target: nn.Module) -> None:
    """Make `target` equal to `source`, running statistics included."""
    target.load_state_dict(source.state_dict())
