"""Time-contrastive features: the loss by hand, the step, and that it brings near what is near in time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sfl.api import EnvSpec, Transitions
from sfl.errors import UsageError
from sfl.fast.windows import WindowTable
from sfl.method.config import FeatureConfig
from sfl.method.features import TimeContrastiveLearner, triplet_loss
from sfl.replay.replay import SequenceReplay, Windows
from sfl.replay.store import DistinctStore, distinct

CPU = torch.device("cpu")


def test_the_loss_by_hand() -> None:
    features = torch.zeros(3, 3, 2)
    features[:, 1] = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0]])  # positives at distances 1, 2, 5
    features[:, 2] = torch.tensor([[2.0, 0.0], [3.0, 4.0], [0.0, 1.0]])  # negatives at distances 2, 5, 1
    # Squared, margin 2: max(0, 2 + 1 - 4) = 0, max(0, 2 + 4 - 25) = 0, 2 + 25 - 1 = 26.
    assert float(triplet_loss(features, margin=2.0, squared=True)[0]) == pytest.approx(26 / 3)
    # Plain: max(0, 2 + 1 - 2) = 1, max(0, 2 + 2 - 5) = 0, 2 + 5 - 1 = 6.
    assert float(triplet_loss(features, margin=2.0, squared=False)[0]) == pytest.approx(7 / 3)


def test_the_gradient_flows_only_where_the_hinge_is_active() -> None:
    features = torch.tensor([[[0.0], [1.0], [-1.5]], [[0.0], [1.0], [-4.0]]])
    # Row 0: 2 + 1 - 2.25 > 0; row 1: 2 + 1 - 16 < 0.
    # By the anchor, (a - 1)^2 - (a + 1.5)^2 has the derivative -2 - 3 at 0, halved by the mean over two rows.
    gradient = triplet_loss(features, margin=2.0, squared=True)[1]
    assert gradient.tolist() == [[[-2.5], [1.0], [1.5]], [[0.0], [0.0], [0.0]]]


@pytest.mark.parametrize("squared", [True, False])
def test_the_gradient_is_autograds(squared: bool) -> None:
    features = torch.randn(
        20, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True
    )
    distance = (features[:, :1] - features[:, 1:]).square().sum(2)
    if not squared:
        distance = (distance + 1e-8).sqrt()
    hinge = (1.0 + distance[:, 0] - distance[:, 1]).clamp_min(0)
    assert 3 < int((hinge > 0).sum()) < 20
    expected = torch.autograd.grad(hinge.mean(), features)[0]
    loss, gradient = triplet_loss(features.detach(), margin=1.0, squared=squared)
    torch.testing.assert_close(loss, hinge.mean().detach())
    torch.testing.assert_close(gradient, expected)


def test_plain_distances_of_equal_features_have_a_finite_gradient() -> None:
    features = torch.tensor([[[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]]])
    assert torch.isfinite(triplet_loss(features, margin=2.0, squared=False)[1]).all()


def walk(shape: tuple[int, ...], steps: int, windows: WindowTable | None = None) -> SequenceReplay:
    """A replay of one long walk to and fro along a row of 20 places, each shown as a lit cell."""
    replay = SequenceReplay(DistinctStore(shape, "uint8", windows), 5_000, 1)
    places = [abs(20 - time % 40) % 20 for time in range(steps + 1)]
    rows = np.zeros((20, *shape), dtype=np.uint8)
    for place in range(20):
        rows[place].reshape(-1)[place * 3] = 1
    no = np.array([False])
    for time in range(steps):
        here, there = rows[places[time]][None], rows[places[time + 1]][None]
        replay.observe(Transitions(np.array([0]), here, np.array([0]), np.zeros(1), no, no, there), ~no)
    return replay


def test_features_learn_that_near_in_time_is_near() -> None:
    config = FeatureConfig(dim=16, learning_rate=1e-3, batch_size=64, negative_min=6, negative_max=9)
    torch.manual_seed(0)
    learner = TimeContrastiveLearner(config, EnvSpec((60,), "uint8", 2), CPU)
    replay, rng = walk((60,), 400), np.random.default_rng(0)
    losses = []
    for _ in range(150):
        slots = replay.sample_triplets(rng, 64, learner.windows)
        assert slots is not None
        unique, places = distinct(slots)
        features, pull = learner.encode_slots(replay.store, unique)
        losses.append(learner.update(features, pull, torch.from_numpy(places))["train/encoder_loss"])
    assert np.mean(losses[-20:]) < 0.5 * losses[0]
    rows = np.zeros((20, 60), dtype=np.uint8)
    rows[np.arange(20), 3 * np.arange(20)] = 1
    features = learner.encode(rows)
    torch.testing.assert_close(features.norm(dim=1), torch.full((20,), 10.0))
    apart = torch.cdist(features, features)
    assert apart.diagonal(1).mean() < 0.5 * apart.diagonal(7).mean()


def test_the_windows_are_the_configured_ones() -> None:
    config = FeatureConfig(dim=4, positive_window=3, negative_min=5, negative_max=7)
    assert TimeContrastiveLearner(config, EnvSpec((60,), "uint8", 2), CPU).windows == Windows(3, 5, 7)


@pytest.mark.parametrize("windowed", [True, False])
def test_slots_are_encoded_as_their_observations(windowed: bool) -> None:
    shape = (9, 9, 3)
    learner = TimeContrastiveLearner(FeatureConfig(dim=8), EnvSpec(shape, "uint8", 2), CPU)
    replay = walk(shape, 60, WindowTable(shape, "uint8") if windowed else None)
    slots = replay._slots[[3, 9, 3, 50, 0]]
    features, _ = learner.encode_slots(replay.store, slots)
    torch.testing.assert_close(features, learner.encode(replay.store.rows(slots)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"dim": 0}, "features.dim must be positive, got 0"),
        ({"norm": -1.0}, "features.norm must be positive"),
        ({"margin": 0.0}, "features.margin must be positive"),
        ({"positive_window": 0}, "features.positive-window must be at least 1"),
        ({"positive_window": 10}, "positive-window < negative-min <= negative-max must hold, got 10, 10, 15"),
        ({"negative_max": 9}, "got 2, 10, 9"),
        ({"learning_rate": 0.0}, "features.learning-rate must be positive"),
        ({"batch_size": 0}, "features.batch-size must be at least 1"),
        ({"updates_per_step": -math.inf}, "features.updates-per-step must be >= 0"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, float], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        FeatureConfig(**settings)  # type: ignore[arg-type]
