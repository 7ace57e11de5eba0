"""Features by reachability: is one frame a few decisions from the other? (SPTM's network R, the paper's encoder.)"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from sfl.core.config import require
from sfl.data.types import Array
from sfl.learners.moments import MomentPairs, draw_offsets
from sfl.nn.frame_encoders import FrameEncoder

PAIRS_AT_ONCE = 1 << 17
"""Pairs of codes that pass the head together where all are compared with all: of more the memory would not hold."""


@dataclass(frozen=True)
class ReachabilityConfig:
    """How reachability is learned."""

    near: int = 5
    """Positives are 1 to this many decisions apart."""
    far: int = 25
    """Negatives are more than this many decisions apart, in the same walk."""
    hidden: int = 512
    """Units of each layer of the head."""
    layers: int = 4
    """Hidden layers of the head."""
    batch_size: int = 512
    """Pairs in a batch, half of them positive."""

    def __post_init__(self) -> None:
        require(1 <= self.near < self.far, f"reachability: 1 <= near < far must hold, got {self.near} and {self.far}.")
        require(self.hidden >= 1, f"reachability.hidden must be at least 1, got {self.hidden}.")
        require(self.layers >= 0, f"reachability.layers must be 0 or more, got {self.layers}.")
        require(self.batch_size >= 2, f"reachability.batch-size must be at least 2, got {self.batch_size}.")


class ReachabilityDraw:
    """Draws batches of pairs, one half near and the other far."""

    def __init__(self, config: ReachabilityConfig, mazes: Array, length: int) -> None:
        """`mazes` [W]: the maze of each walk; `length`: moments of a walk."""
        shortest = 2 * (config.far + 1) + 1  # then every moment has some that are far enough
        require(length >= shortest, f"Walks must have at least {shortest} moments for reachability, got {length}.")
        self.config, self._mazes, self._length = config, mazes, length

    def __call__(self, rng: np.random.Generator) -> MomentPairs:
        """One batch, positives first."""
        count = self.config.batch_size
        walks = rng.integers(len(self._mazes), size=count)
        times = rng.integers(self._length, size=count)
        near = np.arange(count) < count // 2
        longest = np.maximum(times, self._length - 1 - times)
        least, most = np.where(near, 1, self.config.far + 1), np.where(near, self.config.near, longest)
        others = draw_offsets(times, rng.integers(least, most + 1), self._length, rng)
        return MomentPairs(self._mazes[walks], walks, np.stack([times, others]), near)


class ReachabilityHead(nn.Sequential):
    """Two codes side by side [B, 2F] to the scores of far and near [B, 2]."""

    def __init__(self, dim: int, hidden: int, layers: int) -> None:
        parts: list[nn.Module] = [nn.BatchNorm1d(2 * dim), nn.ReLU()]
        size = 2 * dim
        for _ in range(layers):
            parts += [nn.Linear(size, hidden), nn.BatchNorm1d(hidden), nn.ReLU()]
            size = hidden
        super().__init__(*parts, nn.Linear(size, 2))

    def table(self, first: Tensor, second: Tensor, at_once: int = PAIRS_AT_ONCE) -> Tensor:
        """Chance [B, N] that each of the codes [B, F] is near each of [N, F]; without gradient, in evaluation mode."""
        left, right = self._sides(first, second)
        rows = max(1, at_once // max(1, len(second)))
        parts = [self._near(part.unsqueeze(1) + right) for part in left.split(rows)]
        return torch.cat(parts) if len(first) and len(second) else first.new_zeros(len(first), len(second))

    def rows(self, first: Tensor, second: Tensor, at_once: int = PAIRS_AT_ONCE) -> Tensor:
        """Chance [B, N] that each of the codes [B, F] is near those of its own row of [B, N, F]; as `table`."""
        left, right = self._sides(first, second)
        rows = max(1, at_once // second.shape[1])
        pairs = zip(left.split(rows), right.split(rows), strict=True)
        return torch.cat([self._near(some.unsqueeze(1) + others) for some, others in pairs])

    def _sides(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Up to its first product the head treats the two codes apart: what is added there, done once for each."""
        product = self[2]
        assert isinstance(product, nn.Linear)
        scales, shifts = (part.chunk(2) for part in _affine(self[0]))
        weights = product.weight.chunk(2, dim=1)
        left, right = (
            functional.relu(codes * scales[side] + shifts[side]) @ weights[side].T
            for side, codes in enumerate((first, second))
        )
        return left, right + product.bias

    def _near(self, sums: Tensor) -> Tensor:
        """Chance [B, N] of being near, given the sums [B, N, H] of the first product."""
        rest = nn.Sequential(*list(self)[3:])
        scores: Tensor = rest(sums.flatten(0, 1)).float()
        return (scores[:, 1] - scores[:, 0]).sigmoid().view(sums.shape[:2])


