"""Time-contrastive features: the loss by hand, the step, and that it brings near what is near in time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sfl.core.errors import UsageError
from sfl.data.observations import ObservationTable, distinct
from sfl.data.replay import SequenceReplay, Windows
from sfl.data.types import EnvSpec, Transitions
from sfl.data.windows import WindowTable
from sfl.learners.time_contrastive import FeatureConfig, TimeContrastiveLearner, triplet_loss

CPU = torch.device("cpu")


def test_the_loss_by_hand() -> None:
    anchor = torch.zeros(3, 2)
    positive = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0]])  # at distances 1, 2, 5
    negative = torch.tensor([[2.0, 0.0], [3.0, 4.0], [0.0, 1.0]])  # at distances 2, 5, 1
    # Squared, margin 2: max(0, 2 + 1 - 4) = 0, max(0, 2 + 4 - 25) = 0, 2 + 25 - 1 = 26.
    loss, metrics = triplet_loss(anchor, positive, negative, margin=2.0, squared=True)
    assert float(loss) == pytest.approx(26 / 3)
    assert metrics == {"train/encoder_loss": pytest.approx(26 / 3)}
    # Plain: max(0, 2 + 1 - 2) = 1, max(0, 2 + 2 - 5) = 0, 2 + 5 - 1 = 6.
    loss, _ = triplet_loss(anchor, positive, negative, margin=2.0, squared=False)
    assert float(loss) == pytest.approx(7 / 3)


def test_the_gradient_flows_only_where_the_hinge_is_active() -> None:
    anchor = torch.zeros(2, 1, requires_grad=True)
    positive, negative = torch.tensor([[1.0], [1.0]]), torch.tensor([[-1.5], [-4.0]])
    # Row 0: 2 + 1 - 2.25 > 0; row 1: 2 + 1 - 16 < 0.
    # The derivative of (a - 1)^2 - (a + 1.5)^2 at 0 is -2 - 3, halved by the mean over two rows.
    loss, _ = triplet_loss(anchor, positive, negative, margin=2.0, squared=True)
    loss.backward()  # type: ignore[no-untyped-call]
    assert anchor.grad is not None
    assert anchor.grad.tolist() == [[-2.5], [0.0]]


def test_plain_distances_of_equal_features_have_a_finite_gradient() -> None:
    anchor = torch.zeros(1, 4, requires_grad=True)
    loss, _ = triplet_loss(anchor, torch.zeros(1, 4), torch.ones(1, 4), margin=2.0, squared=False)
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == pytest.approx(0.0, abs=1e-3)  # 2 + 0 - 2
    assert anchor.grad is not None
    assert torch.isfinite(anchor.grad).all()


def walk(shape: tuple[int, ...], steps: int, windows: WindowTable | None = None) -> SequenceReplay:
    """A replay of one long walk to and fro along a row of 20 places, each shown as a lit cell."""
    replay = SequenceReplay(ObservationTable(shape, "uint8", windows), 5_000, 1)
    places = [abs(20 - time % 40) % 20 for time in range(steps + 1)]
    rows = np.zeros((20, *shape), dtype=np.uint8)
    for place in range(20):
        rows[place].reshape(-1)[place * 3] = 1
    no = np.array([False])
    for time in range(steps):
        here, there = rows[places[time]][None], rows[places[time + 1]][None]
        replay.add(Transitions(np.array([0]), here, np.array([0]), np.zeros(1), no, no, there), ~no)
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
        features = learner.encode_slots(replay.table, unique)[torch.from_numpy(places)]
        losses.append(learner.update(features)["train/encoder_loss"])
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
    slots = replay._slots[0, [3, 9, 3, 50, 0]]
    features = learner.encode_slots(replay.table, slots)
    torch.testing.assert_close(features, learner.encode(replay.table.rows(slots)), rtol=1e-4, atol=1e-4)


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
