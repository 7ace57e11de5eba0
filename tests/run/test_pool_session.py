"""Games as a session: halves in turn, the same episodes as single environments, games that die, and coming back."""

from __future__ import annotations

import json
import os
import signal
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any

import numpy as np
import pytest

from sfl.api import Array, Decision, Episode, EpisodeSource, Observation, Step
from sfl.baselines.random import RandomAgent, RandomConfig
from sfl.errors import SflError, UsageError
from sfl.run.evaluate import TaskQueue, evaluate
from sfl.run.rollout import FreeEpisodes, rollout
from sfl.seeding import generator_state, restore_generator, spawn
from sfl.worlds import DoomConfig, Task, make_env
from sfl.worlds.doom.session import PoolSession
from sfl.worlds.doom.workers import read_engine
from sfl.worlds.doom.world import MazeWorld
from sfl.worlds.session import EnvSession

from .dooms import FORWARD, SOUTH_END

CONFIG = DoomConfig("small", max_steps=5)
SHOWN = (120, 160, 3)
"""What a game shows."""


@contextmanager
def playing(games: int, source: EpisodeSource, max_steps: int = 5) -> Iterator[PoolSession]:
    world = MazeWorld(CONFIG)
    session = PoolSession(world.sampler, games, source, max_steps=max_steps, goal_terminates=True)
    try:
        yield session
    finally:
        session.close()


def listed(*episodes: Episode) -> Callable[[], Episode | None]:
    supply = iter(episodes)
    return lambda: next(supply, None)


def seeded(number: int, goal: Any = None, budget: int | None = None) -> Episode:
    return Episode(number, 100 + number, {"goal": goal}, budget)


class Diary:
    """Walks at random by a list of its own, and writes down what it is told and shown."""

    def __init__(self) -> None:
        self._rng = np.random.Generator(np.random.PCG64(0))
        self.calls: list[tuple[Any, ...]] = []
        self.shown: list[Array] = []

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        self.calls.append(("begin", env_index, None if goal is None else goal.shape))

    def act(self, observations: Array, env_indices: Array) -> Array:
        self.calls.append(("act", env_indices.tolist()))
        self.shown.append(observations.copy())
        return self._rng.integers(7, size=len(env_indices))

    def explain(self, env_index: int) -> Decision:
        return Decision()


@pytest.mark.usefixtures("uncollected")
def test_what_games_share_goes_with_their_session() -> None:
    with playing(2, listed(seeded(0))) as session:
        assert len(list(rollout(Diary(), session))) == 5
        shared = weakref.ref(session._pool.workers.shared)
    del session
    assert shared() is None


def test_halves_take_turns_and_steps_come_in_the_order_of_acting() -> None:
    diary = Diary()
    with playing(3, FreeEpisodes(spawn(0, ["env"])["env"])) as session:
        for step in islice(rollout(diary, session), 11):
            diary.calls.append(("read", step.transitions.env_indices.tolist(), list(step.ended)))
    begin: dict[str, list[tuple[Any, ...]]] = {"a": [("begin", 0, None), ("begin", 1, None)], "b": [("begin", 2, None)]}
    a, b = ("act", [0, 1]), ("act", [2])
    read_a, read_b = ("read", [0, 1], []), ("read", [2], [])
    assert diary.calls[:9] == [*begin["a"], a, *begin["b"], b, read_a, a, read_b, b]
    ends = [call for call in diary.calls if call[0] == "read" and call[2]]
    assert ends == [("read", [0, 1], [0, 1]), ("read", [2], [0])]  # after five steps each, by time
    # The half that ended begins anew while the other, whose turn comes first, is still read to its end.
    after = diary.calls[diary.calls.index(ends[0]) :]
    assert after == [ends[0], ends[1], *begin["a"], a, *begin["b"], b, read_a]


def test_every_game_shows_what_a_single_environment_would() -> None:
    episodes = [seeded(0), seeded(1, (96.0, 600.0, 0.0), 3)]
    together, apart = ({index: [] for index in range(2)} for _ in range(2))
    for steps, opened in ((together, playing), (apart, single)):
        with opened(2, listed(*episodes)) as session:
            for step in rollout(Fixed(), session):
                for row, index in enumerate(step.transitions.env_indices.tolist()):
                    steps[index].append(seen(step, row))
    assert [len(rows) for rows in together.values()] == [5, 3]
    for index in range(2):
        for one, other in zip(together[index], apart[index], strict=True):
            for name in one:
                assert np.array_equal(one[name], other[name]), (index, name)


class Fixed(Diary):
    """Does what the number of the environment and of the step say."""

    def act(self, observations: Array, env_indices: Array) -> Array:
        super().act(observations, env_indices)
        times = [sum(call[0] == "act" and index in call[1] for call in self.calls) for index in env_indices]
        return (env_indices * 2 + np.array(times)) % 7


@contextmanager
def single(games: int, source: EpisodeSource) -> Iterator[EnvSession]:
    session = EnvSession([make_env(CONFIG) for _ in range(games)], source)
    yield session
    session.close()


