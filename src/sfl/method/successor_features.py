"""Successor features psi (Eq. 2) of the uniform random policy, and how they are learned.

First the similarity of states (Eq. 5, 6 and 8), then the network and its target, then the TD loss (Eq. 10) and the
learner that descends it, last the whitening of phi, which is ours.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfl.api import EnvSpec
from sfl.method.config import SuccessorConfig
from sfl.nn.mlp import DrawnBatchNorm, Layers, end_of_layer
from sfl.nn.weights import make_adam


def unit(psi: Tensor) -> Tensor:
    """psi [..., F] scaled to length 1: the product of two is then their similarity, a cosine."""
    return functional.normalize(psi, dim=-1)


def sfs(first: Tensor, second: Tensor) -> Tensor:
    """Eq. 6: successor feature similarity [B, N] of every one of unit psi [B, F] to every one of unit psi [N, F]."""
    return first @ second.mT


def sfs_of_actions(psi: Tensor, targets: Tensor) -> Tensor:
    """Eq. 8: SFS [B, A] of each action's unit psi(s, a) [B, A, F] to the row's own target, of unit psi(g) [B, F]."""
    return (psi @ targets.unsqueeze(2)).squeeze(2)


@dataclass(frozen=True)
class BatchStates:
    """The states of a batch. Each distinct one is computed once, and counts as often as it was drawn: the same mean."""

    values: Tensor  # [S, D]
    rows: Tensor | None = None  # [B] which of them each row of the batch is; None: each in turn
    counts: Tensor | None = None  # [S] how often each was drawn, for batch normalization; None: once


class SuccessorNetwork(nn.Module):
    """psi(s, .): states [B, D] to successor features [B, A, F] of every action."""

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
            layers += [nn.Linear(size, units), *end_of_layer(units, batch_norm)]
            size = units
        self.trunk = Layers(*layers)
        # Inputs first: with the few rows that each action has in a batch, this product is several times faster.
        bound = size**-0.5  # as nn.Linear begins
        self.head_weight = nn.Parameter(torch.empty(action_count, size, outputs).uniform_(-bound, bound))
        self.head_bias = nn.Parameter(torch.empty(action_count, 1, outputs).uniform_(-bound, bound))

    def forward(self, states: Tensor, counts: Tensor | None = None) -> Tensor:
        """psi(s, a) for all actions, [B, A, F]; in training, `counts` [B]: how often each state was drawn."""
        hidden: Tensor = self.trunk(states, counts)
        return (hidden @ self.head_weight + self.head_bias).transpose(0, 1)

    def of_actions(self, states: BatchStates, actions: Tensor) -> Tensor:
        """psi(s, a) of one action each, [B, F], for the rows [B] of the states and actions [B]."""
        hidden = self.trunk(states.values, states.counts)
        heads = hidden.expand(self.action_count, -1, -1)  # with its gradient, one product for all heads is slower
        psi = torch.baddbmm(self.head_bias, heads, self.head_weight)  # [A, S, F]
        rows = torch.arange(len(actions), device=actions.device) if states.rows is None else states.rows
        return psi.flatten(0, 1).index_select(0, actions * len(hidden) + rows)


class MeanNetwork(nn.Module):
    """psi(s) of the uniform policy, following a successor network: heads are linear, so their mean is one head."""

    head_weight: Tensor
    head_bias: Tensor

    def __init__(self, source: SuccessorNetwork) -> None:
        super().__init__()
        self.trunk = copy.deepcopy(source.trunk).requires_grad_(False)
        for layer in self.trunk:
            if isinstance(layer, DrawnBatchNorm):  # always by the statistics of the batch, as in training
                layer.track_running_stats = False
                layer.running_mean = layer.running_var = layer.num_batches_tracked = None
        self.register_buffer("head_weight", torch.zeros_like(source.head_weight[0]))
        self.register_buffer("head_bias", torch.zeros_like(source.head_bias[0]))
        self.follow(source)

    @torch.no_grad()
    def forward(self, states: BatchStates) -> Tensor:
        """psi(s) of every row, [B, F]."""
        hidden = self.trunk(states.values, states.counts)
        psi = torch.addmm(self.head_bias, hidden, self.head_weight)
        return psi if states.rows is None else psi.index_select(0, states.rows)

    @torch.no_grad()
    def follow(self, source: SuccessorNetwork, rate: float = 1.0) -> None:
        """Move by this share towards the source; all the way, become equal to it."""
        slow = (*self.trunk.parameters(), self.head_weight, self.head_bias)
        fast = (*source.trunk.parameters(), source.head_weight.mean(0), source.head_bias.mean(0))
        for ours, theirs in zip(slow, fast, strict=True):
            ours.lerp_(theirs, rate) if rate < 1 else ours.copy_(theirs)


@dataclass(frozen=True)
class StepBatch:
    """n consecutive steps from each of B states, and the states after them."""

    phi: Tensor  # [B, n, F] features of the states of the steps
    weights: Tensor  # [B, n] gamma^k, 0 beyond the episode's end
    first: BatchStates
    actions: Tensor  # [B] the first step's
    last: BatchStates  # after the steps, from which the return is bootstrapped
    last_weights: Tensor  # [B] gamma^n
    multiplicity: Tensor | None = None  # [B] how often each row was drawn; None: once


def td_target(phi: Tensor, weights: Tensor, ahead: Tensor, ahead_weights: Tensor) -> Tensor:
    """Eq. 10, what psi(s, a) is to be: sum_k gamma^k phi(s_k) + gamma^n psi(s_n), [B, F].

    Shapes: phi [B, n, F], weights [B, n], psi ahead [B, F], its weights [B].
    """
    steps = (weights.unsqueeze(2) * phi).sum(1) if phi.shape[1] > 1 else weights * phi[:, 0]
    return steps + ahead_weights.unsqueeze(1) * ahead


def td_loss(psi: Tensor, target: Tensor, multiplicity: Tensor | None, delta: float) -> tuple[Tensor, dict[str, Tensor]]:
    """Eq. 10 with Huber's loss: psi [B, F] against its target, mean over rows as drawn and features."""
    errors = functional.huber_loss(psi, target, delta=delta, reduction="none").mean(1)
    loss = errors.mean() if multiplicity is None else (errors * multiplicity).sum() / multiplicity.sum()
    return loss, {"train/sf_loss": loss.detach()}


