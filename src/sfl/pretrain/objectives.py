"""Features by contrast over time: moments of one walk that are close in time against all other moments of a batch.

The batch holds many moments of each of a few mazes, so that other places of the same maze, which look alike, are among
the negatives.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from sfl.api import Array
from sfl.baselines.networks import MomentPairs, draw_offsets
from sfl.config import require
from sfl.nn.frame_encoders import FrameEncoder
from sfl.pretrain.config import ContrastConfig


class PlaceDraw:
    """Draws batches of M mazes times K pairs of moments."""

    def __init__(self, config: ContrastConfig, mazes: Array, length: int) -> None:
        """`mazes` [W]: the maze of each walk; `length`: moments of a walk."""
        shortest = 2 * config.max_offset + 1  # then one side of any moment is long enough
        require(length >= shortest, f"Walks must have at least {shortest} moments for this contrast, got {length}.")
        self.config, self._length = config, length
        self._names, firsts, self._counts = np.unique(np.sort(mazes), return_index=True, return_counts=True)
        self._firsts, self._order = firsts, np.argsort(mazes, kind="stable")
        likely = config.decay ** np.arange(config.max_offset)
        self._chances = likely / likely.sum()

    def __call__(self, rng: np.random.Generator) -> MomentPairs:
        """One batch; with fewer mazes than asked for, all of them."""
        count = min(self.config.mazes, len(self._names))
        chosen = np.repeat(rng.choice(len(self._names), size=count, replace=False), self.config.moments)
        walks = self._order[self._firsts[chosen] + rng.integers(self._counts[chosen])]
        times = rng.integers(self._length, size=len(walks))
        distances = 1 + rng.choice(self.config.max_offset, size=len(walks), p=self._chances)
        others = draw_offsets(times, distances, self._length, rng)
        near = np.ones(len(walks), bool)
        return MomentPairs(self._names[chosen], walks, np.stack([times, others]), near)


def negatives_of(walks: Tensor, times: Tensor, gap: int) -> Tensor:
    """[B, B] bool: the second moment of pair j may be a negative of the first moment of pair i.

    Shapes: walks [B], times [2, B].
    """
    apart = (times[0].unsqueeze(1) - times[1]).abs()
    return (walks.unsqueeze(1) != walks) | (apart > gap)


def info_nce(
    first: Tensor, second: Tensor, negatives: Tensor, temperature: float, symmetric: bool
) -> tuple[Tensor, dict[str, Tensor]]:
    """-log(exp(s_ii / T) / (exp(s_ii / T) + sum over negatives j of exp(s_ij / T))), mean over i; s are cosines.

    Shapes: first, second [B, F]; negatives [B, B] bool. Symmetric: the mean with the same of the transposed s.
    """
    cosines = functional.normalize(first, dim=1) @ functional.normalize(second, dim=1).T
    own = torch.eye(len(cosines), dtype=torch.bool, device=cosines.device)
    scores = (cosines / temperature).masked_fill(~(negatives | own), -torch.inf)
    targets = torch.arange(len(scores), device=scores.device)
    loss = functional.cross_entropy(scores, targets)
    if symmetric:
        loss = (loss + functional.cross_entropy(scores.T, targets)) / 2
    accuracy = (scores.detach().argmax(1) == targets).float().mean()
    return loss, {"loss": loss.detach(), "accuracy": accuracy}


def standardised(features: Tensor) -> Tensor:
    """Features [N, F] with mean 0 and standard deviation 1 over the batch: cosines are judged as they will be used."""
    return functional.batch_norm(features.float(), None, None, training=True)


class PlaceContrast(nn.Module):
    """The objective as the trainer sees it; it has no weights of its own."""

    def __init__(self, config: ContrastConfig) -> None:
        super().__init__()
        self.config = config

    def forward(self, encoder: FrameEncoder, frames: Tensor, pairs: MomentPairs) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and metrics of frames [2, B, H, W, 3]."""
        features = standardised(encoder.raw(frames.flatten(0, 1)))
        with torch.autocast(features.device.type, enabled=False):
            walks, times = (torch.from_numpy(part).to(features.device) for part in (pairs.walks, pairs.times))
            negatives = negatives_of(walks, times, self.config.gap)
            first, second = features.chunk(2)
            return info_nce(first, second, negatives, self.config.temperature, self.config.symmetric)


# ---- Features that are alike where those of another encoder are: a small encoder learns from a large one.


def similarity_loss(features: Tensor, taught: Tensor, temperature: float) -> tuple[Tensor, dict[str, Tensor]]:
    """KL of the taught distribution of similarity over the other rows from the learned one, mean over rows.

    Row i's distribution is the softmax over j != i of cosines / temperature. Shapes: features [N, F], taught [N, G].
    """
    learned = _log_similarities(features, temperature)
    target = _log_similarities(taught, temperature)
    loss = functional.kl_div(learned, target, reduction="sum", log_target=True) / len(features)
    agree = (learned.detach().argmax(1) == target.argmax(1)).float().mean()
    return loss, {"loss": loss.detach(), "accuracy": agree}


def _log_similarities(features: Tensor, temperature: float) -> Tensor:
    """[N, N - 1] log softmax over the other rows."""
    unit = functional.normalize(features, dim=1)
    count = len(unit)
    others = ~torch.eye(count, dtype=torch.bool, device=unit.device)
    return functional.log_softmax((unit @ unit.T / temperature)[others].view(count, count - 1), dim=1)


class Distillation(nn.Module):
    """The objective as the trainer sees it; the teacher stays as it is."""

    def __init__(self, teacher: FrameEncoder, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature
        self._teacher = [teacher]  # in a list, so that its weights are none of ours

    def forward(self, encoder: FrameEncoder, frames: Tensor, pairs: MomentPairs) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and metrics of frames [2, B, H, W, 3]."""
        both = frames.flatten(0, 1)
        with torch.no_grad():
            taught = self._teacher[0](both)
        features = standardised(encoder.raw(both))
        with torch.autocast(features.device.type, enabled=False):
            return similarity_loss(features, taught.float(), self.temperature)
