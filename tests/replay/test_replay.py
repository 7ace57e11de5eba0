"""Sequences in a ring: what is drawn is checked against episode and time, which every observation shows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from sfl.api import Array, Transitions
from sfl.replay.replay import FILL, NO_ACTION, NStepBatch, SequenceReplay, Windows
from sfl.replay.store import DistinctStore

GAMMA = 0.5
Key = tuple[int, int, int]


@dataclass
class World:
    """Environments whose observation is (environment, episode, time); keeps all that ever happened."""

    replay: SequenceReplay
    rng: np.random.Generator
    lengths: tuple[int, int] = (1, 12)
    actions: dict[Key, int] = field(default_factory=dict)
    random: dict[Key, bool] = field(default_factory=dict)
    ends: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        env_count = len(self.replay._head)
        self.now = [(0, 0)] * env_count
        self.stop = self.rng.integers(*self.lengths, size=env_count).tolist()

    def step(self, random_share: float = 0.7, end: bool | None = None) -> None:
        """One step of every environment; episodes end at random lengths unless `end` says otherwise."""
        count = len(self.now)
        before = [(env, *place) for env, place in enumerate(self.now)]
        actions, random = self.rng.integers(4, size=count), self.rng.random(count) < random_share
        after = [(env, episode, time + 1) for env, episode, time in before]
        ended = np.array([key[2] >= self.stop[env] if end is None else end for env, key in enumerate(after)])
        zeros = np.zeros(count)
        self.replay.observe(
            Transitions(np.arange(count), np.array(before), actions, zeros, ended & False, ended, np.array(after)),
            random,
        )
        for env, key in enumerate(before):
            self.actions[key], self.random[key] = int(actions[env]), bool(random[env])
            self.now[env] = (key[1], key[2] + 1)
            if ended[env]:
                self.ends[env, key[1]] = key[2] + 1
                self.now[env] = (key[1] + 1, 0)
                self.stop[env] = int(self.rng.integers(*self.lengths))

    def stored(self, env: int) -> list[Key]:
        """The last entries of one environment: every step, and every episode's last observation."""
        keys = [key for key in self.actions if key[0] == env]
        keys += [(env, episode, time) for (other, episode), time in self.ends.items() if other == env]
        return sorted(keys)[-self.replay.length :]


def make_world(capacity: int, env_count: int, steps: int, lengths: tuple[int, int] = (1, 12)) -> World:
    replay = SequenceReplay(DistinctStore((3,), "int64"), capacity, env_count)
    world = World(replay, np.random.default_rng(3), lengths)
    for _ in range(steps):
        world.step()
    return world


def keys_of(replay: SequenceReplay, slots: Array) -> list[Key]:
    return [(env, episode, time) for env, episode, time in replay.store.rows(slots).tolist()]


@pytest.mark.parametrize(("env_count", "lengths"), [(1, (1, 12)), (3, (1, 12)), (2, (60, 200))])
def test_far_past_capacity_it_holds_exactly_the_last_entries(env_count: int, lengths: tuple[int, int]) -> None:
    world = make_world(90, env_count, 1_000, lengths)
    replay = world.replay
    assert replay.length == 90 // env_count
    assert len(replay) == replay.length * env_count
    replay.store.check_valid()
    assert len(replay.store) == len(replay)  # every observation is another one, and none is left behind
    for env in range(env_count):
        assert sorted(keys_of(replay, replay._slots.reshape(-1, replay.length)[env])) == world.stored(env)


def test_an_empty_replay_and_one_without_valid_entries_give_none() -> None:
    replay = SequenceReplay(DistinctStore((3,), "int64"), 50, 1)
    rng = np.random.default_rng(0)
    assert replay.sample_n_step(rng, 4, 1, GAMMA) is None
    assert replay.sample_triplets(rng, 4, Windows(1, 3, 4)) is None
    world = World(replay, rng, (100, 101))
    world.step(random_share=0.0)
    world.step(random_share=0.0)
    assert replay.sample_n_step(rng, 4, 1, GAMMA) is None  # no random step
    assert replay.sample_triplets(rng, 4, Windows(1, 3, 4)) is None  # nothing three steps away
    assert replay.sample_n_step(rng, 4, 1, GAMMA, random_only=False) is not None


