"""Which landmarks are one place: agreement of surroundings, pair by pair."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfl.api import Array
from sfl.method.aliasing import Aliasing
from sfl.method.config import LandmarkConfig

CPU = torch.device("cpu")


def aliasing(limit: int) -> Aliasing:
    return Aliasing(LandmarkConfig(limit=limit, trust=0.5), CPU)


def units(count: int, seed: int, dim: int = 5) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.nn.functional.normalize(torch.randn(count, dim, generator=generator), dim=1)


def add(trust: Aliasing, landmark: int, surroundings: torch.Tensor) -> None:
    trust.add(torch.full((len(surroundings),), landmark), surroundings)


def mean_of_pairs(surroundings: torch.Tensor, weights: Array) -> float:
    """The mean cosine of two different visits, each pair weighing the product of its weights."""
    cosines = (surroundings @ surroundings.mT).double().numpy()
    pairs = np.outer(weights, weights) * (1 - np.eye(len(weights)))
    return float((cosines * pairs).sum() / pairs.sum())


@pytest.mark.parametrize("memory", [1.0, 0.9])
def test_agreement_is_the_mean_cosine_of_two_visits(memory: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Aliasing, "MEMORY", memory)
    trust, visits = aliasing(3), units(12, seed=0)
    landmarks = torch.tensor([0, 0, 1, 0, 1, 0, 1, 1, 0, 0, 1, 1])
    for first in (0, 4, 8):  # three times four visits
        trust.add(landmarks[first : first + 4], visits[first : first + 4])
    age = np.repeat([2, 1, 0], 4)
    expected = [mean_of_pairs(visits[landmarks == one], memory ** age[landmarks == one]) for one in (0, 1)]
    np.testing.assert_allclose(trust.agreement(2).numpy(), expected, atol=1e-6)


def test_two_places_under_one_landmark_agree_less_than_one_place() -> None:
    trust, noise = aliasing(2), 0.1 * units(20, seed=1)
    one, two = torch.eye(5)[:1].repeat(20, 1), torch.eye(5)[:2].repeat(10, 1)
    add(trust, 0, torch.nn.functional.normalize(one + noise, dim=1))
    add(trust, 1, torch.nn.functional.normalize(two + noise, dim=1))
    alone, shared = trust.agreement(2).tolist()
    assert alone > 0.97
    assert shared == pytest.approx(9 / 19, abs=0.03)  # of the 19 other visits 9 were to the same place
    trust = aliasing(2)
    add(trust, 1, two)
    assert float(trust.agreement(2)[1]) == pytest.approx(9 / 19)


def test_nothing_is_said_of_landmarks_with_few_visits_or_old_ones() -> None:
    trust = aliasing(3)
    same = torch.eye(5)[:1]
    trust.add(torch.tensor([0] * 3 + [1] * 4), same.repeat(7, 1))
    np.testing.assert_allclose(trust.agreement(3).numpy(), [np.nan, 1.0, np.nan])
    add(trust, 0, same)  # 3 * 0.9 + 1 visits here, and 4 * 0.9 there
    assert trust.agreement(3).isnan().all()
    add(trust, 0, same)  # (3 * 0.9 + 1) * 0.9 + 1
    np.testing.assert_allclose(trust.agreement(3).numpy(), [1.0, np.nan, np.nan], rtol=1e-5)


def test_a_cleared_index_starts_from_nothing() -> None:
    trust = aliasing(2)
    add(trust, 0, units(8, seed=0))
    add(trust, 1, units(8, seed=1))
    other = float(trust.agreement(2)[1])
    trust.clear(0)
    assert trust.agreement(2).tolist() == pytest.approx([np.nan, other], nan_ok=True)
    add(trust, 0, torch.eye(5)[:1].repeat(6, 1))
    assert float(trust.agreement(2)[0]) == pytest.approx(1.0)


def test_doubted_is_what_agrees_less_than_a_share_of_the_median() -> None:
    trust = aliasing(5)
    first, second = torch.eye(5)[:1], torch.eye(5)[1:2]
    visits = torch.cat([first] * 5 + [second] * 5)
    trust.add(torch.arange(3).repeat_interleave(10), first.repeat(30, 1))
    trust.add(torch.full((10,), 3), visits)  # agrees by 4 / 9
    assert trust.agreement(5)[:4].tolist() == pytest.approx([1.0, 1.0, 1.0, 4 / 9])
    assert trust.disagreeing(5, 0.5).tolist() == [False, False, False, True, False]  # of the last nothing is known
    assert trust.disagreeing(5, 0.4).tolist() == [False] * 5
    assert trust.disagreeing(0, 0.5).tolist() == []


def test_there_is_always_a_landmark_beyond_doubt() -> None:
    fresh = aliasing(3)
    fresh.add(torch.zeros(0, dtype=torch.int64), torch.zeros(0, 5))
    assert fresh.disagreeing(3, 1.0).tolist() == [False] * 3  # nothing is known of any
    trust = aliasing(2)
    opposite = torch.eye(5)[:1] * torch.tensor([[1.0], [-1.0]])
    trust.add(torch.arange(2).repeat_interleave(6), opposite.repeat(6, 1))
    assert trust.agreement(2).tolist() == pytest.approx([-0.2, -0.2])  # of five others two agree, three oppose
    assert trust.disagreeing(2, 0.5).tolist() == [False, False]


def test_a_loaded_trust_goes_on_alike() -> None:
    trust, other = aliasing(3), aliasing(3)
    other.load_state(trust.state())  # before the first visit
    for seed in range(3):
        for one in (trust, other):
            add(one, seed % 2, units(7, seed))
        fresh = aliasing(3)
        fresh.load_state(other.state())
        other = fresh
    torch.testing.assert_close(trust.agreement(3), other.agreement(3), rtol=0, atol=0, equal_nan=True)


def test_an_aliased_landmark_is_never_nearest_and_those_that_came_later_may_be() -> None:
    one = aliasing(4)
    similarity = torch.tensor([[0.9, 0.1, 0.2, 0.3], [-1.0, -1.0, 0.9, -1.0]])
    assert one.mask(similarity) is similarity
    one.flag(np.array([True, False, True]))  # the fourth came later
    masked = one.mask(similarity)
    assert masked.argmax(1).tolist() == [3, 1]  # even the lowest cosine beats an aliased one
    assert torch.equal(masked[:, [1, 3]], similarity[:, [1, 3]])
    assert (masked[:, [0, 2]] < -1).all()
    assert torch.equal(one.mask(similarity[0]), masked[0])  # of one state as of several
    one.flag(np.array([False, True, False, False]))  # these and no others
    assert one.mask(similarity).argmax(1).tolist() == [0, 2]