def seen(step: Step, row: int) -> dict[str, Any]:
    moved = step.transitions
    arrays = {"before": moved.observations, "after": moved.next_observations, "poses": step.poses}
    arrays |= {"next_poses": step.next_poses, "actions": moved.actions, "truncated": moved.truncated}
    arrays |= {"terminated": moved.terminated, "rewards": moved.rewards, "lengths": step.lengths}
    return {name: array[row].copy() for name, array in arrays.items()}


def test_frames_of_a_step_are_those_acted_on_and_those_acted_on_next() -> None:
    diary, newest = Diary(), {}
    with playing(2, FreeEpisodes(spawn(1, ["env"])["env"])) as session:
        for number, step in enumerate(islice(rollout(diary, session), 16)):
            moved = step.transitions
            (index,) = moved.env_indices.tolist()
            assert moved.observations.shape == moved.next_observations.shape == (1, *SHOWN)
            assert np.array_equal(moved.observations, diary.shown[number])
            if step.lengths[0] > 1:
                assert np.array_equal(moved.observations[0], newest[index][0])
                assert np.array_equal(step.poses[0], newest[index][1])
            newest[index] = moved.next_observations[0].copy(), step.next_poses[0].copy()
    assert len({frame.tobytes() for frame in diary.shown}) > 8


def forward_tasks(*goals: tuple[float, float], budget: int = 25) -> list[Task]:
    start = tuple(SOUTH_END)
    return [Task("easy", pair, start, (*goal, 0.0), budget) for pair, goal in enumerate(goals)]


class Forward(Diary):
    """Never turns."""

    def act(self, observations: Array, env_indices: Array) -> Array:
        super().act(observations, env_indices)
        return np.full(len(env_indices), FORWARD)


def test_an_evaluation_over_games_equals_one_over_an_environment() -> None:
    tasks = forward_tasks((96.0, 400.0), (300.0, 100.0), (96.0, 200.0), (96.0, 300.0), (480.0, 160.0))
    config = DoomConfig("small")
    diary = Forward()
    over_games = evaluate(diary, config, tasks, parallel=3)
    env = make_env(config)
    over_env = evaluate(Forward(), [env], tasks)
    env.close()
    results = [[(row.pair, row.success, row.steps, row.outcome) for row in rows] for rows in (over_games, over_env)]
    assert results[0] == results[1]
    assert [row.outcome for row in over_games] == ["reached", "timeout", "reached", "reached", "timeout"]
    assert [row.steps for row in over_games if not row.success] == [25, 25]
    assert {(row.env, row.maze, row.spawn) for row in over_games} == {("sfl/DoomMaze-v0", "small", "random")}
    assert next(call for call in diary.calls if call[0] == "begin") == ("begin", 0, SHOWN)


def test_a_goal_within_reach_of_the_start_counts_as_reached_in_no_steps_and_is_not_posed() -> None:
    tasks = forward_tasks((96.0, 163.0), (96.0, 164.0))
    diary = Forward()
    rows = evaluate(diary, DoomConfig("small"), tasks)
    assert [(row.success, row.trivial) for row in rows] == [(1, True), (1, False)]
    assert (rows[0].steps, rows[0].outcome) == (0, "reached")
    assert sum(call[0] == "begin" for call in diary.calls) == 1
    assert [row.steps for row in evaluate(diary, DoomConfig("small"), tasks[:1])] == [0]


def kill_game(session: PoolSession, game: int) -> None:
    engine = read_engine(session._pool.workers.folder / f"game-{game}")
    assert engine is not None
    os.kill(engine.process, signal.SIGKILL)


def test_a_game_that_dies_has_its_episode_truncated_and_counts() -> None:
    with playing(2, FreeEpisodes(spawn(0, ["env"])["env"]), max_steps=8) as session:
        steps = rollout(Diary(), session)
        first = [next(steps) for _ in range(4)]
        assert all(not step.ended for step in first)
        assert session.metrics() == {"time/game_restarts": 0.0}
        kill_game(session, 0)
        later = [
            (step.transitions.env_indices[0], step.lengths[0], step.ended, step.broken) for step in islice(steps, 9)
        ]
        assert session.metrics() == {"time/game_restarts": 1.0}
    broken = [step for step in later if step[3]]
    assert len(broken) == 1
    assert broken[0][0] == 0
    assert broken[0][1] < 8
    assert broken[0][2] == (0,)
    lengths = [length for index, length, _, _ in later if index == 0]
    assert lengths[lengths.index(broken[0][1]) + 1] == 1  # a new episode
    assert [length for index, length, _, _ in later if index == 1][:4] == [3, 4, 5, 6]  # the other game noticed nothing


def test_a_task_whose_game_dies_is_posed_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sessions: list[PoolSession] = []
    made = MazeWorld.session

    def keep(self: MazeWorld, *words: Any, **options: Any) -> PoolSession:
        sessions.append(made(self, *words, **options))  # type: ignore[arg-type]
        return sessions[-1]

    monkeypatch.setattr(MazeWorld, "session", keep)
    harms = [1]

    def watch(step: Step, policy: Any) -> None:
        if step.lengths[0] == 3 and step.episodes[0].number == 0 and harms:
            harms.pop()
            kill_game(sessions[-1], 0)

    tasks = forward_tasks((96.0, 400.0), (96.0, 300.0))
    far, near = evaluate(Forward(), DoomConfig("small"), tasks, watch=watch)
    assert (far.outcome, near.outcome) == ("reached", "reached")
    assert far.steps > near.steps > 3
    assert capsys.readouterr().err == "a game died on easy pair 0; the episode is played again.\n"