@pytest.mark.parametrize(("env_count", "lengths"), [(1, (1, 12)), (3, (1, 12)), (2, (60, 200))])
def test_triplets_stay_inside_an_episode_and_their_windows(env_count: int, lengths: tuple[int, int]) -> None:
    world = make_world(90, env_count, 1_000, lengths)
    windows = Windows(positive=2, negative_min=4, negative_max=6)
    seen: dict[Key, set[tuple[int, int]]] = {}
    for seed in range(20):
        slots = world.replay.sample_triplets(np.random.default_rng(seed), 500, windows)
        assert slots is not None
        keys = keys_of(world.replay, slots.ravel())
        for anchor, positive, negative in zip(keys[::3], keys[1::3], keys[2::3], strict=True):
            assert anchor[:2] == positive[:2] == negative[:2]
            assert abs(positive[2] - anchor[2]) <= 2
            assert 4 <= abs(negative[2] - anchor[2]) <= 6
            seen.setdefault(anchor, set()).add((positive[2], negative[2]))
    for env in range(env_count):
        stored = world.stored(env)
        for anchor in stored:
            times = [key[2] for key in stored if key[1] == anchor[1]]
            positives = [time for time in times if abs(time - anchor[2]) <= 2]
            negatives = [time for time in times if 4 <= abs(time - anchor[2]) <= 6]
            # About 110 draws for each of at most 90 anchors, which have at most 5 * 6 pairs.
            possible = {(p, n) for p in positives for n in negatives}
            assert seen.get(anchor, set()) <= possible
            assert bool(possible) == (anchor in seen)


def check_n_step(world: World, batch: NStepBatch, n: int, random_only: bool) -> set[Key]:
    """Every row of a batch against what happened; returns the first states."""
    firsts = set()
    all_steps, ahead = keys_of(world.replay, batch.steps.ravel()), keys_of(world.replay, batch.bootstrap)
    weights, ahead_weights = batch.weights.tolist(), batch.bootstrap_weights.tolist()  # GAMMA is exact in binary
    for row, action in enumerate(batch.actions.tolist()):
        steps = all_steps[row * n : (row + 1) * n]
        env, episode, time = steps[0]
        firsts.add(steps[0])
        end = world.ends.get((env, episode))
        inside = n if end is None else min(n, end - time)
        assert inside >= 1
        assert action == world.actions[steps[0]] != NO_ACTION
        for offset in range(inside):
            assert steps[offset] == (env, episode, time + offset)
            assert world.random[steps[offset]] or not random_only
        assert keys_of(world.replay, batch.slots[row]) == [*steps, ahead[row]]
        # Beyond the end nothing counts, and psi is taken of the episode's last state, weighted by its distance.
        assert weights[row] == [GAMMA**k if k < inside else 0.0 for k in range(n)]
        assert ahead[row] == (env, episode, time + inside)
        assert ahead_weights[row] == GAMMA**inside
    assert (batch.multiplicity == 1).all()
    return firsts


@pytest.mark.parametrize("random_only", [True, False])
@pytest.mark.parametrize("n", [1, 3, 5])
@pytest.mark.parametrize(("env_count", "lengths"), [(1, (1, 12)), (3, (1, 12)), (2, (60, 200))])
def test_n_step_windows_end_with_the_episode(
    n: int, random_only: bool, env_count: int, lengths: tuple[int, int]
) -> None:
    world = make_world(90, env_count, 400, lengths)
    firsts: set[Key] = set()
    for seed in range(10):
        batch = world.replay.sample_n_step(np.random.default_rng(seed), 200, n, GAMMA, random_only)
        assert batch is not None
        firsts |= check_n_step(world, batch, n, random_only)
    expected = set()
    for env in range(env_count):
        stored = world.stored(env)
        newest = max(key[2] for key in stored if key[1] == stored[-1][1])
        for key in stored:
            end = world.ends.get((env, key[1]))
            if key not in world.actions or (end is None and key[2] + n > newest):
                continue
            steps = [(env, key[1], key[2] + k) for k in range(n if end is None else min(n, end - key[2]))]
            if all(world.random[step] for step in steps) or not random_only:
                expected.add(key)
    assert firsts == expected  # 2,000 draws miss none of at most 90


