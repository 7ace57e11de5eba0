"""Values in closed form, and a network that learns the distances of a corridor."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from sfl.api import Array
from sfl.baselines.mss.config import UVFAConfig
from sfl.baselines.mss.value import UVFA, UVFABatch, UVFALearner, distinct_pairs, td_target, uvfa_loss, value_of
from sfl.errors import UsageError
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
    torch.testing.assert_close(td_target(reached, ahead, 0.9), torch.tensor([0.0, -2.8, -10.0, 0.0]))


def corridor_batch(learner: UVFALearner, rng: np.random.Generator, reached: bool | None = None) -> UVFABatch:
    """All cells, both actions (0 back, 1 ahead), any goal; a cell is seen as one number out of six.

    A goal is reached where the next cell is the goal, unless `reached` says otherwise for all.
    """
    states, actions = rng.integers(CELLS, size=64), rng.integers(2, size=64)
    following, goals = np.clip(states + 2 * actions - 1, 0, CELLS - 1), rng.integers(CELLS, size=64)
    rows = np.stack([states, following, goals], axis=1)
    pairs, places = (torch.from_numpy(part) for part in distinct_pairs(rows))
    arrived = following == goals if reached is None else np.full(64, reached)
    with torch.no_grad():
        ahead = learner.target.embed(torch.eye(CELLS))
    wanted = learner.wanted(ahead, torch.from_numpy(rows[:, 1:]), torch.from_numpy(arrived))
    features = learner.network.embed(torch.eye(CELLS))
    return UVFABatch(features, pairs, places, torch.from_numpy(actions), wanted)


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
            learner.update(corridor_batch(learner, np.random.default_rng(drawn), reached=False))
    cells = torch.eye(CELLS)
    with torch.no_grad():
        bare, anchored = (float(learner.network.best(cells, cells)[0].diagonal(1).mean()) for learner in learners)
    assert anchored > -1.0 > bare + 1.0


def test_the_loss_is_that_of_every_row_by_itself() -> None:
    """Through an encoder, against the errors written out for each step, with every state encoded where it occurs."""
    torch.manual_seed(0)
    encoder, pairs = make_encoder((CELLS,), 8, 10.0), PairNetwork(8, (16,), 2, batch_norm=False)
    config = UVFAConfig(hidden=(16,), gamma=0.9, batch_size=64, anchor=0.3)
    learner = UVFALearner(config, UVFA(encoder, pairs), CPU)
    rng = np.random.default_rng(0)
    states, following, goals = cells = rng.integers(CELLS, size=(3, 64))
    actions, reached = torch.from_numpy(rng.integers(2, size=64)), torch.from_numpy(following == goals)
    found, places = (torch.from_numpy(part) for part in distinct_pairs(cells.T))
    assert found.shape[1] < 40  # of 128: many occur again
    plain = copy.deepcopy(learner.network)
    views = torch.eye(CELLS)
    ours = learner.network.embed(views)
    wanted = learner.wanted(learner.target.embed(views), torch.from_numpy(cells[1:].T), reached)
    loss, _ = uvfa_loss(learner.network.pairs, UVFABatch(ours, found, places, actions, wanted), 0.9, config.anchor)
    loss.backward()  # type: ignore[no-untyped-call]

    def value(first: Array, second: Array) -> torch.Tensor:
        distances = plain.pairs(plain.embed(views[first]), plain.embed(views[second]))
        return value_of(distances, 0.9)

    with torch.no_grad():  # the network is its own target still; the nearer action has the higher value
        ahead = value(following, goals).max(1).values
        target = ((reached.float() - 1) + 0.9 * ahead).clamp(-10, 0)
    each = torch.arange(64)
    expected = (value(states, goals)[each, actions] - target).square().mean()
    expected = expected + 0.3 * value(states, following)[each, actions].square().mean()
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    for mine, theirs in zip(learner.network.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-5, rtol=1e-5)


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
