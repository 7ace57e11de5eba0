"""Thresholds, the set of landmarks, and who gets in."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sfl.errors import UsageError
from sfl.method.candidates import candidate_ranking, is_novel, landmark_to_replace
from sfl.method.config import LandmarkConfig
from sfl.method.landmarks import Landmarks, LandmarkSet, localized_at


def test_an_agent_is_at_the_nearest_landmark_when_strictly_above_the_threshold() -> None:
    assert localized_at(2, 0.75, 0.5) == 2
    assert localized_at(2, 0.75, 0.75) is None  # Algorithm 2, line 7: strictly above


def test_a_state_is_novel_when_it_is_strictly_below_the_add_threshold() -> None:
    assert is_novel(0.74, 0.75)
    assert not is_novel(0.75, 0.75)  # Algorithm 2, line 4: strictly below
    assert is_novel(-math.inf, -1.0)  # there is no landmark


def test_landmarks_are_numbered_in_the_order_of_adding() -> None:
    landmarks = LandmarkSet(limit=2)
    fullness = [landmarks.is_full]
    for index, (origin, step) in enumerate(((5, 10), (7, 20))):
        assert landmarks.add(origin, step) == index
        fullness.append(landmarks.is_full)
    assert fullness == [False, False, True]
    assert (landmarks.origin.tolist(), landmarks.added_at.tolist()) == ([5, 7], [10, 20])
    with pytest.raises(IndexError, match=r"full \(2\); replace one instead"):
        landmarks.add(origin=9, step=30)


def test_a_replaced_landmark_leaves_no_visits() -> None:
    landmarks = LandmarkSet(limit=3)
    for origin in (1, 2):
        landmarks.add(origin, step=0)
    for index in (0, 1, 1):
        landmarks.visit(index)
    landmarks.replace(1, origin=8, step=40)
    assert landmarks.visits.tolist() == [1, 0]
    assert landmarks.origin.tolist() == [1, 8]
    assert landmarks.added_at.tolist() == [0, 40]
    with pytest.raises(IndexError, match="landmark 2 does not exist; there are 2"):
        landmarks.replace(2, origin=9, step=50)
    with pytest.raises(IndexError, match="landmark -1 does not exist"):
        landmarks.replace(-1, origin=9, step=50)


def test_a_loaded_set_is_the_same_set() -> None:
    landmarks = LandmarkSet(limit=4)
    for origin in (1, 2, 3):
        landmarks.add(origin, step=10 * origin)
    landmarks.visit(2)
    other = LandmarkSet(limit=4)
    other.load_state(landmarks.state())
    assert other.count == 3
    assert other.visits.tolist() == [0, 0, 1]
    assert other.added_at.tolist() == [10, 20, 30]
    other.visit(0)
    assert landmarks.visits.tolist() == [0, 0, 1]


def test_candidates_least_like_any_landmark_come_first() -> None:
    similarity = np.array([[0.9, 0.1], [0.2, 0.3], [0.3, 0.3], [-0.5, 0.95]])  # largest: 0.9, 0.3, 0.3, 0.95
    assert candidate_ranking(similarity, "least-similar").tolist() == [1, 2, 0, 3]  # equals stay in time order
    assert candidate_ranking(similarity, "arrival").tolist() == [0, 1, 2, 3]
    assert candidate_ranking(np.zeros((3, 0)), "least-similar").tolist() == [0, 1, 2]


def test_the_least_visited_landmark_is_replaced() -> None:
    among, to_candidate = np.eye(3), np.zeros(3)
    assert landmark_to_replace("least-visited", np.array([4, 1, 2]), among, to_candidate) == 1
    assert landmark_to_replace("least-visited", np.array([4, 2, 2]), among, to_candidate) == 1


def test_of_the_closest_pair_the_one_nearer_to_the_candidate_is_replaced() -> None:
    among = np.array([[1.0, 0.3, 0.2], [0.3, 1.0, 0.6], [0.2, 0.6, 1.0]])  # 1 and 2 are the closest pair
    visits = np.array([0, 9, 9])
    assert landmark_to_replace("closest", visits, among, np.array([0.9, 0.1, 0.4])) == 2
    assert landmark_to_replace("closest", visits, among, np.array([0.9, 0.4, 0.1])) == 1


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("limit", 0, "landmarks.limit must be at least 1, got 0"),
        ("add_threshold", 1.5, r"landmarks.add-threshold must lie in \[-1, 1\] .* got 1.5"),
        ("localize_threshold", -2.0, r"landmarks.localize-threshold must lie in \[-1, 1\]"),
        ("window", 0, "landmarks.window must be at least 1"),
        ("candidates_per_add", 0, "landmarks.candidates-per-add must be at least 1"),
        ("add_every", 0, "landmarks.add-every must be at least 1"),
        ("update_every", 0, "landmarks.update-every must be at least 1"),
        ("trust", 1.5, r"landmarks.trust must lie in \[0, 1\], got 1.5"),
        ("trust", -0.1, r"landmarks.trust must lie in \[0, 1\], got -0.1"),
        ("trust_reach", 0, "landmarks.trust-reach must be at least 1, got 0"),
        ("trust_samples", 0, "landmarks.trust-samples must be at least 1, got 0"),
        ("start_step", -1, "landmarks.start-step must not be negative"),
    ],
)
def test_wrong_settings_are_named(field: str, value: float, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        LandmarkConfig(**{field: value})  # type: ignore[arg-type]


def test_similarity_is_the_cosine_and_a_snapshot_keeps_it() -> None:
    rng = np.random.default_rng(0)
    psi, others = rng.normal(size=(4, 7)), 5 * rng.normal(size=(3, 7))
    landmarks = Landmarks(LandmarkConfig(), 7, torch.device("cpu"))
    states, keys = (torch.nn.functional.normalize(torch.from_numpy(rows), dim=1) for rows in (psi, others))
    assert landmarks.similarity(states.float()).shape == (4, 0)
    landmarks.set_keys(keys, same_landmarks=False)
    expected = psi @ others.T / np.outer(np.linalg.norm(psi, axis=1), np.linalg.norm(others, axis=1))
    np.testing.assert_allclose(landmarks.similarity(states).numpy(), expected, rtol=1e-6)
    snapshot = landmarks.snapshot()
    landmarks.set_keys(keys.flip(0), same_landmarks=True)
    np.testing.assert_allclose(snapshot.similarity(states).numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(landmarks.similarity(states).numpy(), expected[:, ::-1], rtol=1e-6)