def test_weights_at_an_episodes_end_by_hand() -> None:
    replay = SequenceReplay(DistinctStore((3,), "int64"), 50, 1)
    world = World(replay, np.random.default_rng(0))
    for end in (False, False, True):
        world.step(random_share=1.1, end=end)
    batch = replay.sample_n_step(np.random.default_rng(0), 100, 2, GAMMA)
    assert batch is not None
    rows = {key[2]: row for row, key in enumerate(keys_of(replay, batch.steps[:, 0]))}
    assert sorted(rows) == [0, 1, 2]  # the episode's fourth observation has no action
    weights = {time: batch.weights[row].tolist() for time, row in rows.items()}
    assert weights == {0: [1.0, 0.5], 1: [1.0, 0.5], 2: [1.0, 0.0]}
    assert {time: float(batch.bootstrap_weights[row]) for time, row in rows.items()} == {0: 0.25, 1: 0.25, 2: 0.5}
    ahead = {time: keys_of(replay, batch.bootstrap[[row]])[0][2] for time, row in rows.items()}
    assert ahead == {0: 2, 1: 3, 2: 3}


def test_an_episode_under_way_is_used_up_to_its_newest_observation() -> None:
    replay = SequenceReplay(DistinctStore((3,), "int64"), 50, 1)
    world = World(replay, np.random.default_rng(0))
    for _ in range(4):
        world.step(random_share=1.1, end=False)
    # Observations 0..3 are stored; the one after action 3 is not, so 3 is no first state, and 2 only for n = 1.
    for n, expected in ((1, {0, 1, 2}), (2, {0, 1}), (3, {0})):
        batch = replay.sample_n_step(np.random.default_rng(0), 60, n, GAMMA)
        assert batch is not None
        assert {key[2] for key in keys_of(replay, batch.steps[:, 0])} == expected
    assert replay.sample_n_step(np.random.default_rng(0), 60, 4, GAMMA) is None


def test_termination_ends_an_episode_like_truncation() -> None:
    replay = SequenceReplay(DistinctStore((1,), "int64"), 50, 1)
    yes, no = np.array([True]), np.array([False])
    for terminated, truncated, value in ((yes, no, 0), (no, yes, 10)):
        row = np.array([[value]])
        replay.observe(Transitions(np.array([0]), row, np.array([0]), np.zeros(1), terminated, truncated, row + 1), yes)
    batch = replay.sample_n_step(np.random.default_rng(0), 50, 3, GAMMA)
    assert batch is not None
    firsts = replay.store.rows(batch.steps[:, 0])[:, 0]
    np.testing.assert_array_equal(replay.store.rows(batch.bootstrap)[:, 0], firsts + 1)
    assert set(firsts.tolist()) == {0, 10}


def test_draws_are_uniform_over_environments_of_unequal_age() -> None:
    replay = SequenceReplay(DistinctStore((1,), "int64"), 400, 2)
    yes, no = np.array([True]), np.array([False])
    for value in range(81):  # 80 valid entries in environment 0, 20 in environment 1
        for env in [0] if value > 20 else [0, 1]:
            row = np.array([[1000 * env + value]])
            replay.observe(Transitions(np.array([env]), row, np.array([0]), np.zeros(1), no, no, row + 1), yes)
    batch = replay.sample_n_step(np.random.default_rng(0), 20_000, 1, GAMMA)
    assert batch is not None
    drawn = np.bincount(replay.store.rows(batch.steps[:, 0])[:, 0], minlength=1020)
    drawn = np.concatenate([drawn[:80], drawn[1000:1020]])
    assert ((drawn - 200) ** 2 / 200).sum() < 149  # chi-square with 99 degrees of freedom: exceeded once in 1,000