def _affine(norm: nn.Module) -> tuple[Tensor, Tensor]:
    """What batch normalization in evaluation mode multiplies by and then adds."""
    assert isinstance(norm, nn.BatchNorm1d)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
    return scale, norm.bias - norm.running_mean * scale


class FixedHead:
    """A head that learns no more, for many pairs of the same observations.

    What it does with either code alone is done once for each: that are the code's halves. The rest of a pair is bare
    products: batch normalization is folded into them, and of the two scores only their difference is computed.
    """

    @torch.no_grad()
    def __init__(self, head: ReachabilityHead, dtype: torch.dtype = torch.float32) -> None:
        """`dtype`: what pairs are computed in."""
        self._dtype = dtype
        self._scales, self._shifts = (part.chunk(2) for part in _affine(head[0]))
        layers = list(head)[2:]
        products = [_folded(product, norm) for product, norm in zip(layers[:-1:3], layers[1::3], strict=True)]
        last = layers[-1]
        assert isinstance(last, nn.Linear)
        products.append((last.weight[1:] - last.weight[:1], last.bias[1:] - last.bias[:1]))
        (weight, self._bias), *rest = products
        self._weights = weight.chunk(2, dim=1)
        # The last in full precision: rounded, many that are near would be equally near, and none of them the nearest.
        kinds = [dtype] * (len(rest) - 1) + [torch.float32]
        self._rest = [(weight.T.to(kind), bias.to(kind)) for (weight, bias), kind in zip(rest, kinds, strict=False)]
        self.size = len(self._bias)

    def halves(self, codes: Tensor) -> Tensor:
        """What a pair is made of, [B, 2 * size]: of each code [B, F] as the first of a pair, and as the second."""
        first, second = (
            functional.relu(codes * self._scales[side] + self._shifts[side]) @ self._weights[side].T for side in (0, 1)
        )
        return torch.cat([first, second + self._bias], dim=1)

    def table(self, first: Tensor, second: Tensor, at_once: int = PAIRS_AT_ONCE) -> Tensor:
        """Chance [B, N] that each of the halves [B, 2 * size] is near each of [N, 2 * size]."""
        if not len(first) or not len(second):
            return first.new_zeros(len(first), len(second))
        some, others = self._sides(first, second)
        rows = max(1, at_once // len(second))
        parts = [self._chance((part.unsqueeze(1) + others).flatten(0, 1)) for part in some.split(rows)]
        return torch.cat(parts).view(len(first), len(second))

    def each(self, first: Tensor, second: Tensor) -> Tensor:
        """Chance [B] that each of the halves [B, 2 * size] is near the other in its row."""
        some, others = self._sides(first, second)
        return self._chance(some + others)

    def _sides(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        return first[:, : self.size].to(self._dtype), second[:, self.size :].to(self._dtype)

    def _chance(self, sums: Tensor) -> Tensor:
        """Chance [P] of being near, given the sums [P, size] of the first product, which are overwritten."""
        for weight, bias in self._rest:
            sums = torch.addmm(bias, sums.relu_().to(weight.dtype), weight)
        return sums.squeeze(1).float().sigmoid()


def _folded(product: nn.Module, norm: nn.Module) -> tuple[Tensor, Tensor]:
    """Weight and bias of a product that is followed by batch normalization in evaluation mode."""
    assert isinstance(product, nn.Linear)
    scale, shift = _affine(norm)
    return product.weight * scale.unsqueeze(1), product.bias * scale + shift


def reachability_loss(scores: Tensor, near: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of the two classes, mean over pairs. Shapes: scores [B, 2] of far and near, near [B] bool."""
    loss = functional.cross_entropy(scores.float(), near.long())
    accuracy = (scores.detach().argmax(1) == near).float().mean()
    return loss, {"loss": loss.detach(), "accuracy": accuracy}


class Reachability(nn.Module):
    """The objective as the trainer sees it, with the weights of the head."""

    def __init__(self, config: ReachabilityConfig, dim: int) -> None:
        super().__init__()
        self.head = ReachabilityHead(dim, config.hidden, config.layers)

    def forward(self, encoder: FrameEncoder, frames: Tensor, pairs: MomentPairs) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and metrics of frames [2, B, H, W, 3]."""
        first, second = encoder.raw(frames.flatten(0, 1)).chunk(2)
        scores = self.head(torch.cat([first, second], dim=1))
        return reachability_loss(scores, torch.from_numpy(pairs.near).to(scores.device))
