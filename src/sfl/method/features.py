"""Features phi by time-contrastive learning (paper, appendix on feature learning, Eq. time-contrastive)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sfl.api import Array, EnvSpec, Metrics
from sfl.config import require
from sfl.fast.grid import encode_slots
from sfl.fast.layers import Adam, Pull
from sfl.nn.encoders import Encoder, make_encoder
from sfl.replay.replay import Windows
from sfl.replay.store import ObservationTable


@dataclass(frozen=True)
class FeatureConfig:
    """How phi is learned."""

    dim: int = 64
    """Length of a feature vector."""
    norm: float = 10.0
    """alpha: every feature vector has this Euclidean norm."""
    margin: float = 2.0
    """m: how much nearer the positive must be than the negative."""
    squared: bool = True
    """Squared distances as in the paper's equation; the released code takes plain ones."""
    positive_window: int = 2
    """K_p: positives lie at most this many steps from the anchor."""
    negative_min: int = 10
    """U_n: negatives lie at least this many steps away."""
    negative_max: int = 15
    """L_n: and at most this many."""
    learning_rate: float = 5e-4
    """Adam's step size."""
    batch_size: int = 128
    """Triplets per gradient step."""
    start_step: int = 1_000
    """Environment steps before the first gradient step."""
    stop_step: int = 40_000
    """Environment steps after which the encoder is frozen, when Algorithm 1 begins; 0 = never (the released code)."""
    updates_per_step: float = 1.0
    """Gradient steps per environment step."""

    def __post_init__(self) -> None:
        require(self.dim > 0, f"features.dim must be positive, got {self.dim}.")
        require(self.norm > 0, f"features.norm must be positive, got {self.norm}.")
        require(self.margin > 0, f"features.margin must be positive, got {self.margin}.")
        require(self.positive_window >= 1, f"features.positive-window must be at least 1, got {self.positive_window}.")
        require(
            self.positive_window < self.negative_min <= self.negative_max,
            "features: positive-window < negative-min <= negative-max must hold, "
            f"got {self.positive_window}, {self.negative_min}, {self.negative_max}.",
        )
        require(self.learning_rate > 0, f"features.learning-rate must be positive, got {self.learning_rate}.")
        require(self.batch_size >= 1, f"features.batch-size must be at least 1, got {self.batch_size}.")
        require(self.updates_per_step >= 0, f"features.updates-per-step must be >= 0, got {self.updates_per_step}.")


def triplet_loss(features: Tensor, margin: float, squared: bool) -> tuple[Tensor, Tensor]:
    """Eq. (time-contrastive) as a hinge, max(0, m + d(a, p) - d(a, n)), mean over triplets, and its gradient.

    Shapes: features [B, 3, F] of anchor, positive and negative; the gradient has the same.
    """
    apart = features[:, :1] - features[:, 1:]  # [B, 2, F]
    distance = apart.square().sum(2)
    slope = 2.0 if squared else (distance := (distance + 1e-8).sqrt()).reciprocal().unsqueeze(2)
    hinge = (margin + distance[:, 0] - distance[:, 1]).relu_()
    share = (hinge > 0).float().div_(len(features)).view(-1, 1, 1)
    positive, negative = (apart * (slope * share)).unbind(1)  # gradients of d(a, p) and d(a, n) by the anchor
    return hinge.mean(), torch.stack([positive - negative, -positive, negative], dim=1)


class TimeContrastiveLearner:
    """The encoder, its optimiser and its gradient step."""

    def __init__(self, config: FeatureConfig, spec: EnvSpec, device: torch.device) -> None:
        self.config, self.device = config, device
        self.encoder: Encoder = make_encoder(spec.observation_shape, config.dim, config.norm).to(device)
        # The paper names only the optimiser; epsilon is the released code's.
        self.optimiser = Adam(self.encoder, config.learning_rate, epsilon=0.01 / config.batch_size)
        self.windows = Windows(config.positive_window, config.negative_min, config.negative_max)

    def update(self, features: Tensor, pull: Pull, rows: Tensor) -> Metrics:
        """One gradient step on triplets `rows` [B, 3] of distinct features [U, F] with their pull."""
        loss, gradient = self._loss(features, rows)
        self.optimiser.step(pull, gradient)
        return {"train/encoder_loss": float(loss)}

    @torch.inference_mode()
    def _loss(self, features: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The loss and its gradient by the distinct features."""
        triplets = features.index_select(0, rows.flatten()).unflatten(0, rows.shape)
        loss, gradient = triplet_loss(triplets, self.config.margin, self.config.squared)
        return loss, torch.zeros_like(features).index_add_(0, rows.flatten(), gradient.flatten(0, 1))

    @torch.no_grad()
    def encode(self, observations: Array) -> Tensor:
        """Features [B, F] of observations that need not be in any table."""
        features: Tensor = self.encoder(torch.from_numpy(np.ascontiguousarray(observations)).to(self.device))
        return features

    def encode_slots(self, table: ObservationTable, slots: Array) -> tuple[Tensor, Pull]:
        """Features [U, F] of distinct observations in the table, and their pull for a gradient step."""
        return encode_slots(self.encoder, table, slots, self.device)
