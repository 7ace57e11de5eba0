"""Landmarks that may stand for several places, and the landmarks ahead, on a circle."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfl.api import GOAL, Array
from sfl.method.candidates import Candidates
from sfl.method.landmarks import Landmarks

from .circle import Circle, admit, at, look, make_landmarks


class Town(Circle):
    """Visits of the replay, as degrees, and the place around each: places are axes of a space."""

    def __init__(self, visits: list[tuple[int, int]]) -> None:
        super().__init__()
        self._visits = visits
        self.asked: tuple[int, int] | None = None

    def surroundings(self, count: int, reach: int) -> tuple[Array, torch.Tensor] | None:
        self.asked = (count, reach)
        if not self._visits:
            return None
        degrees, places = zip(*self._visits, strict=True)
        return at(*degrees), torch.eye(4)[list(places)]


# The landmark at 90 degrees is two places, 1 and 2; at 45 degrees the agent is nowhere.
TWO_PLACES = Town([(0, 0)] * 6 + [(88, 1), (92, 2)] * 3 + [(180, 3)] * 6 + [(45, 2)] * 20)


def doubting(**settings: object) -> Candidates:
    candidates = make_landmarks(trust=0.5, **settings)
    admit(candidates, 0, 90, 180)
    candidates.landmarks.find_aliases(TWO_PLACES)  # type: ignore[arg-type]
    return candidates


def seen_at(landmarks: Landmarks, degrees: int) -> tuple[int | None, int | None]:
    (decision,) = look(landmarks, degrees)
    return decision.localized, decision.nearest


def test_a_landmark_that_is_two_places_is_aliased() -> None:
    landmarks = doubting(trust_samples=33, trust_reach=7).landmarks
    assert TWO_PLACES.asked == (33, 7)
    assert landmarks.aliasing.aliased.tolist() == [False, True, False]
    # Of five others two were to the same place; visits nowhere do not count.
    np.testing.assert_allclose(landmarks.aliasing.agreement(3).numpy(), [1.0, 0.4, 1.0], rtol=1e-6)


def test_no_agent_is_at_an_aliased_landmark_but_it_still_keeps_candidates_away() -> None:
    candidates = doubting()
    (decision,) = look(candidates.landmarks, 89)
    assert (decision.localized, decision.nearest) == (None, 0)
    assert decision.similarity == pytest.approx(np.cos(np.deg2rad(1)))  # to any landmark
    assert not candidates.accepts(decision.similarity)
    assert seen_at(candidates.landmarks, 1) == (0, 0)


@pytest.mark.parametrize(("trust", "town"), [(0.0, TWO_PLACES), (0.5, Town([]))])
def test_all_are_trusted_when_told_to_or_while_there_is_nothing_to_look_up(trust: float, town: Town) -> None:
    candidates = make_landmarks(trust=trust)
    candidates.landmarks.find_aliases(town)  # type: ignore[arg-type]  # no landmarks yet
    admit(candidates, 0, 90, 180)
    candidates.landmarks.find_aliases(town)  # type: ignore[arg-type]
    assert not candidates.landmarks.aliasing.aliased.any()
    assert seen_at(candidates.landmarks, 89)[0] == 1


def test_aliases_are_saved_and_go_into_snapshots() -> None:
    landmarks = doubting().landmarks
    other = make_landmarks(trust=0.5).landmarks
    other.load_state(landmarks.state())
    for one in (other, landmarks.snapshot()):
        one.begin_episode(0)
        assert one.aliasing.aliased.tolist() == [False, True, False]
        assert seen_at(one, 89)[0] is None
    for one in (landmarks, other):
        one.find_aliases(TWO_PLACES)  # type: ignore[arg-type]
    assert torch.equal(landmarks.aliasing.agreement(3), other.aliasing.agreement(3))


def test_a_new_landmark_is_not_aliased_and_neither_is_one_that_takes_over_an_index() -> None:
    candidates = doubting()
    admit(candidates, 270, step=1)
    assert seen_at(candidates.landmarks, 271)[0] == 3
    candidates = doubting(limit=3, replace="least-visited")
    landmarks, snapshot = candidates.landmarks, candidates.landmarks.snapshot()
    for index in (0, 2):
        landmarks.set.visit(index)
    assert admit(candidates, 270, step=1) == [(1, 270)]
    assert landmarks.aliasing.aliased.tolist() == [False] * 3
    assert seen_at(landmarks, 271)[0] == 1
    assert landmarks.aliasing.agreement(3)[1].isnan()  # the visits were another's
    assert snapshot.aliasing.aliased.tolist() == [False, True, False]


# ---- waypoints


def unit_at(*degrees: int) -> torch.Tensor:
    return Circle().psi(at(*degrees))[:, 0] / 3


def test_the_sfs_of_waypoints_is_told_environment_by_environment() -> None:
    candidates = make_landmarks()
    admit(candidates, 0, 90, 180)
    landmarks = candidates.landmarks
    for env in (1, 2):
        landmarks.begin_episode(env)
    waypoints, goals = [(2, 1, GOAL), (), (0,)], unit_at(50, 0, 0)
    decisions = landmarks.localize(Circle(), at(20, 40, 60), np.arange(3), waypoints, goals).decisions()
    expected = [np.cos(np.deg2rad([160, 70, 30])), [], np.cos(np.deg2rad([60]))]
    for decision, wanted in zip(decisions, expected, strict=True):
        assert list(decision.ahead) == pytest.approx(list(wanted), abs=1e-6)
    assert [decision.localized for decision in decisions] == [0, None, None]  # cos 20 = 0.94 > 0.9


def test_without_waypoints_or_landmarks_nothing_is_told() -> None:
    candidates = make_landmarks()
    candidates.landmarks.begin_episode(1)
    for _ in range(2):
        here = candidates.landmarks.localize(Circle(), at(0, 0), np.arange(2), [(), ()])
        assert [decision.ahead for decision in here.decisions()] == [(), ()]
        assert [decision.ahead for decision in look(candidates.landmarks, 0, 0)] == [(), ()]
        admit(candidates, 0, 90)


def test_ahead_is_the_median_over_the_window_and_counts_aliased_landmarks() -> None:
    landmarks = doubting(window=3).landmarks
    told = [
        landmarks.localize(Circle(), at(angle), np.array([0]), [(1,)]).decisions()[0].ahead[0] for angle in (90, 30, 90)
    ]
    assert told == pytest.approx([1.0, 0.5, 1.0], abs=1e-6)  # the newest alone twice, then the median
