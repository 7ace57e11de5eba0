"""Landmarks that may stand for several places, and the landmarks ahead, on a circle."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfl.api import GOAL, Array
from sfl.method.landmarks import LandmarkMemory, Routes

from .circle import Circle, admit, at, make_memory


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


def doubting(**settings: object) -> LandmarkMemory:
    memory = make_memory(trust=0.5, **settings)
    admit(memory, 0, 90, 180)
    memory.examine(TWO_PLACES)  # type: ignore[arg-type]
    return memory


def see(memory: LandmarkMemory, degrees: int) -> tuple[int | None, int | None, float]:
    sight = memory.see(Circle(), at(degrees), np.array([0]))
    return sight.localized[0], sight.nearest[0], sight.similarity[0]


def test_a_landmark_that_is_two_places_is_doubted() -> None:
    memory = doubting(trust_samples=33, trust_reach=7)
    assert TWO_PLACES.asked == (33, 7)
    assert memory.doubted.tolist() == [False, True, False]
    # Of five others two were to the same place; visits nowhere count for nobody.
    np.testing.assert_allclose(memory.trust.agreement(3).numpy(), [1.0, 0.4, 1.0], rtol=1e-6)


def test_nobody_is_at_a_landmark_in_doubt_but_it_still_keeps_candidates_away() -> None:
    memory = doubting()
    localized, nearest, similarity = see(memory, 89)
    assert (localized, nearest) == (None, 0)
    assert similarity == pytest.approx(np.cos(np.deg2rad(1)))  # to any landmark
    assert not memory.accepts(similarity)
    assert see(memory, 1)[:2] == (0, 0)


@pytest.mark.parametrize(("trust", "town"), [(0.0, TWO_PLACES), (0.5, Town([]))])
def test_all_are_trusted_when_told_to_or_while_there_is_nothing_to_look_up(trust: float, town: Town) -> None:
    memory = make_memory(trust=trust)
    memory.examine(town)  # type: ignore[arg-type]  # no landmarks yet
    admit(memory, 0, 90, 180)
    memory.examine(town)  # type: ignore[arg-type]
    assert not memory.doubted.any()
    assert see(memory, 89)[0] == 1


def test_doubt_is_saved_and_goes_into_frozen_copies() -> None:
    memory = doubting()
    other = make_memory(trust=0.5)
    other.load_state(memory.state())
    frozen = memory.frozen()
    for one in (other, frozen):
        one.localizer.reset(0)
        assert one.doubted.tolist() == [False, True, False]
        assert see(one, 89)[0] is None
    for one in (memory, other):
        one.examine(TWO_PLACES)  # type: ignore[arg-type]
    assert torch.equal(memory.trust.agreement(3), other.trust.agreement(3))


def test_a_new_landmark_is_not_in_doubt_and_neither_is_one_that_takes_over_an_index() -> None:
    memory = doubting()
    admit(memory, 270, step=1)
    assert see(memory, 271)[0] == 3
    memory = doubting(limit=3, replace="least-visited")
    frozen = memory.frozen()
    for index in (0, 2):
        memory.set.visit(index)
    assert admit(memory, 270, step=1) == [(1, 270)]
    assert memory.doubted.tolist() == [False] * 3
    assert see(memory, 271)[0] == 1
    assert memory.trust.agreement(3)[1].isnan()  # the visits were another's
    assert frozen.doubted.tolist() == [False, True, False]


# ---- landmarks ahead


def unit_at(*degrees: int) -> torch.Tensor:
    return Circle().psi(at(*degrees))[:, 0] / 3


def test_the_sfs_of_what_lies_ahead_is_told_row_by_row() -> None:
    memory = make_memory()
    admit(memory, 0, 90, 180)
    for env in (1, 2):
        memory.localizer.reset(env)
    routes = Routes([(2, 1, GOAL), (), (0,)], unit_at(50, 0, 0))
    sight = memory.see(Circle(), at(20, 40, 60), np.arange(3), routes=routes)
    expected = [np.cos(np.deg2rad([160, 70, 30])), [], np.cos(np.deg2rad([60]))]
    for found, wanted in zip(sight.ahead, expected, strict=True):
        assert list(found) == pytest.approx(list(wanted), abs=1e-6)
    assert sight.localized == [0, None, None]  # cos 20 = 0.94 > 0.9


def test_nothing_ahead_is_nothing_told() -> None:
    memory = make_memory()
    routes = Routes([(), ()], None)
    memory.localizer.reset(1)
    assert list(memory.see(Circle(), at(0, 0), np.arange(2), routes=routes).ahead) == [(), ()]  # no landmarks
    admit(memory, 0, 90)
    assert [list(row) for row in memory.see(Circle(), at(0, 0), np.arange(2), routes=routes).ahead] == [[], []]
    assert list(memory.see(Circle(), at(0, 0), np.arange(2)).ahead) == [(), ()]


def test_ahead_is_the_median_over_the_window_and_counts_landmarks_in_doubt() -> None:
    memory = doubting(window=3)
    routes = Routes([(1,)], None)
    told = [memory.see(Circle(), at(angle), np.array([0]), routes=routes).ahead[0][0] for angle in (90, 30, 90)]
    assert told == pytest.approx([1.0, 0.5, 1.0], abs=1e-6)  # the newest alone twice, then the median
