"""The same mazes in other colours and mirrored: textures are few, and an encoder must know places in any."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import torch
from torch import Tensor

from sfl.data.types import Array

GAIN = 0.3  # a colour gets up to this much stronger or weaker
_EXCHANGES = np.array([np.eye(3)[list(order)] for order in permutations(range(3))])  # [6, 3, 3]


def recolour(frames: Tensor, mazes: Array, rng: np.random.Generator) -> Tensor:
    """Frames [2, B, H, W, 3] of bytes, all frames of a maze [B] changed alike: that is another maze, not another view.

    Colours are exchanged at random and strengthened or weakened, and half of the mazes are mirrored.
    """
    _, maze_of = np.unique(mazes, return_inverse=True)
    count = int(maze_of.max()) + 1
    gains = rng.uniform(1 - GAIN, 1 + GAIN, size=(count, 1, 3))
    colours = (_EXCHANGES[rng.integers(len(_EXCHANGES), size=count)] * gains)[maze_of].astype(np.float32)
    mirrored = (rng.random(count) < 0.5)[maze_of]
    device = frames.device
    two, pairs, height, width, channels = frames.shape
    flat = frames.view(two, pairs, height * width, channels).to(torch.float32)
    painted = (flat @ torch.from_numpy(colours).to(device)).clamp_(0, 255).byte().view_as(frames)
    turned = torch.from_numpy(mirrored).to(device).view(1, pairs, 1, 1, 1)
    return torch.where(turned, painted.flip(3), painted)
