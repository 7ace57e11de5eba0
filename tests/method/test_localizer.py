"""SFS to all landmarks and its median, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfl.method.landmarks import Localizer

CPU = torch.device("cpu")


def make_localizer(window: int, landmarks: int, env_count: int) -> Localizer:
    """Landmarks are the axes of a space, so that a state's coordinates are its similarities."""
    localizer = Localizer(landmarks, window, CPU)
    localizer.set_rows(torch.eye(landmarks), same_landmarks=False)
    for env in range(env_count):
        localizer.reset(env)
    return localizer


def see(localizer: Localizer, values: list[float], envs: list[int]) -> list[float]:
    """Smooth one similarity per environment, the same to every landmark; returns it for the first landmark."""
    similarity = torch.tensor(values).unsqueeze(1).repeat(1, localizer.rows.shape[0])
    smoothed = localizer.smooth(similarity, np.array(envs))
    assert (smoothed == smoothed[:, :1]).all()
    return [round(float(value), 6) for value in smoothed[:, 0]]


def test_similarity_is_the_cosine() -> None:
    rng = np.random.default_rng(0)
    psi, landmarks = rng.normal(size=(4, 7)), 5 * rng.normal(size=(3, 7))
    localizer = Localizer(7, 1, CPU)
    localizer.set_rows(torch.nn.functional.normalize(torch.from_numpy(landmarks), dim=1), same_landmarks=False)
    states = torch.nn.functional.normalize(torch.from_numpy(psi), dim=1)
    expected = psi @ landmarks.T / np.outer(np.linalg.norm(psi, axis=1), np.linalg.norm(landmarks, axis=1))
    np.testing.assert_allclose(localizer.similarity(states).numpy(), expected, rtol=1e-6)
    assert Localizer(7, 1, CPU).similarity(states.float()).shape == (4, 0)


@pytest.mark.parametrize(("count", "middle"), [(1, 4.0), (2, 2.5), (3, 4.0), (4, 3.0), (5, 4.0)])
def test_the_median_of_an_even_number_is_the_mean_of_two(count: int, middle: float) -> None:
    values = [4.0, 1.0, 9.0, 2.0, 7.0][:count]
    localizer = make_localizer(window=count, landmarks=2, env_count=1)
    assert [see(localizer, [value], [0]) for value in values][-1] == [middle] == [np.median(values)]


def test_newest_until_w_were_seen_then_the_median_of_the_last_w() -> None:
    localizer = make_localizer(window=3, landmarks=2, env_count=1)
    values = [0.5, 0.1, 0.9, 0.2, 0.8, 0.7]
    # The third sees {0.5, 0.1, 0.9}, the fourth {0.1, 0.9, 0.2}, then {0.9, 0.2, 0.8} and {0.2, 0.8, 0.7}.
    assert [see(localizer, [value], [0])[0] for value in values] == [0.5, 0.1, 0.5, 0.2, 0.8, 0.7]


def test_each_landmark_has_its_own_median() -> None:
    localizer = make_localizer(window=3, landmarks=3, env_count=2)
    rng = np.random.default_rng(0)
    history = rng.random((10, 2, 3)).astype(np.float32)
    for time in range(10):
        smoothed = localizer.smooth(torch.from_numpy(history[time]), np.array([0, 1])).numpy()
        expected = np.median(history[time - 2 : time + 1], axis=0) if time >= 2 else history[time]
        np.testing.assert_allclose(smoothed, expected)


def test_a_window_of_one_is_the_newest() -> None:
    localizer = make_localizer(window=1, landmarks=2, env_count=1)
    assert [see(localizer, [value], [0])[0] for value in (0.5, 0.1, 0.9)] == [0.5, 0.1, 0.9]


def test_environment_0_ending_resets_environment_0_only() -> None:
    localizer = make_localizer(window=3, landmarks=2, env_count=2)
    for value in (0.1, 0.2, 0.3):
        see(localizer, [value, value], [0, 1])
    localizer.reset(0)
    # Environment 0 starts anew, environment 1 has {0.2, 0.3, 0.9}.
    assert see(localizer, [0.9, 0.9], [0, 1]) == [0.9, 0.3]
    assert see(localizer, [0.7, 0.8], [0, 1]) == [0.7, 0.8]  # {0.3, 0.9, 0.8}
    assert see(localizer, [0.6, 0.1], [0, 1]) == [0.7, 0.8]  # {0.9, 0.7, 0.6} and {0.9, 0.8, 0.1}


