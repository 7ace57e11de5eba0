from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
import pytest

from sfl.agents.random_agent import RandomConfig
from sfl.agents.sfl.agent import SFLAgent
from sfl.agents.sfl.config import SFLConfig, TabularConfig, recommended
from sfl.core.errors import CheckpointError, UsageError
from sfl.envs import GoalWrapper, MiniGridConfig, make_env
from sfl.run.library import SFL
from sfl.run.train import train

from .worlds import random_experiment

FOURROOM = "sfl/FourRoom-v0"


def test_ids_environments_functions_and_lists_are_taken() -> None:
    env = make_env(MiniGridConfig())
    for given, count in ((FOURROOM, 1), (env, 1), (lambda: env, 1), ([env, make_env(MiniGridConfig())], 2)):
        agent = SFL(given, RandomConfig())
        assert agent.spec.env_count == count
        assert agent.learn(4).env_steps == 4
    with pytest.raises(UsageError, match="empty list"):
        SFL([], RandomConfig())


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
