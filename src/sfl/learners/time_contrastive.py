"""Features phi by time-contrastive learning (paper, appendix on feature learning, Eq. time-contrastive)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from sfl.core.config import require
from sfl.data.observations import ObservationTable, distinct
from sfl.data.replay import SequenceReplay, Windows
from sfl.data.types import Array, EnvSpec, Metrics
from sfl.learners.state import make_adam
from sfl.nn.encoders import Encoder, GridEncoder, make_encoder


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
    stop_step: int = 0
    """Environment steps after which the encoder is frozen; 0 = never."""
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


def triplet_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float, squared: bool
) -> tuple[Tensor, Metrics]:
    """Eq. (time-contrastive) as a hinge: max(0, m + d(a, p) - d(a, n)).  Shapes: all [B, F]."""
    near = (anchor - positive).square().sum(1)
    far = (anchor - negative).square().sum(1)
    if not squared:
        near, far = (near + 1e-8).sqrt(), (far + 1e-8).sqrt()
    hinge = functional.relu(margin + near - far)
    return hinge.mean(), {"train/encoder_loss": float(hinge.detach().mean())}


class TimeContrastiveLearner:
    """The encoder, its optimiser and its gradient step."""

    def __init__(self, config: FeatureConfig, spec: EnvSpec, device: torch.device) -> None:
        self.config, self.device = config, device
        self.encoder: Encoder = make_encoder(spec.observation_shape, config.dim, config.norm).to(device)
        self.optimiser = make_adam(self.encoder, config.learning_rate, config.batch_size)
        self._windows = Windows(config.positive_window, config.negative_min, config.negative_max)

    def update(self, replay: SequenceReplay, rng: np.random.Generator) -> Metrics | None:
        """One gradient step on triplets from the replay; None while it holds no triplet."""
        slots = replay.sample_triplets(rng, self.config.batch_size, self._windows)
        if slots is None:
            return None
        features = encode_slots(self.encoder, replay.table, slots.reshape(-1), self.device)
        anchor, positive, negative = features.unflatten(0, slots.shape).unbind(1)
        loss, metrics = triplet_loss(anchor, positive, negative, self.config.margin, self.config.squared)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return metrics

    @torch.no_grad()
    def encode(self, observations: Array) -> Tensor:
        """Features [B, F] of observations that need not be in any table."""
        features: Tensor = self.encoder(torch.from_numpy(np.ascontiguousarray(observations)).to(self.device))
        return features


def encode_slots(encoder: Encoder, table: ObservationTable, slots: Array, device: torch.device) -> Tensor:
    """Features [N, F] of observations in the table, each distinct one encoded once."""
    unique, places = distinct(slots)
    return _encode_distinct(encoder, table, unique, device).index_select(0, torch.from_numpy(places).to(device))


def _encode_distinct(encoder: Encoder, table: ObservationTable, slots: Array, device: torch.device) -> Tensor:
    windows = table.windows
    if windows is None or windows.full or not isinstance(encoder, GridEncoder):
        features: Tensor = encoder(torch.from_numpy(table.rows(slots)).to(device))
        return features
    of_slots = windows.windows_of(slots)
    used, places = distinct(of_slots)
    return encoder.forward_windows(
        torch.from_numpy(windows.patch_values).to(device),
        torch.from_numpy(windows.patches_of(used)).to(device),
        torch.from_numpy(places).to(device),
    )
