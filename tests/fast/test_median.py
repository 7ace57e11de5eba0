"""Medians over a window, against numpy and the plain twin."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfl.fast.median import SlidingMedian, plain_median

CPU = torch.device("cpu")


def make_medians(window: int, length: int, env_count: int) -> SlidingMedian:
    medians = SlidingMedian(window, CPU)
    medians.restart(length)
    for env in range(env_count):
        medians.begin_episode(env)
    return medians


def see(medians: SlidingMedian, values: list[float], envs: list[int], length: int = 2) -> list[float]:
    """Slide one value per environment, the same in every series; returns the median of the first."""
    rows = torch.tensor(values).unsqueeze(1).repeat(1, length)
    smoothed = medians.slide(rows, np.array(envs))
    assert (smoothed == smoothed[:, :1]).all()
    return [round(float(value), 6) for value in smoothed[:, 0]]


@pytest.mark.parametrize(("count", "middle"), [(1, 4.0), (2, 2.5), (3, 4.0), (4, 3.0), (5, 4.0)])
def test_the_median_of_an_even_number_is_the_mean_of_two(count: int, middle: float) -> None:
    values = [4.0, 1.0, 9.0, 2.0, 7.0][:count]
    medians = make_medians(window=count, length=2, env_count=1)
    assert [see(medians, [value], [0]) for value in values][-1] == [middle] == [np.median(values)]


def test_newest_until_w_were_seen_then_the_median_of_the_last_w() -> None:
    medians = make_medians(window=3, length=2, env_count=1)
    values = [0.5, 0.1, 0.9, 0.2, 0.8, 0.7]
    # The third sees {0.5, 0.1, 0.9}, the fourth {0.1, 0.9, 0.2}, then {0.9, 0.2, 0.8} and {0.2, 0.8, 0.7}.
    assert [see(medians, [value], [0])[0] for value in values] == [0.5, 0.1, 0.5, 0.2, 0.8, 0.7]


def test_each_landmark_has_its_own_median() -> None:
    medians = make_medians(window=3, length=3, env_count=2)
    rng = np.random.default_rng(0)
    history = rng.random((10, 2, 3)).astype(np.float32)
    for time in range(10):
        smoothed = medians.slide(torch.from_numpy(history[time]), np.array([0, 1])).numpy()
        expected = np.median(history[time - 2 : time + 1], axis=0) if time >= 2 else history[time]
        np.testing.assert_allclose(smoothed, expected)


def test_a_window_of_one_is_the_newest() -> None:
    medians = make_medians(window=1, length=2, env_count=1)
    assert [see(medians, [value], [0])[0] for value in (0.5, 0.1, 0.9)] == [0.5, 0.1, 0.9]


def test_environment_0_ending_resets_environment_0_only() -> None:
    medians = make_medians(window=3, length=2, env_count=2)
    for value in (0.1, 0.2, 0.3):
        see(medians, [value, value], [0, 1])
    medians.begin_episode(0)
    # Environment 0 starts anew, environment 1 has {0.2, 0.3, 0.9}.
    assert see(medians, [0.9, 0.9], [0, 1]) == [0.9, 0.3]
    assert see(medians, [0.7, 0.8], [0, 1]) == [0.7, 0.8]  # {0.3, 0.9, 0.8}
    assert see(medians, [0.6, 0.1], [0, 1]) == [0.7, 0.8]  # {0.9, 0.7, 0.6} and {0.9, 0.8, 0.1}


def test_environments_may_come_in_any_order_and_number() -> None:
    medians = make_medians(window=3, length=1, env_count=3)
    for value in (0.1, 0.2):
        see(medians, [value, 10 * value], [2, 0], 1)
    assert see(medians, [0.5, 0.9], [1, 2], 1) == [0.5, 0.2]
    assert see(medians, [1.5], [0], 1) == [1.5]  # {1, 2, 1.5}
    medians.begin_episode(5)
    assert see(medians, [0.3], [5], 1) == [0.3]


def test_other_series_start_afresh() -> None:
    medians = make_medians(window=3, length=2, env_count=1)
    for value in (0.1, 0.2):
        see(medians, [value], [0], 2)
    medians.restart(3)
    assert [see(medians, [value], [0], 3)[0] for value in (0.4, 0.6, 0.5)] == [0.4, 0.6, 0.5]


@pytest.mark.parametrize("window", [2, 3, 8])
def test_sliding_equals_the_plain_median_in_any_order_and_number(window: int) -> None:
    medians = make_medians(window, length=3, env_count=4)
    rng = np.random.default_rng(window)
    seen: list[list[torch.Tensor]] = [[] for _ in range(4)]
    for time in range(300):
        if rng.random() < 0.1:
            env = int(rng.integers(4))
            medians.begin_episode(env)
            seen[env].clear()
        some = rng.permutation(4)[: rng.integers(1, 5)]
        envs = some if 100 <= time < 110 or time > 250 else np.arange(4)  # in step, out of step for good after 100
        similarity = rng.normal(size=(len(envs), 3)).round(1).astype(np.float32)  # rounded: many are equal
        smoothed = medians.slide(torch.from_numpy(similarity), envs).numpy()
        for row, env in enumerate(envs):
            seen[env].append(torch.from_numpy(similarity[row]))
            expected = plain_median(seen[env], window)
            np.testing.assert_allclose(smoothed[row], expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("envs", [[0, 1, 2], [2, 0]])
def test_loaded_medians_go_on_as_the_saved_ones(envs: list[int]) -> None:
    rng = np.random.default_rng(0)
    saved, loaded = make_medians(3, length=2, env_count=3), SlidingMedian(3, CPU)
    for _ in range(7):
        saved.slide(torch.from_numpy(rng.random((3, 2), np.float32)), np.arange(3))
    saved.slide(torch.from_numpy(rng.random((len(envs), 2), np.float32)), np.array(envs))
    saved.begin_episode(1)
    loaded.load_state(saved.state(), 2)
    for _ in range(7):
        similarity = torch.from_numpy(rng.random((3, 2), np.float32))
        one, other = (medians.slide(similarity, np.arange(3)) for medians in (saved, loaded))
        assert torch.equal(one, other)
