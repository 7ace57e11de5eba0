"""Time-contrastive features: the loss by hand, the step, and that it brings near what is near in time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sfl.api import EnvSpec, Transitions
from sfl.errors import UsageError
from sfl.fast.grid import encode_distinct
from sfl.method.config import FeatureConfig
from sfl.method.feature_learning import FeatureLearner, triplet_loss
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
    features = torch.tensor([[[0.0], [1.0], [-1.5]], [[0.0], [1.0], [-4.0]]], requires_grad=True)
    # Row 0: 2 + 1 - 2.25 > 0; row 1: 2 + 1 - 16 < 0.
    # By the anchor, (a - 1)^2 - (a + 1.5)^2 has the derivative -2 - 3 at 0, halved by the mean over two rows.
    (gradient,) = torch.autograd.grad(triplet_loss(features, margin=2.0, squared=True)[0], features)
    assert gradient.tolist() == [[[-2.5], [1.0], [1.5]], [[0.0], [0.0], [0.0]]]


def test_plain_distances_of_equal_features_have_a_finite_gradient() -> None:
    features = torch.tensor([[[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]]], requires_grad=True)
    (gradient,) = torch.autograd.grad(triplet_loss(features, margin=2.0, squared=False)[0], features)
    assert torch.isfinite(gradient).all()


def walk(shape: tuple[int, ...], steps: int) -> tuple[SequenceReplay, DistinctStore]:
    """A replay of one long walk to and fro along a row of 20 places, each shown as a lit cell."""
    store = DistinctStore(shape, "uint8")
    replay = SequenceReplay(store, 5_000, 1)
    places = [abs(20 - time % 40) % 20 for time in range(steps + 1)]
    rows = np.zeros((20, *shape), dtype=np.uint8)
    for place in range(20):
        rows[place].reshape(-1)[place * 3] = 1
    no = np.array([False])
    for time in range(steps):
        here, there = rows[places[time]][None], rows[places[time + 1]][None]
        replay.observe(Transitions(np.array([0]), here, np.array([0]), np.zeros(1), no, no, there), ~no)
    return replay, store


def test_features_learn_that_near_in_time_is_near() -> None:
    config = FeatureConfig(dim=16, learning_rate=1e-3, batch_size=64, negative_min=6, negative_max=9)
    torch.manual_seed(0)
    learner = FeatureLearner(config, EnvSpec((60,), "uint8", 2), CPU)
    (replay, store), rng = walk((60,), 400), np.random.default_rng(0)
    losses = []
    for _ in range(150):
        slots = replay.sample_triplets(rng, 64, learner.windows)
        assert slots is not None
        unique, places = distinct(slots)
        features = encode_distinct(learner.encoder, store, unique, CPU)
        losses.append(float(learner.update(features, torch.from_numpy(places))["train/encoder_loss"]))
    assert np.mean(losses[-20:]) < 0.5 * losses[0]
    rows = np.zeros((20, 60), dtype=np.uint8)
    rows[np.arange(20), 3 * np.arange(20)] = 1
    features = learner.encode(rows)
    torch.testing.assert_close(features.norm(dim=1), torch.full((20,), 10.0))
    apart = torch.cdist(features, features)
    assert apart.diagonal(1).mean() < 0.5 * apart.diagonal(7).mean()


def test_the_windows_are_the_configured_ones() -> None:
    config = FeatureConfig(dim=4, positive_window=3, negative_min=5, negative_max=7)
    assert FeatureLearner(config, EnvSpec((60,), "uint8", 2), CPU).windows == Windows(3, 5, 7)


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