@pytest.mark.parametrize("steps", [5, 1_000])
def test_a_loaded_replay_draws_the_same(steps: int) -> None:
    world = make_world(90, 3, steps)
    other = SequenceReplay(DistinctStore((3,), "int64"), 90, 3)
    other.load_state(world.replay.state())
    other.store.check_valid()
    assert len(other) == len(world.replay)
    twin = World(other, np.random.default_rng(9), world.lengths)
    world.rng, twin.rng = np.random.default_rng(9), np.random.default_rng(9)
    twin.now, twin.stop = list(world.now), list(world.stop)
    for _ in range(40):  # and so it does after both have gone on
        world.step()
        twin.step()
        for n in (1, 3):
            ours, theirs = (r.sample_n_step(np.random.default_rng(1), 30, n, GAMMA) for r in (world.replay, other))
            if ours is None or theirs is None:
                assert ours is theirs
                continue
            assert keys_of(world.replay, ours.steps.ravel()) == keys_of(other, theirs.steps.ravel())
            assert keys_of(world.replay, ours.bootstrap) == keys_of(other, theirs.bootstrap)
            np.testing.assert_array_equal(ours.actions, theirs.actions)
            np.testing.assert_array_equal(ours.weights, theirs.weights)
        triplets = [r.sample_triplets(np.random.default_rng(1), 30, Windows(1, 2, 3)) for r in (world.replay, other)]
        if triplets[0] is not None and triplets[1] is not None:
            assert keys_of(world.replay, triplets[0].ravel()) == keys_of(other, triplets[1].ravel())


def test_merged_rows_have_the_same_mean() -> None:
    world = make_world(30, 2, 200)
    batch = world.replay.sample_n_step(np.random.default_rng(0), 500, 1, GAMMA)
    assert batch is not None
    merged = batch.merged()
    assert len(merged.actions) < 31
    assert merged.multiplicity.sum() == 500
    assert (np.diff(merged.actions) >= 0).all()
    rows = np.column_stack([merged.actions, merged.steps[:, 0], merged.bootstrap])
    assert len(np.unique(rows, axis=0)) == len(rows)

    def value(part: NStepBatch) -> Array:
        """An arbitrary number for each row, made of all that a loss may look at."""
        return np.sin(part.actions + 2.0 * part.steps[:, 0] + 5.0 * part.bootstrap) * part.bootstrap_weights

    np.testing.assert_allclose(np.average(value(merged), weights=merged.multiplicity), value(batch).mean(), rtol=1e-6)


def test_stacks_end_at_the_entry_and_are_filled_up_before_the_episode() -> None:
    world = make_world(9, 1, 100)
    world.replay.stack = 3
    batch = world.replay.sample_n_step(np.random.default_rng(0), 300, 2, GAMMA)
    assert batch is not None
    assert batch.steps.shape == (300, 2, 3)
    assert batch.bootstrap.shape == (300, 3)
    filled = 0
    for stack in (*batch.steps.reshape(-1, 3), *batch.bootstrap):
        keys = keys_of(world.replay, stack[stack != FILL])
        filled += int((stack == FILL).sum())
        env, episode, time = keys[-1]
        assert keys == [(env, episode, time - back) for back in range(len(keys) - 1, -1, -1)]
        assert len(keys) == min(3, time + 1)
    assert filled > 0


def test_several_environments_at_once_are_stored_as_one_by_one() -> None:
    rng = np.random.default_rng(0)
    together, single = (SequenceReplay(DistinctStore((1,), "int64"), 12, 3) for _ in range(2))
    for step in range(40):
        envs = rng.permutation(3)[: rng.integers(1, 4)]
        rows = 3 * step + np.arange(len(envs))[:, None]
        actions, random = rng.integers(4, size=len(envs)), rng.random(len(envs)) < 0.5
        together.add(envs, rows, actions, random)
        for row in range(len(envs)):
            one = slice(row, row + 1)
            single.add(envs[one], rows[one], actions[one], random[one])
        if step % 7 == 6:
            ends = np.array([[-step], [-step - 100]])
            together.end(np.array([1, 2]), ends)
            single.end(np.array([1]), ends[:1])
            single.end(np.array([2]), ends[1:])
    ours, theirs = together.state(), single.state()
    for name in ("actions", "random", "first", "last", "head", "episode_first"):
        np.testing.assert_array_equal(ours[name], theirs[name])
    shown = [replay.store.rows(replay._slots) for replay in (together, single)]  # type: ignore[attr-defined]
    np.testing.assert_array_equal(*shown)
    assert len(together) == len(single) == 12
