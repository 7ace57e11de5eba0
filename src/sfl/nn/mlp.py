"""Hidden layers over states, each of which may be drawn several times, and a network over a state and a goal."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


class DrawnBatchNorm(nn.BatchNorm1d):
    """Batch normalization over the batch as it was drawn: a state drawn twice weighs twice in mean and variance."""

    def forward(self, inputs: Tensor, counts: Tensor | None = None) -> Tensor:
        """[S, F] of distinct inputs [S, F]; `counts` [S] how often each was drawn, None: once."""
        if counts is None or not self.training:
            output: Tensor = super().forward(inputs)
            return output
        drawn = counts.sum()
        shares = counts / drawn
        mean = shares @ inputs
        centred = inputs - mean
        variance = shares @ centred.square()
        if self.track_running_stats:
            self._track(mean.detach(), (variance * (drawn / (drawn - 1))).detach())
        return torch.addcmul(self.bias, centred * (variance + self.eps).rsqrt(), self.weight)

    def _track(self, mean: Tensor, variance: Tensor) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.running_mean.lerp_(mean, self.momentum or 0.1)
        self.running_var.lerp_(variance, self.momentum or 0.1)
        self.num_batches_tracked += 1


class Layers(nn.Sequential):
    """Layers one after the other, some of which want to know how often each input was drawn."""

    def forward(self, inputs: Tensor, counts: Tensor | None = None) -> Tensor:
        """[S, G] of inputs [S, F], drawn `counts` [S] times each, None: once."""
        for layer in self:
            inputs = layer(inputs, counts) if isinstance(layer, DrawnBatchNorm) else layer(inputs)
        return inputs


def end_of_layer(units: int, batch_norm: bool) -> list[nn.Module]:
    """What follows a linear layer of so many units."""
    return [*([DrawnBatchNorm(units)] if batch_norm else []), nn.ReLU(inplace=True)]


class PairNetwork(nn.Module):
    """State and goal to one number for each action: hidden layers with ReLU, and batch normalization if wanted."""

    CHUNK = 32_768
    """Pairs at a time in `of_all`, so that hidden layers of any number of them fit into memory."""

    def __init__(self, dim: int, hidden: Sequence[int], outputs: int, batch_norm: bool) -> None:
        super().__init__()
        self.dim = dim
        self.first = nn.Linear(2 * dim, hidden[0])
        parts = end_of_layer(hidden[0], batch_norm)
        for inputs, units in itertools.pairwise(hidden):
            parts += [nn.Linear(inputs, units), *end_of_layer(units, batch_norm)]
        self.rest = nn.Sequential(*parts, nn.Linear(hidden[-1], outputs))

    def forward(self, states: Tensor, goals: Tensor) -> Tensor:
        """[B, A] of states [B, F] and goals [B, F]."""
        output: Tensor = self.rest(self.first(torch.cat([states, goals], dim=1)))
        return output

    def of_rows(self, features: Tensor, states: Tensor, goals: Tensor) -> Tensor:
        """[B, A] of rows `states` [B] and `goals` [B] of features [U, F]; the first layer sees each feature once."""
        halves = torch.cat(self._halves(features, features))  # [2U, H]
        # A state's and a goal's half of each pair, added in one go: copying both first takes a third longer.
        sums = functional.embedding_bag(torch.stack([states, goals + len(features)], dim=1), halves, mode="sum")
        output: Tensor = self.rest(sums)
        return output

    def of_all(self, states: Tensor, goals: Tensor) -> Tensor:
        """[N, M, A] of every pair of states [N, F] and goals [M, F]; the first layer sees each once."""
        from_states, from_goals = self._halves(states, goals)
        chunks = from_states.split(max(1, self.CHUNK // max(1, len(goals))))
        parts = [self.rest((part.unsqueeze(1) + from_goals).flatten(0, 1)) for part in chunks]
        output: Tensor = torch.cat(parts).unflatten(0, (len(states), len(goals)))
        return output

    def _halves(self, states: Tensor, goals: Tensor) -> tuple[Tensor, Tensor]:
        """The first layer of a pair is the sum of a half from its state and one from its goal."""
        of_states, of_goals = self.first.weight.split(self.dim, dim=1)
        return states @ of_states.mT, torch.addmm(self.first.bias, goals, of_goals.mT)
