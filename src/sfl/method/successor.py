"""Heads over features: the successor feature network."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfl.api import EnvSpec, Metrics
from sfl.fast.layers import Adam, Pull, set_gradient, set_gradient_product, train_layers
from sfl.method.config import SuccessorConfig


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


# ---- Successor features psi of the uniform random policy (paper, section 3.2 and appendix on SF learning, Eq. td).


@dataclass(frozen=True)
class SuccessorBatch:
    """n consecutive steps and the state after them: R rows for each of A actions, B = A * R in all.

    Actions with fewer rows are filled up with rows that count 0 times.
    """

    features: Tensor  # [U, F] of distinct states
    steps: Tensor  # [B, n] rows of the features
    weights: Tensor  # [B, n] gamma^k
    first: Draws  # the first states
    bootstrap: Draws  # the states after the steps
    bootstrap_weights: Tensor  # [B] gamma^n
    multiplicity: Tensor  # [B] how often each row was drawn


def sf_td_loss(psi: Tensor, target: Tensor, multiplicity: Tensor, delta: float) -> tuple[Tensor, Tensor]:
    """Eq. (td): Huber loss of psi [B, F] against its target, mean over rows as drawn and features, and its gradient."""
    error = psi - target
    clipped = error.clamp(-delta, delta)
    pulled = clipped * (multiplicity / (multiplicity.sum() * psi.shape[1])).unsqueeze(1)
    return (pulled * (error - 0.5 * clipped)).sum(), pulled


def discounted(phi: Tensor, weights: Tensor) -> Tensor:
    """sum_k gamma^k phi(s_k), [B, F] of phi [B, n, F] and weights [B, n]."""
    return (weights.unsqueeze(2) * phi).sum(1) if phi.shape[1] > 1 else weights * phi[:, 0]


def unit(psi: Tensor) -> Tensor:
    """psi [..., F] scaled to length 1: the product of two is then their similarity, a cosine."""
    return functional.normalize(psi, dim=-1)


def sfs(first: Tensor, second: Tensor) -> Tensor:
    """Eq. 6: successor feature similarity [B, N] of every one of unit psi [B, F] to every one of unit psi [N, F]."""
    return first @ second.mT


def sfs_of_actions(psi: Tensor, targets: Tensor) -> Tensor:
    """Eq. 8: SFS [B, A] of each action's unit psi(s, a) [B, A, F] to the row's own target, of unit psi(g) [B, F]."""
    return (psi @ targets.unsqueeze(2)).squeeze(2)


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
        self.network.eval()  # training takes its own way through the layers
        self._scale = 1.0 - config.gamma if config.unit_scale else 1.0
        epsilon = 0.01 / config.batch_size
        self.optimiser = Adam(self.network, config.learning_rate, epsilon, config.weight_decay)
        white = Whitening(dim // stack, config.whiten_mean, config.whiten_ridge, config.whiten_every)
        self.whitening = white.to(device)
        self.gradient_steps = 0

    @torch.inference_mode()
    def update(self, batch: SuccessorBatch) -> Metrics:
        """One gradient step on raw features."""
        features = batch.features
        if self.config.whiten:
            assert batch.first.states is not None
            assert batch.first.counts is not None
            self.whitening.track(features.index_select(0, batch.first.states), batch.first.counts)
            features = self.white(features)
        phi = features.index_select(0, batch.steps.flatten()).unflatten(0, batch.steps.shape)
        target = self.wanted(phi, batch.weights, self.target(features, batch.bootstrap), batch.bootstrap_weights)
        loss = self.descend(features, batch.first, target, batch.multiplicity)
        self.count_step()
        return {"train/sf_loss": float(loss)}

    def wanted(self, phi: Tensor, weights: Tensor, ahead: Tensor, ahead_weights: Tensor) -> Tensor:
        """The n-step target [B, F]: phi [B, n, F] of the steps, and psi [B, F] of what lies ahead."""
        return self._scale * discounted(phi, weights) + ahead_weights.unsqueeze(1) * ahead

    def descend(self, features: Tensor, first: Draws, target: Tensor, multiplicity: Tensor) -> Tensor:
        """The gradient step itself, of psi of the drawn states and actions towards their targets [B, F]; the loss.

        Only work for the device, of one shape wherever the batches are: nothing in it waits for a number.
        """
        psi, pull = self.network.of_actions(features, first)
        loss, gradient = sf_td_loss(psi.flatten(0, 1), target, multiplicity, self.config.huber_delta)
        self.optimiser.step(pull, gradient.view_as(psi))
        if self.config.target_rate:
            self.target.follow(self.network, self.config.target_rate)
        return loss

    def count_step(self) -> None:
        """To be called after each `descend`: copies the network to the target when that is due."""
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
