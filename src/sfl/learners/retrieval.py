"""R, the retrieval network: is one observation within a few decisions of the other? (SPTM, Savinov et al., 2018)"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from sfl.core.config import require
from sfl.data.types import Array, EnvSpec, Metrics
from sfl.learners.device import to_device
from sfl.learners.eyes import Eyes
from sfl.learners.reachability import ReachabilityConfig, ReachabilityHead, reachability_loss
from sfl.learners.trained import Trained
from sfl.nn.frame_encoders import FrameEncoder, Kind
from sfl.nn.observation_networks import feature_network

ENCODE_AT_ONCE = 1_024
"""Observations that are encoded together; of more the memory would not hold what is in between."""


@dataclass(frozen=True)
class RetrievalConfig(ReachabilityConfig):
    """The retrieval network R, and how it learns."""

    far: int = 24
    """Negatives are more than this many decisions apart, in the same walk."""
    batch_size: int = 64
    """Pairs in a batch, half of them positive."""
    encoder: Kind = "resnet18"
    """What looks at either frame (other observations have small encoders of their own)."""
    dim: int = 64
    """Features of observations that are no frames."""
    learning_rate: float = 1e-4
    """Adam's step size."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.dim >= 1, f"retrieval.dim must be at least 1, got {self.dim}.")
        require(self.learning_rate > 0, f"retrieval.learning-rate must be positive, got {self.learning_rate}.")


class RetrievalNetwork(nn.Module):
    """One encoder for both observations, and a head for the two codes."""

    def __init__(self, config: RetrievalConfig, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.encoder, self.dim = feature_network(shape, config.encoder, config.dim)
        self.head = ReachabilityHead(self.dim, config.hidden, config.layers)

    def forward(self, triplets: Tensor, strangers: int = 0) -> Tensor:
        """Scores [(2 + strangers) B, 2] of far and near, given [3, B, ...]: of some with those near, with those far,
        and with what is near to others of the batch."""
        some, near, far = self.encoder(triplets.flatten(0, 1)).chunk(3)
        others = [near, far, *(near.roll(places, 0) for places in range(1, strangers + 1))]
        scores: Tensor = self.head(torch.cat([torch.cat([some, other], dim=1) for other in others]))
        return scores


class Retrieval(Trained[RetrievalNetwork]):
    """R, its optimiser and its gradient step."""

    def __init__(self, config: RetrievalConfig, spec: EnvSpec, seed: int, device: torch.device | str) -> None:
        self.config = config
        shape = spec.observation_shape
        super().__init__("retrieval", lambda: RetrievalNetwork(config, shape), config.learning_rate, seed, device)

    @property
    def dim(self) -> int:
        """Features of an observation."""
        return self.network.dim

    @torch.no_grad()
    def features(self, observations: Array | Tensor) -> Tensor:
        """Features [B, F] of observations [B, ...]."""
        if not len(observations):  # not every kernel has an answer to nothing
            return torch.zeros(0, self.dim, device=self.device)
        parts = self.on_device(observations).split(ENCODE_AT_ONCE)
        with self.precision():
            return torch.cat([self.network.encoder(part).float() for part in parts])

    @torch.no_grad()
    def reachable(self, first: Tensor, second: Tensor) -> Tensor:
        """Chance [B, N] that what has features [N, F] is within `near` decisions of what has features [B, F]."""
        with self.precision():
            return self.network.head.table(first, second)

    @torch.no_grad()
    def reachable_each(self, first: Tensor, second: Tensor) -> Tensor:
        """The same [B, N] for features [B, F], each beside others of its own [B, N, F]."""
        with self.precision():
            return self.network.head.rows(first, second)

    def update(self, triplets: Tensor, strangers: int = 0) -> Metrics:
        """One gradient step on observations [3, B, ...]: some, others near them and others far from them, which are
        B positive pairs and B negative ones (`WalkReplay.triplets` draws them); and `strangers` B more negative ones of
        the same observations, which only the head sees again. Metrics are of the first two."""
        count = triplets.shape[1]
        near = torch.arange((2 + strangers) * count, device=self.device) < count

        def judged() -> tuple[Tensor, dict[str, Tensor]]:
            scores = self.network(triplets, strangers)
            even = reachability_loss(scores[: 2 * count], near[: 2 * count])
            return (reachability_loss(scores, near)[0], even[1]) if strangers else even

        return self.descend(judged)


class FixedCodes:
    """R's features of observations as R is now; with every gradient step of R there must be a new one.

    Frames pass its encoder without batch normalization, on a GPU in bf16 and as a graph.
    """

    def __init__(self, retrieval: Retrieval) -> None:
        self._retrieval, encoder = retrieval, retrieval.network.encoder
        self._eyes = Eyes(encoder.folded(), retrieval.device) if isinstance(encoder, FrameEncoder) else None

    def __call__(self, observations: Array | Tensor) -> Tensor:
        """Features [B, F] of observations [B, ...]; good until the next call."""
        return self._retrieval.features(observations) if self._eyes is None else self._eyes(observations)


class ReachabilityField:
    """What a policy says of two views: the chance, by its frozen R, that they are a few decisions apart."""

    score, score_range = "reachability", (0.0, 1.0)
    _retrieval: Retrieval

    def embed(self, observations: Array) -> Array:
        """Features [N, F] of observations [N, ...]."""
        return np.asarray(self._retrieval.features(observations).cpu().numpy())

    def compare(self, embedded: Array, references: Array) -> Array:
        """[N, R] chance that the reference is within `near` decisions of the view."""
        views, others = (to_device(rows, self._retrieval.device) for rows in (embedded, references))
        return np.asarray(self._retrieval.reachable(views, others).cpu().numpy())
