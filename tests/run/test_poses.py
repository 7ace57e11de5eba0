from __future__ import annotations

import numpy as np
import pytest

from sfl.envs import MiniGridConfig, make_env
from sfl.run.poses import PoseLog, edge_length_median, landmark_poses

from .worlds import Corridor

POSES = np.array([[1, 1, 0], [4, 5, 90], [1, 2, 0]], np.float32)


def test_log_keeps_every_pose_in_order_past_its_first_size() -> None:
    log = PoseLog(Corridor())
    for number in range(1500):
        log.add(np.array([[number, 0, 0], [number, 1, 0]]))
    assert log.poses.shape == (3000, 3)
    np.testing.assert_array_equal(log.poses[2:4], [[1, 0, 0], [1, 1, 0]])
    np.testing.assert_array_equal(log.poses[-1], [1499, 1, 0])
    assert log.metrics() == {}  # a corridor does not list its cells


def test_coverage_counts_cells_once_and_only_free_ones() -> None:
    log = PoseLog(make_env(MiniGridConfig()))
    for cell in ((1, 1), (1, 1), (2, 1), (0, 0)):  # the last is a wall
        log.add(np.array([[*cell, 0]]))
    log.add(np.full((1, 3), np.nan))
    assert log.metrics() == {"explore/coverage": 2 / 40}
    again = PoseLog(make_env(MiniGridConfig()), log.poses)
    assert again.metrics() == log.metrics()


def test_landmarks_are_placed_where_their_observation_was_seen() -> None:
    placed = landmark_poses({"origin": np.array([2, 0, 7, -1])}, POSES)
    np.testing.assert_array_equal(placed, [[1, 2, 0], [1, 1, 0], [np.nan] * 3, [np.nan] * 3])
    assert landmark_poses({}, POSES).shape == (0, 3)


def test_median_length_of_edges() -> None:
    graph = {"edge_sources": np.array([0, 0, 2]), "edge_targets": np.array([1, 2, 0])}
    assert edge_length_median(graph, POSES) == {"graph/edge_length_median": 1.0}  # of 5, 1 and 1
    assert edge_length_median({}, POSES) == {}
    unknown = np.full((3, 3), np.nan)
    assert edge_length_median(graph, unknown) == {}


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_speaks_on_stderr_only(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from sfl.run import progress

    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.0)
    shown = progress.Progress("name seed 0", 100, 0)
    shown.evaluated({"eval/success_any": 0.5, "eval/steps_any": 20.0})
    shown.advance(50)
    shown.close()
    out, err = capsys.readouterr()
    assert out == ""
    assert "name seed 0" in err
    assert ("50/100" in err) or terminal
    assert "any 50%" in err