def test_environments_may_come_in_any_order_and_number() -> None:
    localizer = make_localizer(window=3, landmarks=1, env_count=3)
    for value in (0.1, 0.2):
        see(localizer, [value, 10 * value], [2, 0])
    assert see(localizer, [0.5, 0.9], [1, 2]) == [0.5, 0.2]
    assert see(localizer, [1.5], [0]) == [1.5]  # {1, 2, 1.5}
    localizer.reset(5)
    assert see(localizer, [0.3], [5]) == [0.3]


def test_refreshed_psi_keeps_the_medians_and_other_landmarks_start_them_afresh() -> None:
    localizer = make_localizer(window=3, landmarks=2, env_count=1)
    for value in (0.1, 0.2):
        see(localizer, [value], [0])
    localizer.set_rows(torch.eye(2).flip(0), same_landmarks=True)
    assert see(localizer, [0.9], [0]) == [0.2]
    localizer.set_rows(torch.eye(2)[[0, 1, 1]], same_landmarks=False)
    assert [see(localizer, [value], [0])[0] for value in (0.4, 0.6, 0.5)] == [0.4, 0.6, 0.5]


def test_a_fresh_localizer_has_the_landmarks_but_no_history() -> None:
    localizer = make_localizer(window=2, landmarks=2, env_count=1)
    see(localizer, [0.2], [0])
    other = localizer.fresh()
    other.reset(0)
    assert see(other, [0.8], [0]) == [0.8]
    assert see(localizer, [0.8], [0]) == [0.5]
    localizer.set_rows(torch.ones(2, 2), same_landmarks=True)
    torch.testing.assert_close(other.rows, torch.eye(2))


@pytest.mark.parametrize("window", [2, 3, 8])
def test_sliding_equals_sorting_whoever_comes_and_starts_anew(window: int) -> None:
    localizer = make_localizer(window, landmarks=3, env_count=4)
    rng = np.random.default_rng(window)
    seen: list[list[np.ndarray]] = [[] for _ in range(4)]
    for time in range(300):
        if rng.random() < 0.1:
            env = int(rng.integers(4))
            localizer.reset(env)
            seen[env].clear()
        some = rng.permutation(4)[: rng.integers(1, 5)]
        envs = some if 100 <= time < 110 or time > 250 else np.arange(4)  # in step, out of step for good after 100
        similarity = rng.normal(size=(len(envs), 3)).round(1).astype(np.float32)  # rounded: many are equal
        smoothed = localizer.smooth(torch.from_numpy(similarity), envs).numpy()
        for row, env in enumerate(envs):
            seen[env].append(similarity[row])
            recent = np.stack(seen[env][-window:])
            expected = np.median(recent, axis=0) if len(recent) == window else similarity[row]
            np.testing.assert_allclose(smoothed[row], expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("envs", [[0, 1, 2], [2, 0]])
def test_a_loaded_localizer_goes_on_as_the_saved_one(envs: list[int]) -> None:
    rng = np.random.default_rng(0)
    saved, loaded = make_localizer(3, landmarks=2, env_count=3), Localizer(2, 3, CPU)
    for _ in range(7):
        saved.smooth(torch.from_numpy(rng.random((3, 2), np.float32)), np.arange(3))
    saved.smooth(torch.from_numpy(rng.random((len(envs), 2), np.float32)), np.array(envs))
    saved.reset(1)
    loaded.load_state(saved.state())
    torch.testing.assert_close(loaded.rows, saved.rows)
    for _ in range(7):
        similarity = torch.from_numpy(rng.random((3, 2), np.float32))
        one, other = (localizer.smooth(similarity, np.arange(3)) for localizer in (saved, loaded))
        assert torch.equal(one, other)


def test_a_landmark_in_doubt_never_wins_and_those_that_came_later_are_not_in_doubt() -> None:
    localizer = make_localizer(1, landmarks=4, env_count=1)
    similarity = torch.tensor([[0.9, 0.1, 0.2, 0.3], [-1.0, -1.0, 0.9, -1.0]])
    assert localizer.sure(similarity) is similarity
    localizer.doubt(torch.tensor([True, False, True]))  # the fourth came later
    sure = localizer.sure(similarity)
    assert sure.argmax(1).tolist() == [3, 1]  # even the lowest cosine beats one in doubt
    assert torch.equal(sure[:, [1, 3]], similarity[:, [1, 3]])
    assert (sure[:, [0, 2]] < -1).all()
    assert torch.equal(localizer.sure(similarity[0]), sure[0])  # of one state as of several
    assert torch.equal(localizer.fresh().sure(similarity), sure)
    localizer.doubt(torch.tensor([False, True, False, False]))  # these and no others
    assert localizer.sure(similarity).argmax(1).tolist() == [0, 2]