class SuccessorLearner:
    """The network psi, its slowly moving target, and its gradient step."""

    def __init__(
        self,
        config: SuccessorConfig,
        dim: int,
        spec: EnvSpec,
        device: torch.device,
        outputs: int | None = None,
        stack: int = 1,
    ) -> None:
        """`dim`: numbers of a state; `outputs`: of its features, None where the state is its own features; `stack`:
        equal parts of the state that are whitened each for itself."""
        self.config = config
        self.network = SuccessorNetwork(dim, spec.action_count, config.hidden, config.batch_norm, outputs).to(device)
        self.target = MeanNetwork(self.network)
        self.network.eval()  # but for its gradient steps
        self._scale = 1.0 - config.gamma if config.unit_scale else 1.0
        epsilon = 0.01 / config.batch_size
        self.optimiser = make_adam(self.network, config.learning_rate, epsilon, config.weight_decay)
        white = Whitening(dim // stack, config.whiten_mean, config.whiten_ridge, config.whiten_every)
        self.whitening = white.to(device)
        self.gradient_steps = 0

    def loss(self, batch: StepBatch) -> tuple[Tensor, dict[str, Tensor]]:
        """Eq. 10 on a batch of white features."""
        target = td_target(self._scale * batch.phi, batch.weights, self.target(batch.last), batch.last_weights)
        psi = self.network.of_actions(batch.first, batch.actions)
        return td_loss(psi, target, batch.multiplicity, self.config.huber_delta)

    @torch.enable_grad()
    def step(self, batch: StepBatch) -> dict[str, Tensor]:
        """One gradient step. Only work for the device: nothing in it waits for a number, so that a GPU can replay it.
        `count_step` comes after it."""
        self.network.train()
        loss, metrics = self.loss(batch)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.network.eval()
        if self.config.target_rate:
            self.target.follow(self.network, self.config.target_rate)
        return metrics

    def count_step(self) -> None:
        """Another gradient step was made: copy the network to the target when that is due."""
        self.gradient_steps += 1
        if not self.config.target_rate and self.gradient_steps % self.config.target_every == 0:
            self.target.follow(self.network)

    @torch.no_grad()
    def psi(self, phi: Tensor) -> Tensor:
        """psi(s, a) of every action, [B, A, F]."""
        output: Tensor = self.network(self.white(phi))
        return output

    def white(self, features: Tensor) -> Tensor:
        """Features [..., n * F] as psi sums them up."""
        return self.whitening(features) if self.config.whiten else features


class Whitening(nn.Module):
    """Running second moment of phi, and the symmetric matrix that makes it the identity.

    The mean may be left in: it lets the cosine tell far states apart, as the constant part of one-hot features does.
    The symmetric root is taken because it moves continuously when the moment does: psi need not be relearned.
    """

    FLOOR = 1e-6
    """Directions with less than this share of the largest moment are noise and are not blown up further."""

    moment: Tensor
    mean: Tensor
    shift: Tensor
    matrix: Tensor
    tracked: Tensor

    def __init__(self, dim: int, centred: bool = False, ridge: float = 0.0, refresh_every: int = 50) -> None:
        super().__init__()
        self._centred, self._ridge, self._refresh_every = centred, ridge, refresh_every
        self.register_buffer("moment", torch.zeros(dim, dim, dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(dim, dtype=torch.float64))
        self.register_buffer("shift", torch.zeros(dim))
        self.register_buffer("matrix", torch.eye(dim))
        self.register_buffer("tracked", torch.zeros((), dtype=torch.int64))
        self._count: int | None = 0  # as `tracked`, which may lie on a GPU, and asking it would wait; None: ask once

    @property
    def count(self) -> int:
        """Batches tracked so far."""
        if self._count is None:
            self._count = int(self.tracked)
        return self._count

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self._count = None

    def forward(self, phi: Tensor) -> Tensor:
        """White features of features [..., n * F], all of one norm: rare states would otherwise outweigh the others."""
        size = len(self.matrix)
        parts = phi.unflatten(-1, (-1, size)) if phi.shape[-1] > size else phi
        white: Tensor = (parts - self.shift if self._centred else parts) @ self.matrix
        white *= math.sqrt(size) / torch.linalg.vector_norm(white, dim=-1, keepdim=True).clamp_min(1e-12)
        return white.flatten(-2) if phi.shape[-1] > size else white

    @torch.no_grad()
    def track(self, phi: Tensor, weights: Tensor | None = None, batches: int = 1) -> None:
        """Average over all batches at first, then over about the last thousand; of stacks [N, n * F] the newest.

        Several `batches` may come at once. `weights` [N]: how often a row counts, None: once.
        """
        count = self.count
        rate = min(1.0, max(1e-3 * batches, batches / (count + batches)))
        rows = phi[:, -len(self.matrix) :].double()
        shares = rows.new_full((len(rows),), 1.0 / len(rows)) if weights is None else (weights / weights.sum()).double()
        self.moment += rate * ((rows * shares.unsqueeze(1)).mT @ rows - self.moment)
        if self._centred:
            self.mean += rate * (shares @ rows - self.mean)
        if (count + batches - 1) // self._refresh_every > (count - 1) // self._refresh_every:
            self._refresh()
        self.tracked += batches
        self._count = count + batches

    def _refresh(self) -> None:
        """The matrix of the present moments. In place: captured work reads it where it is."""
        moment = self.moment - torch.outer(self.mean, self.mean)
        moment.diagonal().add_(self._ridge * moment.diagonal().mean())
        values, vectors = torch.linalg.eigh(moment)
        roots = values.clamp_min(self.FLOOR * values[-1]).rsqrt()
        self.matrix.copy_((vectors * roots) @ vectors.mT)
        self.shift.copy_(self.mean)
