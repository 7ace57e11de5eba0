from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from sfl.baselines.random import RandomConfig
from sfl.errors import CheckpointError, UsageError
from sfl.method.agent import SFLAgent
from sfl.method.config import FrameSFLConfig, SFLConfig, TabularConfig, recommended
from sfl.run.checkpoint import sign_header
from sfl.run.sfl import SFL
from sfl.run.train import train
from sfl.worlds import GoalWrapper, GymConfig, MiniGridConfig, Task, make_env

from .worlds import random_experiment

FOURROOM = "sfl/FourRoom-v0"
GRID = np.zeros((9, 9, 3), np.uint8)


def test_ids_environments_functions_and_lists_are_taken() -> None:
    env = make_env(MiniGridConfig())
    for given, count in ((FOURROOM, 1), (env, 1), (lambda: env, 1), ([env, make_env(MiniGridConfig())], 2)):
        agent = SFL(given, RandomConfig())
        assert agent.spec.env_count == count
        assert agent.learn(4).env_steps == 4
    with pytest.raises(UsageError, match="empty list"):
        SFL([], RandomConfig())


def test_environments_of_a_vector_in_this_process_are_taken() -> None:
    vector = gymnasium.make_vec("FrozenLake-v1", 3, vectorization_mode="sync")
    agent = SFL(vector, RandomConfig())
    assert agent.spec.env_count == 3
    assert agent.learn(6).env_steps == 6
    assert SFL(GymConfig("FrozenLake-v1"), RandomConfig()).spec.observation_shape == (16,)