def test_a_task_on_which_games_always_die_ends_the_evaluation() -> None:
    queue = TaskQueue(forward_tasks((96.0, 400.0), (96.0, 300.0)), spawn(0, ["eval"])["eval"])
    first = queue()
    assert first is not None
    queue.pose_again(0)
    assert [episode and episode.number for episode in (queue(), queue(), queue())] == [1, 0, None]
    queue.pose_again(0)
    assert queue() == first
    with pytest.raises(SflError, match="The game died 3 times on easy pair 0"):
        queue.pose_again(0)


def test_goals_as_pictures_are_refused() -> None:
    with (
        playing(1, listed(seeded(0, np.zeros(SHOWN, np.uint8)))) as session,
        pytest.raises(UsageError, match="pose x,y"),
    ):
        next(rollout(Diary(), session))


# ---- coming back

BUDGETS = (5, 3, 4, 2)
"""Of the episodes in turn: games of one half then begin at different times."""


def short_episodes(rng: np.random.Generator, served: int = 0) -> Callable[[], Episode]:
    free, numbers = FreeEpisodes(rng), count(served)
    return lambda: replace(free(), budget=BUDGETS[next(numbers) % len(BUDGETS)])


def random_agent() -> RandomAgent:
    return RandomAgent(RandomConfig(), CONFIG.spec(3), 0)


def rows_of(step: Step) -> list[dict[str, Any]]:
    return [seen(step, row) for row in range(len(step.poses))]


@dataclass
class Moment:
    """How to go on after a step."""

    session: str
    env: Any
    agent: Any
    served: int


@pytest.fixture(scope="module")
def whole() -> tuple[list[list[dict[str, Any]]], list[Moment]]:
    """Twenty steps of the random policy in three games, and how to go on after each."""
    rng, agent = spawn(5, ["env"])["env"], random_agent()
    episodes, steps, moments = short_episodes(rng), [], []
    served = 0

    def source() -> Episode:
        nonlocal served
        served += 1
        return episodes()

    with playing(3, source) as session:
        for step in islice(rollout(agent, session), 20):
            steps.append(rows_of(step))
            state = json.dumps(session.state())
            moments.append(Moment(state, generator_state(rng), agent.state_dict(), served))
    return steps, moments


def worth_a_look(moments: list[Moment]) -> list[int]:
    """The first moments at which a game waits for an episode, begins one, has just begun one, and has played on."""
    chosen: dict[str, int] = {}
    for number, moment in enumerate(moments[:18]):
        state = json.loads(moment.session)
        turn, games = state["turn"], [None if game is None else len(game["actions"]) for game in state["games"]]
        mine, others = (games[:2], games[2:]) if turn == 0 else (games[2:], games[:2])
        if None in mine:
            chosen.setdefault("waits", number)
        if 0 in others:
            chosen.setdefault("begins", number)
        if 0 in mine:
            chosen.setdefault("has begun", number)
        if None not in games and min(games) >= 2 and turn == 1:
            chosen.setdefault("plays", number)
    assert len(chosen) == 4
    return sorted(set(chosen.values()))


def test_a_restored_session_goes_on_where_it_was(whole: tuple[list[list[dict[str, Any]]], list[Moment]]) -> None:
    steps, moments = whole
    for number in worth_a_look(moments):
        moment = moments[number]
        rng, agent = spawn(77, ["env"])["env"], random_agent()
        restore_generator(rng, moment.env)
        agent.load_state_dict(moment.agent)
        with playing(3, short_episodes(rng, moment.served)) as session:
            assert session.restore(json.loads(moment.session)) == []
            assert json.dumps(session.state()) == moment.session
            after = [rows_of(step) for step in islice(rollout(agent, session), 19 - number)]
        for one, other in zip(after, steps[number + 1 :], strict=True):
            check_equal(one, other)


def check_equal(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> None:
    for row, same in zip(one, other, strict=True):
        assert [name for name in row if not np.array_equal(row[name], same[name])] == []


def test_games_that_show_something_else_are_named(whole: tuple[list[list[dict[str, Any]]], list[Moment]]) -> None:
    state = json.loads(whole[1][3].session)
    state["games"][1]["observation"] = "something else"
    state["restarts"] = 3
    with playing(3, FreeEpisodes(spawn(5, ["env"])["env"])) as session:
        assert session.restore(state) == [1]
        assert session.metrics() == {"time/game_restarts": 3.0}
        next(rollout(Diary(), session))


def test_a_session_that_never_began_begins() -> None:
    with playing(1, FreeEpisodes(spawn(5, ["env"])["env"])) as session:
        assert session.restore(session.state()) == []
        assert next(rollout(Diary(), session)).lengths.tolist() == [1]
