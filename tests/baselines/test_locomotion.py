"""L: what it is taught, what it learns, how it draws, and what it remembers of the decision before."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfl.api import EnvSpec
from sfl.baselines.config import LocomotionConfig
from sfl.baselines.networks import Locomotion, PreviousObservations, locomotion_loss, side_by_side
from sfl.errors import UsageError

from .walks import LINE, line_replay, line_views

CONFIG = LocomotionConfig(ahead=3, batch_size=32, dim=32, learning_rate=3e-3)


def test_it_learns_the_way_to_what_lies_ahead() -> None:
    locomotion, replay, rng = Locomotion(CONFIG, LINE, 0, "cpu"), line_replay(400), np.random.default_rng(0)
    for _ in range(150):
        chases = replay.action_examples(rng, CONFIG.batch_size, CONFIG.ahead)
        assert chases is not None
        metrics = locomotion.update(*chases)
    assert set(metrics) == {"train/locomotion_loss", "train/locomotion_accuracy"}
    here = np.arange(3, 17)
    views = [torch.from_numpy(line_views(places)) for places in (here, here, here + 2)]
    up = locomotion.scores(torch.stack(views)).argmax(1)
    views[2] = torch.from_numpy(line_views(here - 2))
    down = locomotion.scores(torch.stack(views)).argmax(1)
    assert float(up.float().mean()) > 0.8
    assert float(down.float().mean()) < 0.2


def test_the_loss_is_the_cross_entropy_and_chance_at_first() -> None:
    loss, metrics = locomotion_loss(torch.zeros(4, 7), torch.tensor([0, 1, 2, 3]))
    assert float(loss) == pytest.approx(np.log(7))
    assert float(metrics["accuracy"]) == 0.25


def test_actions_are_drawn_by_their_chance() -> None:
    locomotion = Locomotion(CONFIG, LINE, 0, "cpu")
    views = torch.from_numpy(line_views(np.full(3 * 4_000, 7))).unflatten(0, (3, 4_000))
    chance = float(locomotion.scores(views[:, :1]).softmax(1)[0, 1])
    drawn = locomotion.draw(views, np.random.default_rng(0))
    assert drawn.mean() == pytest.approx(chance, abs=0.03)
    assert (drawn == locomotion.draw(views, np.random.default_rng(0))).all()


def test_three_frames_are_nine_channels() -> None:
    views = torch.arange(3, dtype=torch.uint8).view(3, 1, 1, 1, 1).expand(3, 2, 120, 160, 3)
    stacked = side_by_side(views)
    assert stacked.shape == (2, 120, 160, 9)
    assert stacked[0, 0, 0].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    locomotion = Locomotion(LocomotionConfig(encoder="compact"), EnvSpec((120, 160, 3), "uint8", 7), 0, "cpu")
    assert locomotion.scores(views).shape == (2, 7)


def test_the_view_before_is_the_last_of_the_same_episode() -> None:
    last, envs = PreviousObservations(LINE, torch.device("cpu")), np.array([2, 0])
    for env in (0, 2):
        last.begin(env)
    first, second = line_views(np.array([4, 5])), line_views(np.array([6, 7]))
    before, now = last.push(first, envs)
    assert torch.equal(before, now)
    other = PreviousObservations(LINE, torch.device("cpu"))
    other.load_state(last.state())
    for views in (last, other):
        views.begin(0)
        before, now = views.push(second, envs)
        assert before[0].argmax() == 4  # environment 2 went on
        assert before[1].argmax() == 7  # environment 0 began anew
        assert torch.equal(now, torch.from_numpy(second))


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(UsageError, match=r"locomotion\.ahead must be at least 1, got 0"):
        LocomotionConfig(ahead=0)
    with pytest.raises(UsageError, match=r"locomotion\.learning-rate must be positive"):
        LocomotionConfig(learning_rate=0)
