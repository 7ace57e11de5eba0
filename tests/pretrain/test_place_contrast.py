"""Contrast over time: the loss by hand, who is a negative of whom, and what batches are made of."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sfl.errors import UsageError
from sfl.nn.frame_encoders import FrameEncoder
from sfl.pretrain.config import ContrastConfig
from sfl.pretrain.objectives import PlaceContrast, PlaceDraw, info_nce, negatives_of, standardised

EVERYONE = torch.ones(2, 2, dtype=torch.bool)


def test_the_loss_by_hand() -> None:
    # Lengths do not matter. Cosines: first 0 with the seconds 1 and 0.6, first 1 with 0 and 0.8.
    first = torch.tensor([[2.0, 0.0], [0.0, 5.0]])
    second = torch.tensor([[1.0, 0.0], [3.0, 4.0]])
    loss, metrics = info_nce(first, second, EVERYONE, temperature=0.5, symmetric=False)
    rows = [math.log(1 + math.exp((0.6 - 1) / 0.5)), math.log(1 + math.exp((0.0 - 0.8) / 0.5))]
    assert float(loss) == pytest.approx(sum(rows) / 2)
    assert float(metrics["loss"]) == pytest.approx(sum(rows) / 2)
    assert float(metrics["accuracy"]) == 1.0
    columns = [math.log(1 + math.exp((0.0 - 1) / 0.5)), math.log(1 + math.exp((0.6 - 0.8) / 0.5))]
    both, _ = info_nce(first, second, EVERYONE, temperature=0.5, symmetric=True)
    assert float(both) == pytest.approx((sum(rows) + sum(columns)) / 4)


def test_what_is_no_negative_does_not_count() -> None:
    first = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    second = torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    negatives = torch.tensor([[False, False, True], [True, False, False], [False, False, False]])
    loss, metrics = info_nce(first, second, negatives, temperature=1.0, symmetric=False)
    half = math.sqrt(0.5)
    # Row 0: its own 0 against 0.71 of pair 2. Row 1: its own 0 against 1 of pair 0. Row 2: nobody to mistake it for.
    expected = math.log(1 + math.exp(half)) + math.log(1 + math.e) + 0.0
    assert float(loss) == pytest.approx(expected / 3)
    assert float(metrics["accuracy"]) == pytest.approx(1 / 3)


def test_moments_of_the_same_walk_are_negatives_only_when_far_apart_in_time() -> None:
    walks = torch.tensor([7, 7, 8])
    times = torch.tensor([[10, 20, 10], [12, 35, 11]])
    assert negatives_of(walks, times, gap=9).tolist() == [
        [False, True, True],  # moment 10 of walk 7: 12 is near, 35 is 25 later, walk 8 is another one
        [False, True, True],  # moment 20: 12 is 8 before, 35 is 15 later (its own, which counts anyhow)
        [True, True, False],  # moment 10 of walk 8: both of walk 7, however close the numbers
    ]


def test_batches_hold_as_many_mazes_and_moments_as_asked_for() -> None:
    mazes = np.repeat([4, 9, 2, 5], [3, 1, 2, 2])
    config = ContrastConfig(mazes=3, moments=40, max_offset=4, decay=0.5)
    draw = PlaceDraw(config, mazes, length=30)
    rng = np.random.Generator(np.random.PCG64(0))
    seen = set()
    for _ in range(20):
        pairs = draw(rng)
        names, counts = np.unique(pairs.mazes, return_counts=True)
        assert counts.tolist() == [40, 40, 40]
        seen |= set(names.tolist())
        assert (mazes[pairs.walks] == pairs.mazes).all()
        apart = np.abs(pairs.times[0] - pairs.times[1])
        assert apart.min() >= 1
        assert apart.max() <= 4
        assert pairs.times.min() >= 0
        assert pairs.times.max() < 30
    assert seen == {2, 4, 5, 9}
    assert set(draw(rng).walks.tolist()) <= set(range(8))


def test_offsets_are_geometric() -> None:
    draw = PlaceDraw(ContrastConfig(mazes=1, moments=20_000, max_offset=3, decay=0.5), np.zeros(2, int), length=100)
    pairs = draw(np.random.Generator(np.random.PCG64(1)))
    shares = np.bincount(np.abs(pairs.times[0] - pairs.times[1]), minlength=4) / 20_000
    np.testing.assert_allclose(shares, [0, 4 / 7, 2 / 7, 1 / 7], atol=0.01)


def test_fewer_mazes_than_asked_for_are_all_taken() -> None:
    pairs = PlaceDraw(ContrastConfig(mazes=8, moments=2), np.array([3, 1]), length=20)(np.random.default_rng(0))
    assert sorted(pairs.mazes.tolist()) == [1, 1, 3, 3]


def test_features_are_compared_as_they_will_be_used() -> None:
    features = torch.tensor([[1.0, 10.0], [3.0, 30.0], [5.0, 20.0], [7.0, 40.0]])
    found = standardised(features)
    torch.testing.assert_close(found.mean(0), torch.zeros(2), rtol=0, atol=1e-6)
    torch.testing.assert_close(found.std(0, correction=0), torch.ones(2), rtol=0, atol=1e-4)


def test_the_gradient_reaches_the_encoder() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = FrameEncoder("compact", normalised=True).train()
    config = ContrastConfig(mazes=2, moments=2)
    pairs = PlaceDraw(config, np.array([0, 1]), length=20)(np.random.default_rng(0))
    generator = torch.Generator().manual_seed(0)
    frames = torch.randint(0, 256, (2, 4, 60, 80, 3), dtype=torch.uint8, generator=generator)
    loss, _ = PlaceContrast(config)(encoder, frames, pairs)
    loss.backward()
    assert all(value.grad is not None and bool(value.grad.isfinite().all()) for value in encoder.parameters())
    assert float(encoder.body[0].conv.weight.grad.abs().max()) > 0


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"temperature": 0.0}, "contrast.temperature must be positive, got 0.0"),
        ({"decay": 1.5}, r"contrast.decay must lie in \(0, 1\], got 1.5"),
        ({"max_offset": 30}, "1 <= max-offset <= gap must hold, got 30 and 25"),
        ({"mazes": 0}, "contrast.mazes must be at least 1, got 0"),
        ({"moments": 1}, "contrast.moments must be at least 2, got 1"),
    ],
)
def test_wrong_settings(settings: dict[str, float], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        ContrastConfig(**settings)  # type: ignore[arg-type]


def test_walks_that_are_too_short() -> None:
    with pytest.raises(UsageError, match="at least 11 moments for this contrast, got 10"):
        PlaceDraw(ContrastConfig(), np.zeros(1, int), length=10)
