"""Many games at once: the pool of halves, and Gymnasium's vector environments."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from sfl.errors import UsageError
from sfl.worlds.doom.env import DoomMaze
from sfl.worlds.doom.pool import GameEpisode, GamePool, GameStep, RandomEpisodes
from sfl.worlds.doom.protocol import SharedMemory
from sfl.worlds.mazes.layout import Maze

from .doom.games import QUICK, arena_maze, engine_of, lives, shared_files

FORWARD, NOTHING = 2, 6
EAST = (100.0, 224.0, 0.0)


@pytest.fixture(scope="module")
def arena() -> Maze:
    return arena_maze()


@pytest.fixture(scope="module")
def pool(arena: Maze) -> Iterator[GamePool]:
    """Three games in two workers; tests begin with `restart`."""
    with GamePool(arena, 3, workers=2, max_steps=4) as made:
        yield made


def play(pool: GamePool, decisions: int, seed: int = 0) -> list[GameStep]:
    """Both halves in turn, one always a decision behind; frames are copied as they pass."""
    rng = np.random.Generator(np.random.PCG64(seed))
    pool.send(0)
    steps = []
    for _ in range(decisions):
        for half, other in ((0, 1), (1, 0)):
            pool.send(other, rng.integers(7, size=len(range(pool.count)[pool.halves[other]])))
            steps.append(copied(pool.receive(half)))
    pool.receive(0)
    return steps


def copied(step: GameStep) -> GameStep:
    return GameStep(**{name: np.array(array) for name, array in vars(step).items()})


def one(pool: GamePool, half: int, actions: Sequence[int] | None = None) -> GameStep:
    pool.send(half, None if actions is None else np.array(actions))
    return pool.receive(half)


def same(one: GameStep, other: GameStep) -> bool:
    return all(np.array_equal(array, vars(other)[name]) for name, array in vars(one).items())


def listed(*episodes: GameEpisode) -> Any:
    supply = iter(episodes)
    return lambda game: next(supply, None)


def test_boards_over_the_same_memory_agree_and_arrays_do_not_overlap() -> None:
    handle, shared = SharedMemory.create(3)
    other = SharedMemory.over(handle, 3)
    for number, array in enumerate(vars(shared).values(), start=1):
        array[...] = number
    for number, (name, array) in enumerate(vars(other).items(), start=1):
        assert (array == (number if array.dtype != bool else True)).all(), name
    os.close(handle)


def test_results_do_not_depend_on_the_number_of_workers(arena: Maze) -> None:
    runs = []
    for workers in (1, 2):
        with GamePool(arena, 4, workers=workers, max_steps=12, seed=9) as made:
            assert len(made.workers.processes) == workers
            runs.append(play(made, 30))
    assert all(same(one, other) for one, other in zip(*runs, strict=True))
    poses = np.concatenate([step.poses for step in runs[0]])
    assert len(np.unique(poses, axis=0)) > 100
    assert sum(step.started.sum() for step in runs[0]) == 4 * 3


def test_random_episodes_of_a_game_depend_on_the_seed_and_its_index_only(pool: GamePool) -> None:
    supply, other = RandomEpisodes(pool.samplers, 9), RandomEpisodes(pool.samplers, 9)
    drawn = {game: [supply(game) for _ in range(3)] for game in (0, 1, 2)}
    again = {game: [other(game) for _ in range(3)] for game in (2, 0, 1)}
    assert drawn == again
    assert len({episode.start for episodes in drawn.values() for episode in episodes}) == 9
    assert RandomEpisodes(pool.samplers, 10)(0) != drawn[0][0]


def test_halves_share_the_games_between_them(pool: GamePool) -> None:
    assert pool.halves == (slice(0, 2), slice(2, 3))
    pool.restart()
    assert one(pool, 0).frames.shape == (2, 120, 160, 3)
    assert one(pool, 1).poses.shape == (1, 3)


def test_an_episode_that_ended_begins_anew_with_the_next_send_which_leaves_the_action_out(pool: GamePool) -> None:
    episodes = [GameEpisode((100.0 + 20 * number, 150.0, 0.0)) for number in range(10)]
    pool.restart(listed(*episodes))
    steps = [copied(one(pool, 0, [FORWARD, NOTHING])) for _ in range(7)]
    assert [step.started.tolist() for step in steps] == [[flag] * 2 for flag in (1, 0, 0, 0, 0, 1, 0)]
    assert [step.ended.tolist() for step in steps] == [[flag] * 2 for flag in (0, 0, 0, 0, 1, 0, 0)]
    assert all(np.array_equal(step.ended, step.truncated) and not step.terminated.any() for step in steps)
    assert [step.poses[0, 0] for step in (steps[0], steps[5])] == [100, 140]
    assert [step.poses[1, 0] for step in steps] == [120] * 5 + [160] * 2
    assert steps[6].poses[0, 0] > 140


def test_goals_have_pictures_and_end_episodes_and_games_without_episodes_rest(pool: GamePool) -> None:
    goal = (300.0, 300.0, 90.0)
    near, far = (220.0, 300.0, 0.0), (100.0, 100.0, 0.0)
    pool.restart(listed(GameEpisode(near, goal, budget=50), GameEpisode(far, None, budget=2)))
    first = copied(one(pool, 0))
    assert first.started.all()
    assert first.running.all()
    assert pool.goals(0)[0].any()
    assert not pool.goals(0)[1].any()
    steps = [first]
    while not steps[-1].ended[0]:
        steps.append(copied(one(pool, 0, [FORWARD, FORWARD])))
    distances = [float(np.hypot(*(step.poses[0, :2] - goal[:2]))) for step in steps]
    assert distances[-1] <= 63 < distances[-2]
    assert (steps[-1].terminated[0], steps[-1].truncated[0], steps[-1].succeeded[0]) == (True, False, True)
    assert [bool(step.truncated[1]) for step in steps[:3]] == [False, False, True]
    after = one(pool, 0, [FORWARD, FORWARD])
    assert not (after.running | after.ended | after.started | after.succeeded).any()
    assert np.array_equal(after.poses[0], steps[-1].poses[0])


def test_a_worker_that_dies_is_replaced_and_its_episodes_in_both_halves_are_truncated(arena: Maze) -> None:
    def run(harm: bool) -> tuple[list[GameStep], list[GameStep]]:
        with GamePool(arena, 4, workers=2, seed=1, limits=QUICK) as made:
            steps: tuple[list[GameStep], list[GameStep]] = ([], [])
            for number in range(6):
                for half in (0, 1):
                    made.send(half, np.array([FORWARD, FORWARD]))
                if harm and number == 3:
                    engines = [engine_of(made.workers, game) for game in (0, 2)]
                    os.kill(made.workers.processes[0], signal.SIGKILL)
                for half in (0, 1):
                    steps[half].append(copied(made.receive(half)))
            if harm:
                assert not any(lives(engine.process) for engine in engines)
                assert [shared_files(engine) for engine in engines] == [[], []]
        return steps

    whole, harmed = run(False), run(True)
    for half in (0, 1):
        assert all(same(one, other) for one, other in zip(whole[half][:3], harmed[half][:3], strict=True))
        for one_step, other in zip(whole[half], harmed[half], strict=True):
            assert np.array_equal(one_step.frames[1], other.frames[1])  # the other worker's games notice nothing
            assert other.restarts[1] == 0
        cut = [bool(step.truncated[0]) for step in harmed[half]]
        assert cut in ([False, False, False, True, False, False], [False, False, False, False, True, False])
        assert harmed[half][cut.index(True) + 1].started.tolist() == [True, False]
        assert harmed[half][-1].restarts.tolist() == [1, 0]


def test_closing_leaves_nothing_behind(arena: Maze) -> None:
    with GamePool(arena, 2, workers=1) as made:
        made.send(0)
        workers, engines = made.workers, [engine_of(made.workers, game) for game in (0, 1)]
    assert not workers.folder.exists()
    assert not any(lives(process) for process in [*workers.processes, *(engine.process for engine in engines)])
    assert [shared_files(engine) for engine in engines] == [[], []]
    with pytest.raises(UsageError, match="The games have been closed: make them anew"):
        made.send(1)


def test_wrong_order_and_wrong_actions_are_refused(pool: GamePool) -> None:
    pool.restart()
    with pytest.raises(UsageError, match="Half 0 was sent no actions: send first"):
        pool.receive(0)
    pool.send(0)
    with pytest.raises(UsageError, match="Half 0 was sent actions already: receive it first"):
        pool.send(0)
    pool.receive(0)
    for actions in ([7, 0], [-1, 0], [0], [[0, 0]]):
        with pytest.raises(UsageError, match=r"Half 0 takes 2 actions of 0 move left, .*, 6 nothing; got"):
            pool.send(0, np.array(actions))
    pool.restart(listed(GameEpisode((350.0, 100.0, 0.0))))
    with pytest.raises(UsageError, match=r"start \(350, 100, 0\) is inside a wall"):
        pool.send(0)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"count": 0}, "count must be at least 1 game, got 0"),
        ({"count": 1}, "halves must lie between 1 and the number of games, 1; got 2"),
        ({"count": 2, "max_steps": 0}, "max_steps must be at least 1, got 0"),
        ({"count": 2, "workers": -1}, "workers must be at least 1, got -1"),
        ({"count": 2, "spawn": "here"}, "spawn must be 'fixed' or 'random', got 'here'"),
    ],
)
def test_bad_numbers_are_refused(arena: Maze, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        GamePool(arena, **arguments)


def test_one_maze_for_all_or_one_for_each(arena: Maze) -> None:
    with pytest.raises(UsageError, match="Give one maze for all games or 2 of them, got 1"):
        GamePool([arena], 2)


def check_equal(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        assert set(one) == set(other)
        for name, entry in one.items():
            check_equal(entry, other[name])
    elif isinstance(one, tuple):
        for first, second in zip(one, other, strict=True):
            check_equal(first, second)
    else:
        assert np.asarray(one).shape == np.asarray(other).shape
        assert np.array_equal(one, other)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_gymnasium_plays_several_at_once_and_shows_what_single_ones_would(arena: Maze, mode: str) -> None:
    arguments: dict[str, Any] = {"spawn": "random", "max_steps": 3}
    envs = gym.make_vec("sfl/DoomMaze-v0", 2, mode, maze=arena, **arguments)
    singles = [DoomMaze(arena, **arguments) for _ in range(2)]
    try:
        observation, info = envs.reset(seed=4)
        assert envs.observation_space.contains(observation)
        alone = [env.reset(seed=4 + number) for number, env in enumerate(singles)]
        for number in range(2):
            check_equal({name: entry[number] for name, entry in observation.items()}, alone[number][0])
            assert np.array_equal(info["pose"][number], alone[number][1]["pose"])
        for actions in ([FORWARD, NOTHING], [0, FORWARD], [1, 4]):
            observation, reward, _, truncated, info = envs.step(np.array(actions))
            for number, env in enumerate(singles):
                seen, alone_reward, _, cut, about = env.step(actions[number])
                check_equal({name: entry[number] for name, entry in observation.items()}, seen)
                assert np.array_equal(info["pose"][number], about["pose"])
                assert (reward[number], truncated[number]) == (alone_reward, cut)
        assert truncated.all()
    finally:
        envs.close()
        for env in singles:
            env.close()
