"""Features phi by time-contrastive learning (paper, appendix on feature learning, Eq. time-contrastive)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sfl.api import Array, EnvSpec, Metrics
from sfl.fast.grid import encode_slots
from sfl.fast.layers import Adam, Pull
from sfl.method.config import FeatureConfig
from sfl.nn.encoders import Encoder, make_encoder
from sfl.replay.replay import Windows
from sfl.replay.store import DistinctStore


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

    def encode_slots(self, table: DistinctStore, slots: Array) -> tuple[Tensor, Pull]:
        """Features [U, F] of distinct observations in the table, and their pull for a gradient step."""
        return encode_slots(self.encoder, table, slots, self.device)
