"""Values in closed form, and a network that learns the distances of a corridor."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from sfl.baselines.mss.config import UVFAConfig
from sfl.baselines.mss.value import UVFA, UVFABatch, UVFALearner, distinct_pairs, slope_of, uvfa_loss, value_of, wanted
from sfl.errors import UsageError
from sfl.fast.layers import pull_autograd
from sfl.nn.encoders import make_encoder
from sfl.nn.mlp import PairNetwork

CPU = torch.device("cpu")
CELLS = 6


def test_a_value_is_the_return_of_so_many_steps() -> None:
    for steps in range(5):
        expected = -sum(0.9**k for k in range(steps))
        assert float(value_of(torch.tensor(float(steps)), 0.9)) == pytest.approx(expected, abs=1e-5)


def test_targets_are_a_step_and_what_lies_ahead_within_bounds() -> None:
    reached = torch.tensor([True, False, False, True])
    ahead = torch.tensor([0.0, -2.0, -20.0, 3.0])
    torch.testing.assert_close(wanted(reached, ahead, 0.9), torch.tensor([0.0, -2.8, -10.0, 0.0]))


def test_the_loss_counts_the_error_and_the_anchor() -> None:
    values, target = torch.tensor([[-1.0, -3.0], [-2.0, 0.0]]), torch.tensor([-2.0, -3.0])
    assert float(uvfa_loss(values, target, anchor=0.5)[0]) == pytest.approx(0.5 + 0.5 * 2.0)


def test_gradients_by_distance_are_autograds() -> None:
    torch.manual_seed(0)
    distances = (20 * torch.rand(2, 5)).requires_grad_()
    values, target = value_of(distances, 0.95), -10 * torch.rand(5)
    loss, by_values = uvfa_loss(values, target, anchor=0.3)
    loss.backward()
    torch.testing.assert_close(by_values * slope_of(values, 0.95), distances.grad)


def corridor_batch(learner: UVFALearner, rng: np.random.Generator) -> UVFABatch:
    """All cells, both actions (0 back, 1 ahead), any goal; a cell is seen as one number out of six."""
    states, actions = rng.integers(CELLS, size=64), rng.integers(2, size=64)
    following, goals = np.clip(states + 2 * actions - 1, 0, CELLS - 1), rng.integers(CELLS, size=64)
    rows = np.stack([states, following, goals], axis=1)
    pairs, places, counts = (torch.from_numpy(part) for part in distinct_pairs(rows))
    features, encoder = learner.network.embed(torch.eye(CELLS)), learner.network.encoder
    with torch.no_grad():
        halves = learner.target.pairs.halves(learner.target.embed(torch.eye(CELLS)))
    pull = None if encoder is None else pull_autograd(features, encoder)
    ends, taken = torch.from_numpy(rows[:, 1:]), torch.from_numpy(actions)
    return UVFABatch(pull, features.detach(), pairs, places, counts, halves, ends, taken, ends[:, 0] == ends[:, 1])


def trained(steps: int, **settings: object) -> UVFALearner:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = UVFAConfig(hidden=(64,), gamma=0.9, learning_rate=1e-2, target_every=20, **settings)  # type: ignore[arg-type]
        learner = UVFALearner(config, UVFA(None, PairNetwork(CELLS, (64,), 2, batch_norm=False)), CPU)
    rng = np.random.default_rng(0)
    for _ in range(steps):
        learner.update(corridor_batch(learner, rng))
    return learner


def test_it_learns_how_many_steps_away_a_goal_is() -> None:
    learner, cells = trained(500), torch.eye(CELLS)
    with torch.no_grad():
        values, actions = learner.network.best(cells, cells)
    apart = np.subtract.outer(np.arange(CELLS), np.arange(CELLS))
    away = np.abs(apart)
    # The step that arrives is free.
    np.testing.assert_allclose(-values.numpy()[away > 0], away[away > 0] - 1.0, atol=0.8)
    np.testing.assert_array_equal(actions.numpy()[away > 0], (apart < 0)[away > 0])


def test_the_anchor_makes_single_steps_free() -> None:
    """Without a goal ever reached, only the anchor says that any two states are near."""
    learners = [trained(0, anchor=anchor) for anchor in (0.0, 0.5)]
    rng = np.random.default_rng(0)
    for _ in range(100):
        drawn = rng.integers(2**32)
        for learner in learners:
            batch = corridor_batch(learner, np.random.default_rng(drawn))
            learner.update(replace(batch, reached=torch.zeros(64, dtype=torch.bool)))
    cells = torch.eye(CELLS)
    with torch.no_grad():
        bare, anchored = (float(learner.network.best(cells, cells)[0].diagonal(1).mean()) for learner in learners)
    assert anchored > -1.0 > bare + 1.0


@pytest.mark.parametrize("batch_norm", [False, True])
def test_a_step_goes_down_autograds_gradient(batch_norm: bool) -> None:
    """The whole step by hand, through an encoder, against the loss written out with every row by itself."""
    torch.manual_seed(0)
    encoder, pairs = make_encoder((CELLS,), 8, 10.0), PairNetwork(8, (16,), 2, batch_norm)
    config = UVFAConfig(hidden=(16,), gamma=0.9, batch_size=64, batch_norm=batch_norm)
    learner = UVFALearner(config, UVFA(encoder, pairs), CPU)
    batch = corridor_batch(learner, np.random.default_rng(0))
    plain = copy.deepcopy(learner.network)
    features = plain.embed(torch.eye(CELLS))
    assert batch.pairs.shape[1] < 40  # of 128: many occur again
    (states, _), (goals, following) = features[batch.pairs[:, batch.places]]
    plain.pairs.train()
    distances = plain.pairs(torch.cat([states, states]), torch.cat([goals, following]))
    values = value_of(distances[torch.arange(128), batch.actions.repeat(2)], 0.9).view(2, 64)
    with torch.no_grad():
        ahead = value_of(learner.target.pairs(following, goals).min(1).values, 0.9)
    loss = (values[0] - wanted(batch.reached, ahead, 0.9)).square().mean()
    loss = loss + config.anchor * values[1].square().mean()
    loss.backward()
    assert float(learner.update(batch)) == pytest.approx(loss.item(), rel=1e-5)
    for (name, mine), theirs in zip(learner.network.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(
            mine.grad, theirs.grad, atol=1e-5, rtol=1e-5, msg=lambda text, name=name: name + text
        )


def test_the_target_follows_at_its_interval_only() -> None:
    learner = trained(19)
    parts = [module.pairs.first.weight for module in (learner.network, learner.target)]
    assert not torch.equal(*parts)
    learner.update(corridor_batch(learner, np.random.default_rng(1)))
    assert learner.target_is_new
    assert torch.equal(*parts)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"hidden": ()}, "uvfa.hidden must be one or more positive numbers"),
        ({"gamma": 1.0}, "uvfa.gamma must lie between 0 and 1, got 1.0"),
        ({"future": 0}, "uvfa.future must be at least 1, got 0"),
        ({"relabel": 1.5}, r"uvfa.relabel must lie in \[0, 1\], got 1.5"),
        ({"batch_size": 1}, "uvfa.batch-size must be at least 2, got 1"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        UVFAConfig(**wrong)  # type: ignore[arg-type]
