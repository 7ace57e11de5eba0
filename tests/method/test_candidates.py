"""Landmarks with their observations, on a circle."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfl.method import candidates as candidates_module
from sfl.method.candidates import Candidate

from .circle import COS_30, Circle, admit, angles, at, look, make_landmarks, propose


def test_without_landmarks_candidates_come_in_order_each_tested_against_those_before() -> None:
    candidates = make_landmarks()
    # 20 is within 30 of 0; 40 is not; 60 is within 30 of 40; 90 is not.
    assert admit(candidates, 0, 20, 40, 60, 90) == [(0, 0), (1, 40), (2, 90)]
    assert angles(candidates.landmarks) == [0, 40, 90]


def test_with_landmarks_the_least_similar_candidate_comes_first() -> None:
    candidates = make_landmarks()
    admit(candidates, 0)
    assert admit(candidates, 35, 90, 40) == [(1, 90), (2, 40)]  # 35 is within 30 of 40 by then
    candidates = make_landmarks(candidate_order="arrival")
    admit(candidates, 0)
    assert admit(candidates, 35, 90, 40) == [(1, 35), (2, 90)]


def test_n_cand_limits_how_many_get_in_at_a_time() -> None:
    candidates = make_landmarks(candidates_per_add=2)
    assert admit(candidates, 0, 90, 180, 270) == [(0, 0), (1, 90)]
    assert admit(candidates, 180, 270, step=7) == [(2, 180), (3, 270)]
    assert candidates.landmarks.set.added_at.tolist() == [0, 0, 7, 7]


def test_a_full_set_takes_no_more_candidates() -> None:
    candidates = make_landmarks(limit=2)
    assert candidates.accepts(-np.inf)
    assert admit(candidates, 0, 90, 180) == [(0, 0), (1, 90)]
    assert not candidates.accepts(0.0)
    assert admit(candidates, 180) == []


def test_only_states_below_the_add_threshold_are_accepted() -> None:
    candidates = make_landmarks()
    admit(candidates, 0)
    assert candidates.accepts(0.8)
    assert not candidates.accepts(COS_30)


def test_the_same_observation_is_kept_once_where_it_was_met_first() -> None:
    candidates = make_landmarks()
    propose(candidates, 50, origin=3)
    propose(candidates, 50, 10, origin=8)
    assert [(int(one.observation[0]), one.origin) for one in candidates.waiting.values()] == [(50, 3), (10, 9)]


def test_candidates_are_judged_by_the_psi_of_now_and_so_are_landmarks() -> None:
    candidates = make_landmarks()
    admit(candidates, 0)
    propose(candidates, 45)
    assert candidates.admit(Circle(turn=90.0), 0) != []  # all turned alike: still 45 apart
    torch.testing.assert_close(candidates.landmarks.keys[0], torch.tensor([0.0, 1.0]), atol=1e-6, rtol=0)


def test_psi_of_landmarks_moves_only_at_a_refresh() -> None:
    candidates = make_landmarks()
    admit(candidates, 0, 90)
    later = Circle(turn=60.0)
    # psi of a state at 0 is now at 60: nearer to the old psi of landmark 1 (at 90) than to that of landmark 0.
    assert look(candidates.landmarks, 0, turn=60.0)[0].nearest == 1
    candidates.landmarks.refresh(later)
    assert look(candidates.landmarks, 0, turn=60.0)[0].nearest == 0


def test_seeing_localizes_above_the_threshold_and_names_the_nearest_in_any_case() -> None:
    candidates = make_landmarks()
    admit(candidates, 0, 90)
    candidates.landmarks.begin_episode(1)
    here = candidates.landmarks.localize(Circle(), at(80, 45), np.array([0, 1]))
    first, second = here.decisions()
    assert (first.localized, second.localized) == (1, None)  # cos 10 = 0.98 > 0.9; cos 45 = 0.71
    assert first.nearest == 1
    np.testing.assert_allclose([first.similarity, second.similarity], np.cos(np.deg2rad([10, 45])), atol=1e-6)
    torch.testing.assert_close(here.psi.norm(dim=2), torch.ones(2, 2))
    (nothing,) = look(make_landmarks().landmarks, 0)
    assert (nothing.nearest, nothing.similarity) == (None, -np.inf)


def test_a_threshold_of_one_asks_for_the_same_observation() -> None:
    candidates = make_landmarks(localize_threshold=1.0)
    admit(candidates, 0, 90)
    assert look(candidates.landmarks, 90)[0].localized == 1
    assert look(candidates.landmarks, 450)[0].localized is None  # the same psi, another picture
    assert look(candidates.landmarks, 450)[0].nearest == 1


def test_localization_takes_the_median_of_the_last_w() -> None:
    candidates = make_landmarks(window=3)
    admit(candidates, 0, 90)
    seen = [look(candidates.landmarks, angle)[0].localized for angle in (0, 90, 0, 90, 90)]
    # The newest alone twice, then medians of (0, 90, 0), (90, 0, 90), (0, 90, 90).
    assert seen == [0, 1, 0, 1, 1]


def test_replacement_takes_the_least_visited_and_forgets_its_observation() -> None:
    candidates = make_landmarks(limit=2, replace="least-visited", localize_threshold=1.0)
    admit(candidates, 0, 90)
    candidates.landmarks.set.visit(0)
    assert admit(candidates, 180, step=1) == [(1, 180)]
    assert angles(candidates.landmarks) == [0, 180]
    assert look(candidates.landmarks, 90)[0].localized is None
    assert look(candidates.landmarks, 180)[0].localized == 1
    torch.testing.assert_close(candidates.landmarks.keys[1], torch.tensor([-1.0, 0.0]), atol=1e-6, rtol=0)


def test_replacement_of_the_closest_pair() -> None:
    candidates = make_landmarks(limit=3, replace="closest")
    admit(candidates, 0, 40, 180)  # 0 and 40 are the closest pair
    assert admit(candidates, 300, step=1) == [(0, 300)]  # 60 from 0, 100 from 40
    assert angles(candidates.landmarks) == [300, 40, 180]


def test_a_landmark_is_not_replaced_at_the_step_at_which_it_came() -> None:
    candidates = make_landmarks(limit=2, replace="least-visited")
    assert admit(candidates, 0, 90, 180, step=5) == [(0, 0), (1, 90)]  # nothing has had time to be visited
    assert candidates.landmarks.set.added_at.tolist() == [5, 5]
    assert len(admit(candidates, 180, 270, 225, step=6)) == 2  # both, and the third finds nobody old enough
    assert candidates.landmarks.set.added_at.tolist() == [6, 6]


def test_one_addition_replaces_several_landmarks_the_least_visited_first() -> None:
    candidates = make_landmarks(limit=3, replace="least-visited")
    admit(candidates, 0, 90, 180)
    for landmark, visits in enumerate((2, 0, 1)):
        for _ in range(visits):
            candidates.landmarks.set.visit(landmark)
    assert [index for index, _ in admit(candidates, 45, 135, 225, 315, step=1)] == [1, 2, 0]


def test_the_same_observation_is_never_two_landmarks() -> None:
    candidates = make_landmarks(add_threshold=1.0, limit=1_000, candidates_per_add=1_000)
    everywhere = range(0, 360, 5)
    assert len(admit(candidates, *everywhere)) == 72
    assert admit(candidates, *everywhere) == []  # though rounding leaves the SFS of some to themselves below 1


def test_a_snapshot_stays_and_loaded_ones_are_equal() -> None:
    candidates = make_landmarks()
    admit(candidates, 0, 90)
    candidates.landmarks.set.visit(1)
    propose(candidates, 200, 250)
    snapshot = candidates.landmarks.snapshot()
    snapshot.begin_episode(0)
    other = make_landmarks()
    other.landmarks.load_state(candidates.landmarks.state())
    other.load_state(candidates.state())
    assert [one.origin for one in other.waiting.values()] == [0, 1]
    assert other.landmarks.set.visits.tolist() == [0, 1]
    candidates.admit(Circle(turn=30.0), 5)
    assert angles(candidates.landmarks) == [0, 90, 200, 250]
    assert angles(snapshot) == angles(other.landmarks) == [0, 90]
    assert look(snapshot, 80)[0].localized == 1
    empty = make_landmarks()
    empty.load_state(make_landmarks().state())
    assert empty.waiting == {}


@pytest.mark.parametrize("previous", [None, 0, 4])
def test_a_candidate_survives_saving_whole(previous: int | None) -> None:
    candidates = make_landmarks()
    candidates.propose(Candidate(at(30)[0], 12, previous, 5, False))
    other = make_landmarks()
    other.load_state(candidates.state())
    (found,) = other.waiting.values()
    assert (int(found.observation[0]), found.origin, found.previous, found.steps, found.random) == (
        30,
        12,
        previous,
        5,
        False,
    )


def test_whoever_waits_in_a_long_queue_is_tested_against_all_admitted_before(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    queue = rng.permutation(360).tolist()
    expected: list[int] = []
    for angle in queue:  # one by one, by hand
        if all(np.cos(np.deg2rad(angle - other)) < COS_30 for other in expected):
            expected.append(angle)
    for block in (1, 7, 1_000):
        monkeypatch.setattr(candidates_module, "BLOCK", block)
        candidates = make_landmarks(limit=50, candidates_per_add=50, candidate_order="arrival")
        assert [angle for _, angle in admit(candidates, *queue)] == expected
        np.testing.assert_allclose(
            candidates.landmarks.keys.numpy(), Circle().psi(at(*expected)).numpy()[:, 0] / 3, atol=1e-6
        )


@pytest.mark.parametrize("block", [1, 256])
def test_a_replaced_landmark_keeps_nobody_out(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates_module, "BLOCK", block)
    candidates = make_landmarks(limit=4, replace="closest", candidate_order="arrival")
    admit(candidates, 0, 35, 120, 160)
    # 240 takes the place of 0, of the closest pair the nearer; 0 would have kept 350 out, which takes that of 120.
    assert admit(candidates, 240, 350, step=1) == [(0, 240), (2, 350)]
    assert angles(candidates.landmarks) == [240, 35, 350, 160]


def test_the_buffer_keeps_the_first_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates_module, "CANDIDATE_LIMIT", 3)
    candidates = make_landmarks()
    propose(candidates, 0, 50, 50, 100)
    assert candidates.is_full
    propose(candidates, 150)
    assert [int(one.observation[0]) for one in candidates.waiting.values()] == [0, 50, 100]
    candidates.admit(Circle(), 0)
    assert not candidates.is_full


def test_clustered_landmarks_are_the_middles_of_all_that_was_met_and_start_afresh() -> None:
    candidates = make_landmarks(formation="clustered", limit=2)
    assert candidates.accepts(1.0)  # whatever is met takes part
    propose(candidates, 0, 10, 20, 170, 180, 190, origin=30)
    assert candidates.rebuild(Circle(), step=7)
    assert angles(candidates.landmarks) == [10, 180]
    assert candidates.landmarks.set.origin.tolist() == [31, 34]
    assert look(candidates.landmarks, 185)[0].localized == 1
    candidates.landmarks.set.visit(1)
    propose(candidates, 80, 90, 100, origin=50)
    assert candidates.rebuild(Circle(), step=9)
    assert angles(candidates.landmarks) == [
        180,
        80,
    ]  # the old ones took part: 180 is still there, 10 is with the new ones
    assert candidates.landmarks.set.visits.tolist() == [0, 0]
    assert candidates.landmarks.set.added_at.tolist() == [9, 9]
    assert candidates.waiting == {}


def test_clustering_needs_something_to_cluster() -> None:
    assert not make_landmarks(formation="clustered").rebuild(Circle(), step=3)
