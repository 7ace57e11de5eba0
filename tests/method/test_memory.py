"""Landmarks with their observations, on a circle."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfl.method import landmarks as memory_module
from sfl.method.landmarks import Candidate

from .circle import COS_30, Circle, admit, angles, at, make_memory, propose


def test_without_landmarks_candidates_come_in_order_each_tested_against_those_before() -> None:
    memory = make_memory()
    # 20 is within 30 of 0; 40 is not; 60 is within 30 of 40; 90 is not.
    assert admit(memory, 0, 20, 40, 60, 90) == [(0, 0), (1, 40), (2, 90)]
    assert angles(memory) == [0, 40, 90]


def test_with_landmarks_the_least_similar_candidate_comes_first() -> None:
    memory = make_memory()
    admit(memory, 0)
    assert admit(memory, 35, 90, 40) == [(1, 90), (2, 40)]  # 35 is within 30 of 40 by then
    memory = make_memory(candidate_order="arrival")
    admit(memory, 0)
    assert admit(memory, 35, 90, 40) == [(1, 35), (2, 90)]


def test_n_cand_limits_how_many_get_in_at_a_time() -> None:
    memory = make_memory(candidates_per_add=2)
    assert admit(memory, 0, 90, 180, 270) == [(0, 0), (1, 90)]
    assert admit(memory, 180, 270, step=7) == [(2, 180), (3, 270)]
    assert memory.set.added_at.tolist() == [0, 0, 7, 7]


def test_a_full_set_takes_no_more_candidates() -> None:
    memory = make_memory(limit=2)
    assert memory.accepts(-np.inf)
    assert admit(memory, 0, 90, 180) == [(0, 0), (1, 90)]
    assert not memory.accepts(0.0)
    assert admit(memory, 180) == []


def test_only_states_below_the_add_threshold_are_accepted() -> None:
    memory = make_memory()
    admit(memory, 0)
    assert memory.accepts(0.8)
    assert not memory.accepts(COS_30)


def test_the_same_observation_is_kept_once_where_it_was_met_first() -> None:
    memory = make_memory()
    propose(memory, 50, origin=3)
    propose(memory, 50, 10, origin=8)
    assert [(int(one.observation[0]), one.origin) for one in memory.candidates.values()] == [(50, 3), (10, 9)]


def test_candidates_are_judged_by_the_psi_of_now_and_so_are_landmarks() -> None:
    memory = make_memory()
    admit(memory, 0)
    propose(memory, 45)
    assert memory.admit(Circle(turn=90.0), 0) != []  # all turned alike: still 45 apart
    torch.testing.assert_close(memory.localizer.rows[0], torch.tensor([0.0, 1.0]), atol=1e-6, rtol=0)


def test_psi_of_landmarks_moves_only_at_a_refresh() -> None:
    memory = make_memory()
    admit(memory, 0, 90)
    later = Circle(turn=60.0)
    # psi of a state at 0 is now at 60: nearer to the old psi of landmark 1 (at 90) than to that of landmark 0.
    assert memory.see(later, at(0), np.array([0])).nearest == [1]
    memory.refresh(later)
    assert memory.see(later, at(0), np.array([0])).nearest == [0]


def test_seeing_localizes_above_the_threshold_and_names_the_nearest_in_any_case() -> None:
    memory = make_memory()
    admit(memory, 0, 90)
    memory.localizer.reset(1)
    sight = memory.see(Circle(), at(80, 45), np.array([0, 1]))
    assert sight.localized == [1, None]  # cos 10 = 0.98 > 0.9; cos 45 = 0.71
    assert sight.nearest[0] == 1
    np.testing.assert_allclose(sight.similarity, np.cos(np.deg2rad([10, 45])), atol=1e-6)
    torch.testing.assert_close(sight.psi.norm(dim=2), torch.ones(2, 2))
    assert make_memory().see(Circle(), at(0), np.array([0])).nearest == [None]


def test_a_threshold_of_one_asks_for_the_same_observation() -> None:
    memory = make_memory(localize_threshold=1.0)
    admit(memory, 0, 90)
    assert memory.see(Circle(), at(90), np.array([0])).localized == [1]
    assert memory.see(Circle(), at(450), np.array([0])).localized == [None]  # the same psi, another picture
    assert memory.see(Circle(), at(450), np.array([0])).nearest == [1]


def test_localization_takes_the_median_of_the_last_w() -> None:
    memory = make_memory(window=3)
    admit(memory, 0, 90)
    seen = [memory.see(Circle(), at(angle), np.array([0])).localized[0] for angle in (0, 90, 0, 90, 90)]
    # The newest alone twice, then medians of (0, 90, 0), (90, 0, 90), (0, 90, 90).
    assert seen == [0, 1, 0, 1, 1]


def test_replacement_takes_the_least_visited_and_forgets_its_observation() -> None:
    memory = make_memory(limit=2, replace="least-visited", localize_threshold=1.0)
    admit(memory, 0, 90)
    memory.set.visit(0)
    assert admit(memory, 180, step=1) == [(1, 180)]
    assert angles(memory) == [0, 180]
    assert memory.see(Circle(), at(90), np.array([0])).localized == [None]
    assert memory.see(Circle(), at(180), np.array([0])).localized == [1]
    torch.testing.assert_close(memory.localizer.rows[1], torch.tensor([-1.0, 0.0]), atol=1e-6, rtol=0)


def test_replacement_of_the_closest_pair() -> None:
    memory = make_memory(limit=3, replace="closest")
    admit(memory, 0, 40, 180)  # 0 and 40 are the closest pair
    assert admit(memory, 300, step=1) == [(0, 300)]  # 60 from 0, 100 from 40
    assert angles(memory) == [300, 40, 180]


def test_a_landmark_is_not_replaced_at_the_step_at_which_it_came() -> None:
    memory = make_memory(limit=2, replace="least-visited")
    assert admit(memory, 0, 90, 180, step=5) == [(0, 0), (1, 90)]  # nothing has had time to be visited
    assert memory.set.added_at.tolist() == [5, 5]
    assert len(admit(memory, 180, 270, 225, step=6)) == 2  # both, and the third finds nobody old enough
    assert memory.set.added_at.tolist() == [6, 6]


def test_one_addition_replaces_several_landmarks_the_least_visited_first() -> None:
    memory = make_memory(limit=3, replace="least-visited")
    admit(memory, 0, 90, 180)
    for landmark, visits in enumerate((2, 0, 1)):
        for _ in range(visits):
            memory.set.visit(landmark)
    assert [index for index, _ in admit(memory, 45, 135, 225, 315, step=1)] == [1, 2, 0]


def test_the_same_observation_is_never_two_landmarks() -> None:
    memory = make_memory(add_threshold=1.0, limit=1_000, candidates_per_add=1_000)
    everywhere = range(0, 360, 5)
    assert len(admit(memory, *everywhere)) == 72
    assert admit(memory, *everywhere) == []  # though rounding leaves the SFS of some to themselves below 1


def test_a_frozen_memory_stays_and_a_loaded_one_is_equal() -> None:
    memory = make_memory()
    admit(memory, 0, 90)
    memory.set.visit(1)
    propose(memory, 200, 250)
    frozen = memory.frozen()
    frozen.localizer.reset(0)
    other = make_memory()
    other.load_state(memory.state())
    other.load_candidate_state(memory.candidate_state())
    assert [one.origin for one in other.candidates.values()] == [0, 1]
    assert other.set.visits.tolist() == [0, 1]
    memory.admit(Circle(turn=30.0), 5)
    assert angles(memory) == [0, 90, 200, 250]
    assert angles(frozen) == angles(other) == [0, 90]
    assert frozen.see(Circle(), at(80), np.array([0])).localized == [1]
    empty = make_memory()
    empty.load_candidate_state(make_memory().candidate_state())
    assert empty.candidates == {}


@pytest.mark.parametrize("previous", [None, 0, 4])
def test_a_candidate_survives_saving_whole(previous: int | None) -> None:
    memory = make_memory()
    memory.propose(Candidate(at(30)[0], 12, previous, 5, False))
    other = make_memory()
    other.load_candidate_state(memory.candidate_state())
    (found,) = other.candidates.values()
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
        monkeypatch.setattr(memory_module, "BLOCK", block)
        memory = make_memory(limit=50, candidates_per_add=50, candidate_order="arrival")
        assert [angle for _, angle in admit(memory, *queue)] == expected
        np.testing.assert_allclose(
            memory.localizer.rows.numpy(), Circle().psi(at(*expected)).numpy()[:, 0] / 3, atol=1e-6
        )


@pytest.mark.parametrize("block", [1, 256])
def test_a_replaced_landmark_keeps_nobody_out(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "BLOCK", block)
    memory = make_memory(limit=4, replace="closest", candidate_order="arrival")
    admit(memory, 0, 35, 120, 160)
    # 240 takes the place of 0, of the closest pair the nearer; 0 would have kept 350 out, which takes that of 120.
    assert admit(memory, 240, 350, step=1) == [(0, 240), (2, 350)]
    assert angles(memory) == [240, 35, 350, 160]


def test_the_buffer_keeps_the_first_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "CANDIDATE_LIMIT", 3)
    memory = make_memory()
    propose(memory, 0, 50, 50, 100)
    assert not memory.wants_candidates
    propose(memory, 150)
    assert [int(one.observation[0]) for one in memory.candidates.values()] == [0, 50, 100]
    memory.admit(Circle(), 0)
    assert memory.wants_candidates


def test_something_else_can_be_done_before_the_answer_is_waited_for() -> None:
    memory = make_memory()
    calls: list[str] = []
    memory.see(Circle(), at(0), np.array([0]), lambda: calls.append("without landmarks"))
    admit(memory, 0, 90)
    sight = memory.see(Circle(), at(80), np.array([0]), lambda: calls.append("with"))
    assert (calls, sight.localized) == (["without landmarks", "with"], [1])


def test_clustered_landmarks_are_the_middles_of_all_that_was_met_and_start_afresh() -> None:
    memory = make_memory(formation="clustered", limit=2)
    assert memory.accepts(1.0)  # whatever is met takes part
    propose(memory, 0, 10, 20, 170, 180, 190, origin=30)
    assert memory.rebuild(Circle(), step=7)
    assert angles(memory) == [10, 180]
    assert memory.set.origin.tolist() == [31, 34]
    assert memory.see(Circle(), at(185), np.array([0])).localized == [1]
    memory.set.visit(1)
    propose(memory, 80, 90, 100, origin=50)
    assert memory.rebuild(Circle(), step=9)
    assert angles(memory) == [180, 80]  # the old ones took part: 180 is still there, 10 is with the new ones
    assert memory.set.visits.tolist() == [0, 0]
    assert memory.set.added_at.tolist() == [9, 9]
    assert memory.candidates == {}


def test_clustering_needs_something_to_cluster() -> None:
    assert not make_memory(formation="clustered").rebuild(Circle(), step=3)
