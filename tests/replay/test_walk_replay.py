"""The replay of raw observations: pairs within an episode, goals ahead, rings written over, state."""

from __future__ import annotations

import numpy as np
import torch

from sfl.replay.store import WalkReplay

from ..baselines.walks import LINE, line_replay


def places(views: torch.Tensor) -> torch.Tensor:
    return views.argmax(-1)


def test_near_and_far_are_counted_in_decisions_of_one_episode() -> None:
    """On a line nobody gets farther than decisions allow; and an episode is too short for some distances."""
    replay = line_replay(400, episode=12)
    some, near, far = places(replay.triplets(np.random.default_rng(0), 2_000, near=2, far=5))  # type: ignore[arg-type]
    assert int((some - near).abs().max()) == 2
    assert int((some - far).abs().max()) <= 12
    assert float((some - far).abs().float().mean()) > 4
    assert replay.triplets(np.random.default_rng(0), 8, near=2, far=20) is None


def test_goals_lie_ahead_and_actions_lead_there() -> None:
    replay = line_replay(400, episode=12)
    found = replay.action_examples(np.random.default_rng(0), 2_000, ahead=3)
    assert found is not None
    (before, now, goal), actions = places(found[0]), found[1]
    assert int((now - before).abs().max()) == 1
    assert int((goal - now).abs().max()) == 3
    one_on = (goal - now).abs() == 1
    assert float(((goal > now)[one_on] == torch.from_numpy(actions)[one_on]).float().mean()) > 0.9
    assert float((before == now).float().mean()) > 0.05  # at the start of an episode there was nothing before


def test_a_ring_that_was_written_over_holds_what_is_new() -> None:
    replay = line_replay(500, episode=12, capacity=60)
    assert len(replay) == 60
    triplets = replay.triplets(np.random.default_rng(0), 500, near=2, far=5)
    assert triplets is not None
    assert int((places(triplets)[0] - places(triplets)[1]).abs().max()) <= 2


def test_a_loaded_replay_draws_alike() -> None:
    replay, other = line_replay(90, capacity=60), WalkReplay(LINE, 60, torch.device("cpu"))
    other.load_state({name: array.copy() for name, array in replay.state().items()})
    for one in ("triplets", "action_examples"):
        first, second = (
            r.triplets(np.random.default_rng(1), 9, 2, 5)
            if one == "triplets"
            else r.action_examples(np.random.default_rng(1), 9, 3)[0]  # type: ignore[index]
            for r in (replay, other)
        )
        assert torch.equal(first, second)  # type: ignore[arg-type]


def test_an_empty_replay_has_nothing_to_draw() -> None:
    replay = WalkReplay(LINE, 60, torch.device("cpu"))
    assert replay.triplets(np.random.default_rng(0), 4, 2, 5) is None
    assert replay.action_examples(np.random.default_rng(0), 4, 2) is None
