"""A network over two states side by side."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfl.fast.layers import set_gradient, train_layers


class PairNetwork(nn.Module):
    """State and goal to one number for each action: hidden layers with ReLU, and batch normalization if wanted."""

    CHUNK = 32_768
    """Pairs at a time in `of_all`, so that hidden layers of any number of them fit into memory."""

    def __init__(self, dim: int, hidden: Sequence[int], outputs: int, batch_norm: bool) -> None:
        super().__init__()
        self.dim = dim
        self.first = nn.Linear(2 * dim, hidden[0])
        parts = list(_end_of_layer(hidden[0], batch_norm))
        for inputs, units in itertools.pairwise(hidden):
            parts += [nn.Linear(inputs, units), *_end_of_layer(units, batch_norm)]
        self.rest = nn.Sequential(*parts, nn.Linear(hidden[-1], outputs))

    def forward(self, states: Tensor, goals: Tensor) -> Tensor:
        """[B, A] of states [B, F] and goals [B, F]."""
        output: Tensor = self.rest(self.first(torch.cat([states, goals], dim=1)))
        return output

    def halves(self, features: Tensor) -> Tensor:
        """[2, U, H]: what the first layer makes of features [U, F] as states, and of the same as goals."""
        return torch.stack(self._halves(features, features))

    def of_halves(self, halves: Tensor, states: Tensor, goals: Tensor) -> Tensor:
        """[B, A] of rows `states` [B] and `goals` [B] of halves [2, U, H]."""
        output: Tensor = self.rest(_sums(halves, states, goals))
        return output

    def train_rows(
        self, features: Tensor, states: Tensor, goals: Tensor, counts: Tensor | None, by_features: bool
    ) -> tuple[Tensor, Callable[[Tensor], Tensor | None]]:
        """[B, A] of rows `states` [B] and `goals` [B] of features [U, F] in training, and its pull; autograd is off.

        The first layer sees each feature once. `counts` [B]: how often a pair counts for batch normalization.
        The pull returns the gradient by the features, if it is wanted.
        """
        halves = self.halves(features)
        output, pull_rest = train_layers(self.rest, _sums(halves, states, goals), counts)

        def pull(gradient: Tensor) -> Tensor | None:
            by_sums, by_halves = pull_rest(gradient), torch.zeros_like(halves)
            by_states, by_goals = (
                half.index_add_(0, rows, by_sums) for half, rows in zip(by_halves, (states, goals), strict=True)
            )
            set_gradient(self.first.weight, torch.cat([by_states.mT @ features, by_goals.mT @ features], dim=1))
            set_gradient(self.first.bias, by_goals.sum(0))
            if not by_features:
                return None
            of_states, of_goals = self.first.weight.split(self.dim, dim=1)
            return torch.addmm(by_states @ of_states, by_goals, of_goals)

        return output, pull

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


def _sums(halves: Tensor, states: Tensor, goals: Tensor) -> Tensor:
    """[B, H]: a state's and a goal's half of each pair. In one go: copying both first takes a third longer."""
    pairs = torch.stack([states, goals + halves.shape[1]], dim=1)
    return functional.embedding_bag(pairs, halves.flatten(0, 1), mode="sum")


def _end_of_layer(units: int, batch_norm: bool) -> Iterator[nn.Module]:
    if batch_norm:
        yield nn.BatchNorm1d(units)
    yield nn.ReLU()
