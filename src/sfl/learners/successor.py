"""Successor features psi of the uniform random policy (paper, section 3.2 and appendix on SF learning, Eq. td)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfl.core.config import require
from sfl.data.types import EnvSpec, Metrics
from sfl.learners.adam import Adam
from sfl.nn.heads import SuccessorNetwork, copy_weights


@dataclass(frozen=True)
class SuccessorConfig:
    """How psi is learned."""

    hidden: tuple[int, ...] = (512,)
    """Units of the hidden layers."""
    batch_norm: bool = True
    """Batch normalization after each hidden layer (the paper's text); the released MiniGrid code has none."""
    gamma: float = 0.99
    """Discount of the successor features."""
    n_step: int = 1
    """Steps of features before the bootstrap."""
    learning_rate: float = 5e-4
    """Adam's step size."""
    batch_size: int = 128
    """Transitions per gradient step."""
    target_every: int = 250
    """Gradient steps between two copies of the network to the target network."""
    huber_delta: float = 1.0
    """Where the loss turns from squared to linear (the paper's table calls it gradient clip)."""
    start_step: int = 20_000
    """Environment steps before the first gradient step."""
    updates_per_step: float = 1.0
    """Gradient steps per environment step."""
    target_rate: float = 0.0
    """Move the target network by this share after every gradient step instead of copying it; 0 = copy."""
    count_power: float = 1.0
    """Weight of a transition that was drawn n times in a batch is n to this power; below 1 favours rare transitions."""
    whiten: bool = False
    """Decorrelate phi first (second moment = identity): psi is then learned in a tenth of the gradient steps, and no
    direction of phi dominates its cosine."""
    unit_scale: bool = False
    """Learn (1 - gamma) psi, which has the same cosine and stays on the scale of phi."""

    def __post_init__(self) -> None:
        require(all(units > 0 for units in self.hidden), f"successor.hidden must be positive, got {self.hidden}.")
        require(0 <= self.gamma < 1, f"successor.gamma must lie in [0, 1), got {self.gamma}.")
        require(self.n_step >= 1, f"successor.n-step must be at least 1, got {self.n_step}.")
        require(self.learning_rate > 0, f"successor.learning-rate must be positive, got {self.learning_rate}.")
        require(self.batch_size >= 2, f"successor.batch-size must be at least 2, got {self.batch_size}.")
        require(self.target_every >= 1, f"successor.target-every must be at least 1, got {self.target_every}.")
        require(self.huber_delta > 0, f"successor.huber-delta must be positive, got {self.huber_delta}.")
        require(0 <= self.count_power <= 1, f"successor.count-power must lie in [0, 1], got {self.count_power}.")
        require(0 <= self.target_rate <= 1, f"successor.target-rate must lie in [0, 1], got {self.target_rate}.")
        require(self.updates_per_step >= 0, f"successor.updates-per-step must be >= 0, got {self.updates_per_step}.")


@dataclass(frozen=True)
class SuccessorBatch:
    """Features of n consecutive steps and of the state after them; rows in the order of their actions."""

    phi: Tensor  # [B, n, F]
    weights: Tensor  # [B, n] gamma^k
    bootstrap: Tensor  # [B, F]
    bootstrap_weights: Tensor  # [B] gamma^n
    multiplicity: Tensor  # [B] how often each row was drawn
    action_counts: list[int]  # [A] rows of each action


def sf_td_loss(psi: Tensor, batch: SuccessorBatch, ahead: Tensor, delta: float) -> tuple[Tensor, Tensor]:
    """Eq. (td), n steps: psi(s, a) -> sum_k gamma^k phi(s_k) + gamma^n psi_target(s_n), and its gradient by psi.

    Huber loss, mean over the rows as drawn and over features. Shapes: psi [B, F] of the first state and action,
    ahead [B, F] psi_target of the last state.
    """
    target = (batch.weights.unsqueeze(2) * batch.phi).sum(1) + batch.bootstrap_weights.unsqueeze(1) * ahead
    error = psi - target
    clipped = error.clamp(-delta, delta)
    share = (batch.multiplicity / (batch.multiplicity.sum() * psi.shape[1])).unsqueeze(1)
    loss = (share * clipped * (error - 0.5 * clipped)).sum()
    return loss, share * clipped


def sfs(first: Tensor, second: Tensor) -> Tensor:
    """Successor feature similarity: the cosine of psi, [..., N] for first [..., F] and second [N, F]."""
    return functional.normalize(first, dim=-1) @ functional.normalize(second, dim=-1).mT


class SuccessorLearner:
    """The network psi, its slowly moving target, and its gradient step."""

    def __init__(self, config: SuccessorConfig, dim: int, spec: EnvSpec, device: torch.device) -> None:
        self.config = config
        self.network = SuccessorNetwork(dim, spec.action_count, config.hidden, config.batch_norm).to(device)
        self.target = SuccessorNetwork(dim, spec.action_count, config.hidden, config.batch_norm).to(device)
        copy_weights(self.network, self.target)
        self.optimiser = Adam(self.network, config.learning_rate, epsilon=0.01 / config.batch_size)
        self.whitening = Whitening(dim).to(device)
        self.gradient_steps = 0

    @torch.no_grad()
    def update(self, batch: SuccessorBatch) -> Metrics:
        """One gradient step on raw features."""
        if self.config.whiten:
            self.whitening.track(batch.phi[:, 0], batch.multiplicity)
        batch = replace(batch, phi=self.whitening(batch.phi), bootstrap=self.whitening(batch.bootstrap))
        scale = 1.0 - self.config.gamma if self.config.unit_scale else 1.0
        self.network.train()
        self.target.train()
        ahead = self.target.mean_over_actions(batch.bootstrap)
        psi, pull = self.network.of_actions(batch.phi[:, 0], batch.action_counts)
        loss, gradient = sf_td_loss(psi, replace(batch, phi=scale * batch.phi), ahead, self.config.huber_delta)
        self.optimiser.step(pull, gradient)
        self.gradient_steps += 1
        self._move_target()
        return {"train/sf_loss": float(loss)}

    @torch.no_grad()
    def psi(self, phi: Tensor) -> Tensor:
        """psi(s, a) of every action, [B, A, F]."""
        self.network.eval()
        output: Tensor = self.network(self.whitening(phi))
        return output

    @torch.no_grad()
    def _move_target(self) -> None:
        if self.config.target_rate:
            pairs = zip(self.target.parameters(), self.network.parameters(), strict=True)
            for slow, fast in pairs:
                slow.lerp_(fast, self.config.target_rate)
        elif self.gradient_steps % self.config.target_every == 0:
            copy_weights(self.network, self.target)


class Whitening(nn.Module):
    """Running second moment of phi, and the symmetric matrix that makes it the identity; no change until tracked.

    The mean is left in: it lets the cosine tell far states apart, as the constant part of one-hot features does.
    The symmetric root is taken because it moves continuously when the moment does: psi need not be relearned.
    """

    REFRESH_EVERY = 50
    FLOOR = 1e-6
    """Directions with less than this share of the largest moment are noise and are not blown up further."""

    moment: Tensor
    matrix: Tensor
    tracked: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("moment", torch.zeros(dim, dim, dtype=torch.float64))
        self.register_buffer("matrix", torch.eye(dim))
        self.register_buffer("tracked", torch.zeros((), dtype=torch.int64))

    def forward(self, phi: Tensor) -> Tensor:
        """White features of features [..., F], all of one norm: rare states would otherwise outweigh the others."""
        if self.tracked == 0:
            return phi
        return functional.normalize(phi @ self.matrix, dim=-1) * math.sqrt(phi.shape[-1])

    @torch.no_grad()
    def track(self, phi: Tensor, weights: Tensor) -> None:
        """Average over all batches at first, then over about the last thousand."""
        count = int(self.tracked)
        rate = max(1e-3, 1.0 / (count + 1))
        rows = phi.double()
        self.moment += rate * ((rows * (weights / weights.sum()).unsqueeze(1)).mT @ rows - self.moment)
        if count % self.REFRESH_EVERY == 0:
            values, vectors = torch.linalg.eigh(self.moment)
            roots = values.clamp_min(float(self.FLOOR * values[-1])).rsqrt()
            self.matrix = ((vectors * roots) @ vectors.mT).float()
        self.tracked += 1
