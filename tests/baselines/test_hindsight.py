"""Goals in hindsight: what is drawn is checked against episode and time, which every observation shows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sfl.api import Array
from sfl.baselines.mss.value import distinct_pairs, every_pair, sample_hindsight
from sfl.replay.replay import FILL, SequenceReplay
from sfl.replay.store import DistinctStore

from ..replay.test_replay import World


def filled(stack: int = 1, steps: int = 70) -> tuple[World, DistinctStore]:
    table = DistinctStore((3,), "int64")
    world = World(SequenceReplay(table, 60, 2, stack), np.random.default_rng(3))
    for _ in range(steps):
        world.step()
    return world, table


def test_a_step_has_its_own_action_and_next_state_and_a_later_state_of_its_episode_as_goal() -> None:
    world, table = filled()
    batch = sample_hindsight(world.replay, np.random.default_rng(0), 3_000, future=4, share=1.0)
    assert batch is not None
    ahead = []
    for slots, action in zip(batch.slots, batch.actions, strict=True):
        (env, episode, time), after, goal = (tuple(row) for row in table.rows(slots).tolist())
        assert after == (env, episode, time + 1)
        assert action == world.actions[env, episode, time]
        assert goal[:2] == (env, episode)
        last = world.ends.get((env, episode), world.now[env][1] - 1)
        assert time < goal[2] <= min(time + 4, last)
        if last - time >= 4:
            ahead.append(goal[2] - time)
    counts = np.bincount(ahead, minlength=5)[1:]
    assert counts.min() > 0.8 * counts.mean()  # each as likely


def test_the_others_get_goals_from_anywhere() -> None:
    world, table = filled()
    batch = sample_hindsight(world.replay, np.random.default_rng(0), 3_000, future=4, share=0.75)
    assert batch is not None
    rows = [table.rows(slots) for slots in batch.slots]
    own = [tuple(state[:2]) == tuple(goal[:2]) for state, _, goal in rows]
    assert np.mean(own) == pytest.approx(0.75 + 0.25 / 14, abs=0.05)  # some fourteen episodes are stored
    assert {int(goal[0]) for _, _, goal in rows} == {0, 1}


def test_places_are_where_the_three_lie() -> None:
    world, _ = filled()
    batch = sample_hindsight(world.replay, np.random.default_rng(0), 200, future=4, share=0.5)
    assert batch is not None
    np.testing.assert_array_equal(world.replay._slots[batch.places], batch.slots)


def test_stacks_end_with_the_three_and_stay_within_the_episode() -> None:
    world, table = filled(stack=3)
    batch = sample_hindsight(world.replay, np.random.default_rng(0), 500, future=4, share=0.5)
    assert batch is not None
    assert batch.slots.shape == (500, 3, 3)
    for stacks in batch.slots:
        for stack in stacks:
            env, episode, time = table.rows(stack[-1:])[0].tolist()
            for back, slot in enumerate(stack[::-1].tolist()):
                expected = None if time - back < 0 else [env, episode, time - back]
                assert (None if slot == FILL else table.rows(np.array([slot]))[0].tolist()) == expected


def test_an_empty_replay_gives_nothing() -> None:
    world, _ = filled(steps=0)
    assert sample_hindsight(world.replay, np.random.default_rng(0), 8, future=4, share=0.5) is None


def test_the_place_of_the_next_entry_is_known_beforehand() -> None:
    world, table = filled(steps=40)
    replay = world.replay
    for _ in range(30):
        envs = np.arange(2)
        places, last = replay.upcoming(envs), replay.upcoming(envs, 1)
        before = [(env, *world.now[env]) for env in envs]
        world.step(end=True)
        assert [tuple(row) for row in table.rows(replay._slots[places]).tolist()] == before
        assert table.rows(replay._slots[last])[:, 2].tolist() == [time + 1 for _, _, time in before]


@pytest.mark.parametrize("pairs_of", [distinct_pairs, every_pair])
def test_every_pair_of_a_batch_is_found(pairs_of: Callable[[Array], tuple[Array, Array]]) -> None:
    rows = np.random.default_rng(0).integers(5, size=(60, 3))
    pairs, places = pairs_of(rows)
    np.testing.assert_array_equal(pairs[:, places[0]], rows[:, [0, 2]].T)
    np.testing.assert_array_equal(pairs[:, places[1]], rows[:, [0, 1]].T)
    if pairs_of is distinct_pairs:
        assert len(set(zip(*pairs.tolist(), strict=True))) == pairs.shape[1] <= 25
