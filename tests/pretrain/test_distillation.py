"""Distillation: similarities are what is learned, not features."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sfl.nn.frame_encoders import FrameEncoder
from sfl.pretrain.config import ContrastConfig
from sfl.pretrain.objectives import Distillation, PlaceDraw, similarity_loss


def test_features_with_the_same_angles_are_as_good() -> None:
    generator = torch.Generator().manual_seed(0)
    taught = torch.randn(6, 3, generator=generator)
    rotation, _ = torch.linalg.qr(torch.randn(5, 5, generator=generator))
    learned = torch.cat([taught, torch.zeros(6, 2)], dim=1) @ rotation * 7.0
    loss, metrics = similarity_loss(learned, taught, temperature=0.1)
    assert float(loss) == pytest.approx(0.0, abs=1e-5)
    assert float(metrics["accuracy"]) == 1.0
    worse, _ = similarity_loss(learned.flip(0), taught, temperature=0.1)
    assert float(worse) > 0.1


def test_the_loss_by_hand() -> None:
    # Teacher: cosines of row 0 are 0 and 1, of row 1 are 0 and 0, of row 2 are 1 and 0. The student finds all alike.
    taught = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]])
    learned = torch.ones(3, 2)
    loss, _ = similarity_loss(learned, taught, temperature=1.0)
    share = math.e / (1 + math.e)
    row = share * math.log(2 * share) + (1 - share) * math.log(2 * (1 - share))
    assert float(loss) == pytest.approx((row + 0.0 + row) / 3)


def test_the_teacher_stays_as_it_is() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        teacher, student = FrameEncoder("compact").eval(), FrameEncoder("compact", normalised=True).train()
    objective = Distillation(teacher, temperature=0.1).train()
    pairs = PlaceDraw(ContrastConfig(mazes=1, moments=3), np.zeros(1, int), length=20)(np.random.default_rng(0))
    generator = torch.Generator().manual_seed(0)
    frames = torch.randint(0, 256, (2, 3, 60, 80, 3), dtype=torch.uint8, generator=generator)
    loss, _ = objective(student, frames, pairs)
    loss.backward()
    assert list(objective.parameters()) == []
    assert not teacher.training
    assert all(value.grad is None for value in teacher.parameters())
    assert all(value.grad is not None for value in student.parameters())
