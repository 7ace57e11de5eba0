"""Reachability: labels by time, the head as published, the loss by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sfl.baselines.networks import Reachability, ReachabilityDraw, ReachabilityHead, reachability_loss
from sfl.errors import UsageError
from sfl.method.config import ReachabilityConfig
from sfl.nn.frame_encoders import FrameEncoder


def test_positives_are_up_to_5_apart_and_negatives_more_than_25() -> None:
    mazes = np.array([3, 3, 8])
    draw = ReachabilityDraw(ReachabilityConfig(batch_size=4_000), mazes, length=60)
    pairs = draw(np.random.Generator(np.random.PCG64(0)))
    apart = np.abs(pairs.times[0] - pairs.times[1])
    assert pairs.near.sum() == 2_000
    assert set(apart[pairs.near].tolist()) == {1, 2, 3, 4, 5}
    assert apart[~pairs.near].min() == 26
    assert apart[~pairs.near].max() > 50
    assert pairs.times.min() == 0
    assert pairs.times.max() == 59
    assert (mazes[pairs.walks] == pairs.mazes).all()
    assert set(pairs.walks.tolist()) == {0, 1, 2}


def test_the_shortest_walk_that_will_do_always_has_far_moments() -> None:
    draw = ReachabilityDraw(ReachabilityConfig(batch_size=1_000), np.zeros(1, int), length=53)
    pairs = draw(np.random.Generator(np.random.PCG64(1)))
    assert np.abs(pairs.times[0] - pairs.times[1])[~pairs.near].min() >= 26
    with pytest.raises(UsageError, match="at least 53 moments for reachability, got 52"):
        ReachabilityDraw(ReachabilityConfig(), np.zeros(1, int), length=52)


def test_the_loss_by_hand() -> None:
    scores = torch.tensor([[0.0, 2.0], [1.0, 0.0], [0.0, 3.0]])
    loss, metrics = reachability_loss(scores, torch.tensor([True, False, False]))
    rows = [math.log(1 + math.exp(-2)), math.log(1 + math.exp(-1)), math.log(1 + math.exp(3))]
    assert float(loss) == pytest.approx(sum(rows) / 3)
    assert float(metrics["accuracy"]) == pytest.approx(2 / 3)


def test_the_head_is_sptms() -> None:
    # 1,024 inputs: batch norm 2 * 1024; four layers of 512 with batch norm; two classes.
    expected = 2 * 1024 + (1024 * 512 + 512 + 2 * 512) + 3 * (512 * 512 + 512 + 2 * 512) + (512 * 2 + 2)
    head = ReachabilityHead(512, 512, 4)
    assert sum(value.numel() for value in head.parameters()) == expected
    kinds = [type(part).__name__ for part in head]
    assert kinds == ["BatchNorm1d", "ReLU", *["Linear", "BatchNorm1d", "ReLU"] * 4, "Linear"]


def test_the_gradient_reaches_head_and_encoder_and_the_second_frame_matters() -> None:
    config = ReachabilityConfig(batch_size=4, hidden=16)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = FrameEncoder("compact", normalised=True).train()
        objective = Reachability(config, encoder.dim).train()
    pairs = ReachabilityDraw(config, np.zeros(1, int), length=60)(np.random.default_rng(0))
    generator = torch.Generator().manual_seed(0)
    frames = torch.randint(0, 256, (2, 4, 60, 80, 3), dtype=torch.uint8, generator=generator)
    loss, _ = objective(encoder, frames, pairs)
    loss.backward()
    for module in (encoder, objective):
        assert all(value.grad is not None for value in module.parameters())
    other, _ = objective(encoder, frames[[0, 0]], pairs)
    assert other.item() != loss.item()


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"near": 25}, "1 <= near < far must hold, got 25 and 25"),
        ({"hidden": 0}, "reachability.hidden must be at least 1, got 0"),
        ({"layers": -1}, "reachability.layers must be 0 or more, got -1"),
        ({"batch_size": 1}, "reachability.batch-size must be at least 2, got 1"),
    ],
)
def test_wrong_settings(settings: dict[str, int], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        ReachabilityConfig(**settings)


@pytest.mark.parametrize("counts", [(0, 3), (2, 0), (0, 0), (2, 3)])
def test_chances_are_in_full_precision_however_few_and_whatever_products_are_made_in(counts: tuple[int, int]) -> None:
    """numpy, which the graphs of SPTM and SGM are made with, knows no bf16."""
    head = ReachabilityHead(4, 8, 2).eval()
    codes = [torch.zeros(count, 4) for count in counts]
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        chances = head.table(*codes)
    assert chances.dtype is torch.float32
    assert chances.shape == counts
