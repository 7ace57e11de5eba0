"""Goals that training never came near, against looking at everything that it saw."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfl.api import Array, Episode, Observation, Step, Transitions
from sfl.run.coverage import PoseLog
from sfl.run.evaluate import open_world
from sfl.run.indicators import BLOCK, UnseenObservations, UnseenPositions, unseen_goals
from sfl.worlds import GymConfig, MiniGridConfig, Task

NOWHERE = np.full((2, 3), np.nan)


def step(seen: Array, then: Array, ended: tuple[int, ...] = (), infos: Any = ()) -> Step:
    """Two environments that showed `seen` [2, ...] and now show `then`."""
    both = np.zeros(2)
    moved = Transitions(np.arange(2), seen, both.astype(int), both, both > 0, both > 0, then)
    return Step(moved, NOWHERE, NOWHERE, both > 0, both, (Episode(0, 0, {}),) * 2, ended, infos=infos)


def log_of(poses: Array) -> PoseLog:
    log = PoseLog(None)
    log.add(poses)
    return log


def walk(rng: np.random.Generator, count: int, make: Any) -> tuple[list[Step], list[Observation]]:
    """Steps, and all that was seen in them: what an episode ended with too, but not where one only went on to."""
    steps, seen = [], []
    for _ in range(count):
        first, then = make(rng), make(rng)
        ended = (1,) if rng.random() < 0.2 else ()
        steps.append(step(first, then, ended))
        seen += [*first, *(then[row] for row in ended)]
    return steps, seen


def whole(rng: np.random.Generator) -> Array:
    return rng.integers(0, 12, (2, 1, 2)).astype(np.float32) - 0.0


def spread(rng: np.random.Generator) -> Array:
    return rng.normal(0.0, 2.0, (2, 3))


def picture(rng: np.random.Generator) -> Array:
    """Of few kinds, with a few bright spots: some lie within 40 of each other."""
    return (rng.integers(0, 3, (2, 1, 1, 1)) + 25 * (rng.random((2, 9, 9, 3)) < 0.005)).astype(np.uint8)


def equal(achieved: Observation, desired: Observation) -> bool:
    return bool(np.array_equal(achieved, desired))


def near(achieved: Observation, desired: Observation) -> bool:
    return float(np.linalg.norm(np.subtract(achieved, desired, dtype=float))) <= 1.0


def similar(achieved: Observation, desired: Observation) -> bool:
    return float(np.linalg.norm(np.subtract(achieved, desired, dtype=float))) <= 40.0


def above(achieved: Observation, desired: Observation, info: Any = None) -> bool:
    return bool(achieved[0] > desired[0] + 1.0)


@pytest.mark.parametrize(
    ("make", "reached", "kind"),
    [(whole, equal, "equal"), (spread, near, 1.0), (picture, similar, 40.0), (spread, above, above)],
)
def test_goals_that_are_observations_against_looking_at_all(make: Any, reached: Any, kind: Any) -> None:
    rng = np.random.default_rng(0)
    goals = [*make(rng), *make(rng), *make(rng), 100 + make(rng)[0]] * 2  # each goal twice counts once
    tracker = UnseenObservations(goals, kind)
    seen: list[Observation] = []
    for _ in range(6):  # longer than a block in all, and never a multiple of it
        steps, more = walk(rng, BLOCK // 4 + 3, make)
        for one in steps:
            tracker.add(one)
        seen += more
        share = np.mean([not any(reached(observation, goal) for observation in seen) for goal in goals])
        assert tracker.metrics(log_of(np.zeros((1, 3)))) == {"explore/goals_unseen": pytest.approx(share)}
        again = UnseenObservations(goals, kind)
        again.load_state(tracker.state())
        tracker = again  # a resumed run goes on with the same
    assert 0 < share < 1


def test_goals_far_away_are_measured_to_the_last_digit() -> None:
    """Distances by products are rough at such sizes; the goal test is not."""
    base = np.array([1e8, -3e8])
    tracker = UnseenObservations([base, base + 5.0], 1.0)
    tracker.add(step(base + np.array([[0.0, 1.0], [3.9, 5.0]]), np.zeros((2, 2))))
    assert tracker.metrics(log_of(np.zeros((1, 3)))) == {"explore/goals_unseen": 0.5}


def test_zero_has_no_sign_and_what_is_no_number_is_never_reached() -> None:
    tracker = UnseenObservations([np.array([0.0]), np.array([np.nan])], "equal")
    tracker.add(step(np.array([[-0.0], [np.nan]]), np.zeros((2, 1))))
    assert tracker.metrics(log_of(np.zeros((1, 3)))) == {"explore/goals_unseen": 0.5}


def test_a_function_hears_what_the_environment_says() -> None:
    """The same observation with another info is asked about again."""
    tracker = UnseenObservations([np.array([7.0])], lambda achieved, desired, info: bool(info.get("key")))
    same = np.array([[1.0], [1.0]])
    tracker.add(step(same, same, infos=({}, {})))
    assert tracker.metrics(log_of(np.zeros((1, 3)))) == {"explore/goals_unseen": 1.0}
    tracker.add(step(same, same, infos=({}, {"key": True})))
    assert tracker.metrics(log_of(np.zeros((1, 3)))) == {"explore/goals_unseen": 0.0}


def test_goals_at_places_against_looking_at_all() -> None:
    rng = np.random.default_rng(1)
    goals, poses = rng.uniform(0, 2_000, (60, 2)), rng.uniform(0, 2_000, (300, 3))
    poses[::7] = np.nan
    tracker = UnseenPositions(np.concatenate([goals, goals]), 100.0)
    for count in (1, 50, 51, 300):
        gaps = np.linalg.norm(goals[:, None] - poses[None, :count, :2], axis=2)
        share = float(np.mean(~(gaps <= 100.0).any(1)))
        assert tracker.metrics(log_of(poses[:count])) == {"explore/goals_unseen": pytest.approx(share)}
    assert 0 < share < 1


def test_on_a_grid_only_the_goals_own_cell_is_near() -> None:
    config = MiniGridConfig()
    tasks = [Task("any", 0, None, (3.0, 2.0, 90.0), 100), Task("any", 1, None, (3.0, 2.0, 0.0), 100)]
    tracker = unseen_goals(open_world(config), [*tasks, Task("paper", 0, None, (6.0, 7.0, 0.0), 100)])
    assert tracker.metrics(log_of(np.zeros((0, 3)))) == {}  # no step, nothing to say
    assert tracker.metrics(log_of(np.array([[3.0, 3.0, 90.0]]))) == {"explore/goals_unseen": 1.0}
    assert tracker.metrics(log_of(np.array([[3.0, 3.0, 90.0], [3.0, 2.0, 270.0]]))) == {"explore/goals_unseen": 0.5}


def test_where_an_episode_ends_counts() -> None:
    """FrozenLake's gift ends the episode: no decision is made there."""
    config = GymConfig("FrozenLake-v1", kwargs=("is_slippery=false",))
    gift = np.eye(16, dtype=np.float32)[[15]]
    tracker = unseen_goals(open_world(config), [Task("any", 0, None, gift[0], 100)])
    seen, then = np.eye(16, dtype=np.float32)[[14, 13]], np.eye(16, dtype=np.float32)[[15, 13]]
    tracker.add(step(seen, then))
    assert tracker.metrics(log_of(np.zeros((1, 3)))) == {"explore/goals_unseen": 1.0}
    tracker.add(step(seen, then, ended=(0,)))
    assert tracker.metrics(log_of(np.zeros((1, 3)))) == {"explore/goals_unseen": 0.0}
