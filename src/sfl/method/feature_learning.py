"""Features phi of observations, learned by time contrast (paper, appendix on feature learning, Eq. 9)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sfl.api import Array, EnvSpec
from sfl.method.config import FeatureConfig
from sfl.nn.encoders import Encoder, make_encoder
from sfl.nn.weights import make_adam
from sfl.replay.replay import Windows


def triplet_loss(features: Tensor, margin: float, squared: bool) -> tuple[Tensor, dict[str, Tensor]]:
    """Eq. 9 as a hinge, max(0, m + d(a, p) - d(a, n)), mean over triplets; and what to report of it.

    Shapes: features [B, 3, F] of anchor, positive and negative.
    """
    distance = (features[:, :1] - features[:, 1:]).square().sum(2)  # [B, 2] to positive and negative
    if not squared:
        distance = (distance + 1e-8).sqrt()
    loss = (margin + distance[:, 0] - distance[:, 1]).relu().mean()
    return loss, {"train/encoder_loss": loss.detach()}


class FeatureLearner:
    """The encoder, its optimiser and its gradient step."""

    def __init__(self, config: FeatureConfig, spec: EnvSpec, device: torch.device) -> None:
        self.config, self.device = config, device
        self.encoder: Encoder = make_encoder(spec.observation_shape, config.dim, config.norm).to(device)
        # The paper names only the optimiser; epsilon is the released code's.
        self.optimiser = make_adam(self.encoder, config.learning_rate, epsilon=0.01 / config.batch_size)
        self.windows = Windows(config.positive_window, config.negative_min, config.negative_max)

    def update(self, features: Tensor, triplets: Tensor) -> dict[str, Tensor]:
        """One gradient step on triplets [B, 3] of rows of features [U, F] that the encoder made of observations."""
        chosen = features.index_select(0, triplets.flatten()).unflatten(0, triplets.shape)
        loss, metrics = triplet_loss(chosen, self.config.margin, self.config.squared)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return metrics

    @torch.no_grad()
    def encode(self, observations: Array) -> Tensor:
        """Features [B, F] of observations [B, ...]."""
        features: Tensor = self.encoder(torch.from_numpy(np.ascontiguousarray(observations)).to(self.device))
        return features
