from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sfl.api import GOAL, Array, Decision, Observation
from sfl.run.folder import load_run
from sfl.show.views import (
    RING,
    TILE,
    WALL,
    Chart,
    SimilarityPolicy,
    cell_sfs,
    chart,
    first_task,
    frozen,
    goal_place,
    journey,
    landmark_sfs,
    poses_agree,
    route_places,
    spread,
)
from sfl.worlds import MiniGridConfig, make_env


class Numbers:
    """A policy whose similarity is the first number of an observation, plus that of a reference."""

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """Nothing to do."""

    def act(self, observations: Array, env_indices: Array) -> Array:
        """Always the first action."""
        return np.zeros(len(env_indices), np.int64)

    def explain(self, env_index: int) -> Decision:
        """Nothing to say."""
        return Decision()

    def sfs(self, observations: Array, references: Array) -> Array:
        """Easy to work out."""
        return np.asarray(observations[:, :1] + references[:, 0])


def chart_of(env_id: str) -> Chart:
    env = make_env(MiniGridConfig(id=env_id))
    found = chart(env)
    env.close()
    assert found is not None
    return found


def cell(found: Chart, x: int, y: int) -> Array:
    return found.plan[y * TILE : (y + 1) * TILE, x * TILE : (x + 1) * TILE]


def test_the_sfs_of_a_cell_is_the_mean_over_its_headings() -> None:
    poses = np.array([[3, 1, 0], [2, 1, 0], [3, 1, 90], [2, 1, 180], [2, 1, 270]], float)
    observations = np.array([[0.5], [0.1], [0.7], [0.2], [0.6]])
    cells, values = cell_sfs(Numbers(), poses, observations, np.array([1.0]))
    assert cells.tolist() == [[2, 1], [3, 1]]
    assert values == pytest.approx([1.3, 1.6])


def test_the_heatmap_of_a_run_holds_the_means_of_its_policy(small_run: Path) -> None:
    run, found = load_run(small_run, device="cpu"), chart_of("sfl/FourRoom-v0")
    policy = frozen(run)
    assert isinstance(policy, SimilarityPolicy)
    cells, values = cell_sfs(policy, found.poses, found.observations, found.observations[0])
    assert len(cells) == len(found.poses) / 4
    one = int(np.flatnonzero((cells == [6, 7]).all(1))[0])
    rows = [row for row, pose in enumerate(found.poses) if tuple(pose[:2]) == (6, 7)]
    alone = [float(policy.sfs(found.observations[row][None], found.observations[:1])[0, 0]) for row in rows]
    assert values[one] == pytest.approx(np.mean(alone), abs=1e-5)


def test_walls_are_grey_and_the_floor_is_white() -> None:
    found = chart_of("sfl/FourRoom-v0")
    assert (found.size, found.window) == ((9, 9), (0, 0, 9, 9))
    assert (cell(found, 4, 1) == WALL).all()
    assert (cell(found, 1, 1)[TILE // 2, TILE // 2] == 255).all()
    assert not found.outside.any()


def test_the_map_of_rooms_is_cut_to_them() -> None:
    found = chart_of("sfl/MultiRoom-N3-v0")
    assert found.window == (9, 7, 18, 18)
    assert found.outside[0, 0]
    assert not found.outside[7, 9]  # the corner of the first room's wall
    assert (cell(found, 0, 0) == 255).all()
    red, green, blue = cell(found, 15, 16)[TILE // 2, TILE // 2].astype(int)  # the green tile
    assert green > red == blue


def test_landmarks_of_one_cell_lie_around_its_centre() -> None:
    places = spread(np.array([[5, 5, 90], [1, 2, 0], [5, 5, 0]], float))
    assert places[1].tolist() == [1, 2]
    assert places[2] == pytest.approx([5 + RING, 5])  # the first by heading
    assert places[0] == pytest.approx([5 - RING, 5])


def test_routes_pass_landmarks_and_end_at_a_known_goal() -> None:
    landmarks = np.array([[1, 1], [2, 2], [3, 3]], float)
    explanation = Decision(route=(2, 0, GOAL))
    assert route_places(explanation, landmarks, np.array([9.0, 9.0])).tolist() == [[3, 3], [1, 1], [9, 9]]
    assert route_places(explanation, landmarks, None).tolist() == [[3, 3], [1, 1]]
    assert route_places(Decision(), landmarks, None).shape == (0, 2)


def test_a_goal_known_as_a_picture_has_no_place() -> None:
    place = goal_place((4.0, 5.0, 90.0))
    assert place is not None
    assert place.tolist() == [4, 5]
    assert goal_place(np.zeros((9, 9, 3), np.uint8)) is None
    assert goal_place(None) is None


def test_sfs_between_landmarks_is_a_cosine() -> None:
    psi = np.array([[3.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    half = 2**-0.5
    assert landmark_sfs(psi) == pytest.approx(np.array([[1, half, 0], [half, 1, 0], [0, 0, 0]]))


def test_a_journey_starts_at_the_papers_start(small_run: Path) -> None:
    run = load_run(small_run, device="cpu")
    env = make_env(run.experiment.env)
    task = first_task(run)
    assert (task.level, first_task(run, "any").level) == ("paper", "any")
    made = journey(frozen(run), env, task)
    assert made.start is not None
    assert made.goal is not None
    assert (made.start.tolist(), made.goal.tolist()) == ([1, 1, 0], [6, 7])
    assert made.explanation.route[-1] == GOAL
    assert poses_agree(run)