class OwnGoals(gymnasium.Env[Any, Any]):
    """Two numbers that count the steps; it was made by somebody who knows nothing of sfl."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Dict(
        {name: spaces.Box(0, 9, (2,)) for name in ("observation", "achieved_goal", "desired_goal")}
    )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        return dict.fromkeys(self.observation_space, np.zeros(2, np.float32)), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        seen = dict.fromkeys(self.observation_space, np.full(2, self.count, np.float32))
        return seen, 0.0, False, self.count == 5, {"is_success": self.count == 3}


class OtherGoals(OwnGoals):
    """As in robotics: a goal is a part of what is observed."""

    observation_space = spaces.Dict(
        {name: spaces.Box(0, 5, (1 + (name == "observation"),), np.float32) for name in OwnGoals.observation_space}
    )


class BadTasks(OwnGoals):
    def sample_task(self, rng: np.random.Generator, pair: int) -> int:
        return 3


LAKE = gymnasium.make("FrozenLake-v1")


def test_ids_and_functions_may_be_named_twice() -> None:
    assert len(SFL(["FrozenLake-v1"] * 2, RandomConfig()).learn(4).envs) == 2  # type: ignore[list-item]
    make = lambda: gymnasium.make("FrozenLake-v1")  # noqa: E731
    assert len(SFL([make, make], RandomConfig()).envs) == 2  # type: ignore[list-item]


def test_an_environment_with_goals_of_its_own_is_evaluated_on_given_tasks() -> None:
    agent = SFL(OwnGoals(), RandomConfig()).learn(7)
    task = Task("any", 0, None, np.full(2, 3, np.float32), 5)
    assert [row.steps for row in agent.evaluate([task])] == [5]
    with pytest.raises(UsageError, match=r"OwnGoals cannot draw tasks: give a list of sfl.worlds.Task, or let"):
        agent.evaluate(episodes=2)


def test_what_was_taken_for_what_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    SFL("FrozenLake-v1").learn(3)
    assert capsys.readouterr().err == (
        "observations: a number out of 16, one-hot; encoder: dense layers over numbers.\n"
    )


@dataclass(frozen=True)
class Foreign:
    """Settings of another library."""

    replay_size: int = 5


def pixel_world() -> gymnasium.Env[Any, Any]:
    lake = gymnasium.make("FrozenLake-v1")
    small = spaces.Box(0, 255, (32, 32, 3), np.uint8)
    return gymnasium.wrappers.TransformObservation(lake, lambda _: np.zeros(small.shape, np.uint8), small)


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: SFL(gymnasium.make_vec("CartPole-v1", 2)), r"look into a CartPoleVectorEnv; .* for _ in range\(2\)"),
    (lambda: SFL(None), "a list of environments; got NoneType"),  # type: ignore[arg-type]
    (lambda: SFL([None]), "a list of environments; got NoneType"),  # type: ignore[list-item]
    (lambda: SFL([gymnasium.make("CartPole-v1")] * 2), "holds one environment twice"),
    (lambda: SFL([GoalWrapper(LAKE), GoalWrapper(LAKE)]), "holds one environment twice"),
    (lambda: SFL(gymnasium.make), "must need no argument"),  # type: ignore[arg-type]
    (
        lambda: SFL(OtherGoals()),
        r"goals of OtherGoals have shape \(1,\), its observations \(2,\): .* leave its goals out",
    ),
    (lambda: SFL(BadTasks(), RandomConfig()).evaluate(episodes=1), "must return an sfl.worlds.Task, it gave 3"),
    (lambda: SFL.load(None), "path must name a folder, got None"),  # type: ignore[arg-type]
    (lambda: SFL(FOURROOM, RandomConfig()).save(3), "path must name a folder, got 3"),  # type: ignore[arg-type]
    (lambda: GoalWrapper(LAKE, goal_test="distance", radius="1"), "needs a radius above 0, got '1'"),  # type: ignore[arg-type]
    (lambda: GoalWrapper(LAKE, reset_seed="1"), "reset_seed must be a whole number, .* got '1'"),  # type: ignore[arg-type]
    (lambda: GoalWrapper(LAKE, goals=3), r"goals must be a function of .* got 3"),  # type: ignore[arg-type]
    (lambda: SFL([gymnasium.make("CartPole-v1"), gymnasium.make("FrozenLake-v1")]), r"must be alike; number 0 "),
    (lambda: SFL("Pendulum-v1"), "has continuous actions"),
    (lambda: SFL(pixel_world()), "a small picture or a grid of symbols"),
    (lambda: SFL(FOURROOM, Foreign()), "settings of a method, one of SFLConfig, .*; got Foreign"),  # type: ignore[arg-type]
    (lambda: SFL(FOURROOM, SFLConfig), r"config is the class SFLConfig; give an object of it"),  # type: ignore[arg-type]
    (lambda: SFL("CartPole-v1", FrameSFLConfig()), "looks at RGB pictures of 120x160, .* 4 numbers; use SFLC"),
    (lambda: SFL(FOURROOM, seed=-1), "seed must be a whole number, 0 or more, got -1"),
    (lambda: SFL(FOURROOM, seed=None), "seed must be a whole number"),  # type: ignore[arg-type]
    (lambda: SFL(FOURROOM, RandomConfig()).learn("9"), "steps must be 0 or more, got '9'"),  # type: ignore[arg-type]
    (lambda: SFL(FOURROOM, RandomConfig()).learn(-1), "steps must be 0 or more, got -1"),
    (lambda: SFL(FOURROOM, RandomConfig()).evaluate(episodes=0), "episodes must be 1 or more, got 0"),
    (lambda: SFL(FOURROOM, RandomConfig()).evaluate(5), "evaluate takes a list of sfl.worlds.Task"),  # type: ignore[arg-type]
    (lambda: SFL(FOURROOM, RandomConfig()).predict({"a": 1}, GRID), "must have the entry observation"),
    (lambda: SFL(FOURROOM, RandomConfig()).predict(np.full(GRID.shape, "x"), GRID), "has <U1 in it, this"),
    (lambda: SFL(FOURROOM, RandomConfig()).predict(GRID, np.full(GRID.shape, np.nan)), "goal holds numbers .* not"),
    (lambda: SFL(FOURROOM, RandomConfig()).predict(GRID + 0.5, GRID), "has float64 numbers that are no uint8"),
    (lambda: SFL(FOURROOM, RandomConfig()).predict([[1], [1, 2]], GRID), "The observation is no array"),
    (lambda: make_env("CartPole-v1"), r"takes the configuration .* try make_env\(GymConfig\('CartPole-v1'\)\)"),  # type: ignore[arg-type]
    (lambda: make_env(GymConfig), "takes the configuration"),  # type: ignore[arg-type]
    (lambda: GoalWrapper(gymnasium.make("CartPole-v1"), max_steps="5"), "max_steps must be at least 1, got '5'"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "words"), WRONG, ids=[words for _, words in WRONG])
def test_plausible_wrong_use_is_one_line(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_an_agent_without_an_encoder_takes_any_observation() -> None:
    assert SFL(pixel_world(), TabularConfig()).learn(3).env_steps == 3


def test_without_settings_it_takes_the_recommended_ones() -> None:
    agent = SFL(FOURROOM)
    assert agent.config == recommended()
    assert agent.learn(3).env_steps == 3


def test_environments_without_goals_are_wrapped() -> None:
    agent = SFL(gymnasium.make("FrozenLake-v1", is_slippery=False), RandomConfig())
    assert isinstance(agent.envs[0], GoalWrapper)
    assert agent.spec.observation_shape == (16,)
    assert SFL("FrozenLake-v1", RandomConfig()).learn(30).env_steps == 30


def test_learning_in_parts_equals_learning_at_once() -> None:
    whole = SFL(FOURROOM, SFLConfig(), seed=4).learn(60).agent.state_dict()
    parts = SFL(FOURROOM, SFLConfig(), seed=4).learn(25).learn(35).agent.state_dict()
    assert whole.counters == parts.counters
    for name, array in whole.replay.items():
        np.testing.assert_array_equal(parts.replay[name], array)


def test_saved_and_loaded_predicts_the_same(tmp_path: Path) -> None:
    agent = SFL(FOURROOM, SFLConfig(), seed=2).learn(50)
    agent.save(tmp_path / "agent")
    agent.save(tmp_path / "agent")  # saving again takes the old one's place
    observation, _ = agent.envs[0].reset(seed=0)
    goal = observation["desired_goal"]
    back = SFL.load(tmp_path / "agent")
    expected = [agent.predict(observation, goal) for _ in range(20)]
    assert [back.predict(observation["observation"], goal) for _ in range(20)] == expected
    assert back.env_steps == 50
    with pytest.raises(UsageError, match=r"loaded without an environment; give one"):
        back.learn(1)
    assert SFL.load(tmp_path / "agent", FOURROOM).learn(10).env_steps == 60


def test_an_agent_of_an_older_format_acts_and_does_not_learn_on(tmp_path: Path) -> None:
    agent = SFL(FOURROOM, config=TabularConfig()).learn(200)
    agent.save(tmp_path / "agent")
    header = tmp_path / "agent" / "checkpoint" / "format.json"
    header.write_text(json.dumps(sign_header(json.loads(header.read_text()) | {"format": 4})))
    old = SFL.load(tmp_path / "agent", FOURROOM)
    assert old.evaluate(episodes=3) == agent.evaluate(episodes=3)
    with pytest.raises(UsageError, match="was saved in format 4; it acts"):
        old.learn(10)


def test_reset_and_another_goal_start_a_new_episode() -> None:
    agent = SFL(FOURROOM, RandomConfig())
    observation, _ = agent.envs[0].reset(seed=0)
    begun: list[int] = []
    policy = agent.agent.policy(0)
    policy.begin_episode = lambda env_index, goal: begun.append(int(goal.sum()))  # type: ignore[method-assign]
    agent._policy = policy
    first, second = observation["desired_goal"], observation["observation"]
    for goal in (first, first, second, second):
        agent.predict(observation, goal)
    agent.reset()
    agent.predict(observation, second)
    assert begun == [int(first.sum()), int(second.sum()), int(second.sum())]


def test_wrong_shapes_and_foreign_folders_are_refused(tmp_path: Path) -> None:
    agent = SFL(FOURROOM, RandomConfig())
    observation, _ = agent.envs[0].reset(seed=0)
    with pytest.raises(UsageError, match=r"The goal has shape \(3,\), this agent knows \(9, 9, 3\)"):
        agent.predict(observation, np.zeros(3))
    with pytest.raises(UsageError, match="neither a saved agent"):
        SFL.load(tmp_path)
    with pytest.raises(UsageError, match="is no saved agent"):
        agent.save(tmp_path)
    agent.save(tmp_path / "agent")
    with pytest.raises(CheckpointError, match="made in another environment"):
        SFL.load(tmp_path / "agent", "sfl/MultiRoom-N2-v0")
    with pytest.raises(UsageError, match="learns in 1 environments, got 2"):
        SFL.load(tmp_path / "agent", [make_env(MiniGridConfig()), make_env(MiniGridConfig())])


def test_a_tabular_agent_survives_saving(tmp_path: Path) -> None:
    agent = SFL(FOURROOM, TabularConfig(solve_every=20), seed=2).learn(50)
    agent.save(tmp_path / "agent")
    observation, _ = agent.envs[0].reset(seed=0)
    seen = observation["observation"][None]
    back = SFL.load(tmp_path / "agent", FOURROOM)
    assert isinstance(agent.agent, SFLAgent)
    assert isinstance(back.agent, SFLAgent)
    assert back.agent.representation.psi(seen).equal(agent.agent.representation.psi(seen))
    assert back.learn(5).env_steps == 55


def test_runs_can_be_loaded_and_evaluated(tmp_path: Path) -> None:
    folder = train(random_experiment(), 0, tmp_path)
    agent = SFL.load(folder.path)
    rows = agent.evaluate(episodes=3)
    assert [(row.agent, row.env, row.level, row.env_steps) for row in rows] == [("random", FOURROOM, "any", 350)] * 3
    assert agent.learn(5).env_steps == 355
