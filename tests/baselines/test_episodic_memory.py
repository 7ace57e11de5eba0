"""The episodic memory against numpy and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from sfl.baselines.config import BonusConfig
from sfl.baselines.ec import EpisodicMemory, percentile
from sfl.errors import UsageError

CPU = torch.device("cpu")
ONE, BOTH = np.array([0]), np.array([0, 1])


def by_number(first: Tensor, second: Tensor) -> Tensor:
    """Alike are observations with the same number."""
    return (first.unsqueeze(1) == second).all(2).float()


class Walker:
    """Goes from number to number and asks what each is worth."""

    def __init__(self, config: BonusConfig, envs: int = 2) -> None:
        self.memory = EpisodicMemory(config, envs, 1, CPU)

    def see(self, *numbers: float) -> list[float]:
        """One number for each environment, from the first on."""
        envs = np.arange(len(numbers))
        earned, counts = self.memory.visit(envs, torch.tensor(numbers).unsqueeze(1), by_number)
        self.memory.counts_arrived(envs, counts.numpy())
        return earned.tolist()


@pytest.mark.parametrize("share", [0.0, 37.0, 50.0, 90.0, 100.0])
def test_percentile_is_that_of_numpy(share: float) -> None:
    rng = np.random.default_rng(0)
    values, counts = rng.random((8, 11)).astype(np.float32), np.array([1, 2, 3, 5, 8, 10, 11, 11])
    expected = [np.percentile(row[:count], share) for row, count in zip(values, counts, strict=True)]
    found = percentile(torch.from_numpy(values), torch.from_numpy(counts), share)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_an_empty_memory_is_like_nothing() -> None:
    assert percentile(torch.ones(1, 3), torch.zeros(1, dtype=torch.long), 90).item() == 0.0


def test_what_is_new_earns_and_is_remembered_once() -> None:
    walker = Walker(BonusConfig(percentile=100))
    assert walker.see(3.0) == [0.5]
    assert walker.see(4.0) == [0.5]
    assert walker.see(3.0) == [-0.5]
    assert walker.memory.sizes.tolist() == [2, 0]


def test_one_match_among_many_is_not_enough_for_percentile_90() -> None:
    walker = Walker(BonusConfig(percentile=90))
    for number in range(21):
        walker.see(float(number))
    # 1 of 21 alike: rank 18 of 0..20 is still 0
    assert walker.see(5.0) == [0.5]
    few = Walker(BonusConfig(percentile=90))
    for number in range(3):
        few.see(float(number))
    # of 0, 0, 1 the rank 1.8 is 0.8
    assert few.see(1.0) == pytest.approx([0.5 - 0.8])


def test_novelty_threshold_decides_what_is_remembered() -> None:
    def alike(first: Tensor, second: Tensor) -> Tensor:
        return torch.full((len(first), second.shape[1]), 0.45)

    for threshold, kept in ((0.0, 2), (0.1, 1)):
        memory = EpisodicMemory(BonusConfig(novelty_threshold=threshold), 1, 1, CPU)
        for _ in range(2):
            earned, counts = memory.visit(ONE, torch.ones(1, 1), alike)
            memory.counts_arrived(ONE, counts.numpy())
        assert earned.item() == pytest.approx(0.05)
        assert memory.sizes.tolist() == [kept]


def test_beyond_the_capacity_the_oldest_is_forgotten() -> None:
    walker = Walker(BonusConfig(capacity=3, percentile=100))
    for number in (1.0, 2.0, 3.0, 4.0):
        assert walker.see(number) == [0.5]
    assert walker.memory.sizes.tolist() == [3, 0]
    assert walker.see(2.0) == walker.see(3.0) == walker.see(4.0) == [-0.5]
    assert walker.see(1.0) == [0.5]
    assert walker.see(2.0) == [0.5]  # the oldest by now


def test_every_episode_begins_without_memory_and_leaves_the_others_theirs() -> None:
    walker = Walker(BonusConfig(percentile=100))
    walker.see(1.0, 1.0)
    walker.memory.clear(0)
    assert walker.memory.sizes.tolist() == [0, 1]
    assert walker.see(1.0, 1.0) == [0.5, -0.5]


def test_environments_may_come_in_any_order_and_number() -> None:
    together, apart = (EpisodicMemory(BonusConfig(percentile=100), 3, 1, CPU) for _ in range(2))
    rng = np.random.default_rng(0)
    for numbers in rng.integers(5, size=(12, 3)).astype(np.float32):
        order = rng.permutation(3)
        earned, counts = together.visit(order, torch.from_numpy(numbers[order, None]), by_number)
        together.counts_arrived(order, counts.numpy())
        for env, found in zip(order, earned.tolist(), strict=True):
            alone, count = apart.visit(np.array([env]), torch.from_numpy(numbers[[env], None]), by_number)
            apart.counts_arrived(np.array([env]), count.numpy())
            assert alone.item() == found
    assert together.sizes.tolist() == apart.sizes.tolist()


def test_state_comes_back() -> None:
    config = BonusConfig(capacity=2, percentile=100)
    first, second = Walker(config), Walker(config)
    for number in (1.0, 2.0, 3.0):
        first.see(number, 7.0)
    second.memory.load_state(first.memory.state())
    assert second.memory.sizes.tolist() == [2, 1]
    for number in (1.0, 2.0, 3.0):
        assert first.see(number, number) == second.see(number, number)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("capacity", 0, "bonus.capacity must be at least 1, got 0"),
        ("percentile", 101.0, r"bonus.percentile must lie in \[0, 100\], got 101.0"),
        ("novelty_threshold", 0.5, "bonus.novelty-threshold must be below the shift, 0.5; got 0.5"),
        ("scale", -1.0, "bonus.scale must not be negative, got -1.0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(name: str, value: float, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        BonusConfig(**{name: value})  # type: ignore[arg-type]
