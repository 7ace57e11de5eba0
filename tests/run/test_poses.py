from __future__ import annotations

import numpy as np
import pytest

from sfl.api import Array
from sfl.run.coverage import PoseLog, edge_ends, landmark_poses
from sfl.run.evaluate import open_world
from sfl.worlds import DoomConfig, GymConfig, MiniGridConfig
from sfl.worlds.doom.world import MazeWorld
from sfl.worlds.world import Squares

POSES = np.array([[1, 1, 0], [4, 5, 90], [1, 2, 0]], np.float32)


def log_of(poses: Array) -> PoseLog:
    log = PoseLog(None)
    log.add(poses)
    return log


def test_log_keeps_every_pose_in_order_past_the_ends_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfl.run.coverage.BLOCK", 7)
    log = PoseLog(None)
    assert log.pieces() == ()
    assert log.since(0).shape == (0, 3)
    expected = np.array([[number // 2, number % 2, 0] for number in range(3000)], np.float32)
    for first in range(0, 3000, 15):  # more at once than fit into a block
        log.add(expected[first : first + 15])
        assert len(log) == first + 15
        assert len(log.pieces()[-1]) <= 7
    np.testing.assert_array_equal(np.concatenate(log.pieces()), expected)
    for first in (0, 6, 7, 2996, 3000):
        np.testing.assert_array_equal(log.since(first), expected[first:])
    np.testing.assert_array_equal(log.at(np.array([2999, 0, 7])), expected[[2999, 0, 7]])
    assert log.metrics() == {}  # nobody knows which cells there are
    assert open_world(GymConfig("FrozenLake-v1")).squares() is None


def test_coverage_counts_cells_once_and_only_free_ones() -> None:
    log = PoseLog(open_world(MiniGridConfig()).squares())
    for cell in ((1, 1), (1, 1), (2, 1), (0, 0)):  # the last is a wall
        log.add(np.array([[*cell, 0]]))
        log.metrics()  # asking in between changes nothing
    log.add(np.full((1, 3), np.nan))
    assert log.metrics() == {"explore/coverage": 2 / 40, "explore/coverage_often": 2 / 40}
    again = PoseLog(open_world(MiniGridConfig()).squares())
    again.add(log.since(0))
    assert again.metrics() == log.metrics()


def test_a_square_is_visited_often_with_a_tenth_of_an_even_share() -> None:
    log = PoseLog(Squares.around(np.array([[0.5, 0.5], [1.5, 0.5], [2.5, 0.5], [3.5, 0.5]]), 1.0))
    for square, visits in enumerate((357, 10, 33, 0)):  # 100 each would be even
        log.add(np.tile([square + 0.5, 0.5, 0.0], (visits, 1)))
        log.metrics()
    assert log.metrics() == {"explore/coverage": 0.75, "explore/coverage_often": 0.75}
    log.add(np.array([[0.5, 0.5, 0.0]] * 4))  # 10 visits of 404 are less than a tenth of 101
    assert log.metrics() == {"explore/coverage": 0.75, "explore/coverage_often": 0.5}


def test_squares_count_the_poses_in_them() -> None:
    squares = Squares.around(np.array([[10.0, 10.0], [49.9, 0.0], [-1.0, 120.0], [60.0, 10.0]]), 50.0)
    assert squares.reachable.tolist() == [[-1, 2], [0, 0], [1, 0]]
    poses = np.array([[0, 0, 9], [49, 49, 9], [50, 0, 9], [-50, 100, 9], [-51, 100, 9], [700, 0, 9], [np.nan] * 3])
    assert squares.visits(poses).tolist() == [1, 2, 1]
    assert squares.visits(np.zeros((0, 3))).tolist() == [0, 0, 0]


def test_squares_of_a_maze_are_those_with_free_places() -> None:
    world = MazeWorld(DoomConfig("small"))
    squares = world.squares()
    assert squares.side == 50.0
    start = np.array([world.sampler.maze.start])
    assert squares.visits(start).sum() == 1
    places = world.sampler.free.sample(np.random.Generator(np.random.PCG64(0)), 2000)
    seen = squares.visits(np.column_stack([places, np.zeros(2000)]))
    assert seen.sum() > 1990  # slivers between two points of the lattice are no squares of their own
    assert (seen > 0).mean() > 0.9


def test_landmarks_are_placed_where_their_observation_was_seen() -> None:
    placed = landmark_poses({"origin": np.array([2, 0, 7, -1])}, log_of(POSES))
    np.testing.assert_array_equal(placed, [[1, 2, 0], [1, 1, 0], [np.nan] * 3, [np.nan] * 3])
    assert landmark_poses({}, log_of(POSES)).shape == (0, 3)


def test_edges_run_from_landmark_to_landmark() -> None:
    graph = {"edge_sources": np.array([0, 2]), "edge_targets": np.array([1, 0])}
    np.testing.assert_array_equal(edge_ends(graph, POSES), [[1, 1, 4, 5], [1, 2, 1, 1]])
    assert edge_ends({}, POSES).shape == (0, 4)


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_speaks_on_stderr_only(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from sfl.run import log as progress

    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.0)
    shown = progress.Progress("name seed 0", 100, 0)
    shown.evaluated({"eval/success_any": 0.5, "eval/steps_any": 20.0}, {})
    shown.advance(50)
    shown.close()
    out, err = capsys.readouterr()
    assert out == ""
    assert "name seed 0" in err
    assert ("50/100" in err) or terminal
    assert "any 50%" in err
