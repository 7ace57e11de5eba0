"""Recolouring: another maze, not other views of it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sfl.pretrain.walks import GAIN, recolour


def pictures(count: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    one = torch.randint(40, 120, (6, 8, 3), dtype=torch.uint8, generator=generator)
    return one.expand(2, count, 6, 8, 3).contiguous()


def test_all_frames_of_a_maze_change_alike_and_mazes_differently() -> None:
    mazes = np.repeat([5, 2, 9, 7], 3)
    changed = recolour(pictures(12), mazes, np.random.Generator(np.random.PCG64(0)))
    assert changed.dtype == torch.uint8
    kinds = {maze: changed[:, mazes == maze].flatten(0, 1) for maze in (2, 5, 7, 9)}
    for same in kinds.values():
        assert bool((same == same[0]).all())
    assert len({same[0].numpy().tobytes() for same in kinds.values()}) == 4


def test_a_change_is_a_mirror_an_exchange_of_colours_and_a_gain_each() -> None:
    frames = pictures(200)
    changed = recolour(frames, np.arange(200), np.random.Generator(np.random.PCG64(1)))[0].float()
    original = frames[0, 0].float()
    orders, mirrored = set(), 0
    for picture in changed:
        fits = []
        for turned in (False, True):
            plain = picture.flip(1) if turned else picture
            gains = plain.unsqueeze(-1) / original.unsqueeze(-2)  # [H, W, new, old]
            steady = (gains.amax((0, 1)) - gains.amin((0, 1))) < 0.03
            if bool(steady.any(1).all()):
                order = tuple(steady.int().argmax(1).tolist())
                values = [float(gains[:, :, new, old].mean()) for new, old in enumerate(order)]
                fits.append((turned, order, values))
        assert len(fits) == 1
        turned, order, values = fits[0]
        assert sorted(order) == [0, 1, 2]
        assert all(1 - GAIN - 0.02 <= value <= 1 + GAIN + 0.02 for value in values)
        orders.add(order)
        mirrored += turned
    assert len(orders) == 6
    assert 70 <= mirrored <= 130


def test_colours_do_not_run_over() -> None:
    bright = torch.full((2, 50, 4, 4, 3), 250, dtype=torch.uint8)
    changed = recolour(bright, np.arange(50), np.random.Generator(np.random.PCG64(2)))
    assert int(changed.min()) >= int(250 * (1 - GAIN))
    assert int(changed.max()) == 255
