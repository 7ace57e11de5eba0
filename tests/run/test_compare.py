"""Any object with the agent protocol, on the same tasks as SFL."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest

import sfl
from sfl import experiments
from sfl.api import Array, Decision, Observation
from sfl.errors import UsageError
from sfl.registry import make_agent
from sfl.run.compare import TaskSet
from sfl.run.evaluate import evaluate as evaluate_tasks
from sfl.worlds import MiniGridConfig, make_env

FOURROOM = experiments.get("fourroom-random")


class Forward:
    """A policy alone: it walks ahead, whatever it sees."""

    def __init__(self, action: Any = 2) -> None:
        self.action = action
        self.goals: list[Observation | None] = []

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        self.goals.append(goal)

    def act(self, observations: Array, env_indices: Array) -> Any:
        return np.full(len(env_indices), self.action)

    def explain(self, env_index: int) -> Decision:
        return Decision()


class Silent(Forward):
    """It does not say why."""

    def explain(self, env_index: int) -> Any:
        return None


class Learner:
    """An agent: what is evaluated is the frozen copy that it gives."""

    def __init__(self, copy: Any) -> None:
        self.copy = copy
        self.seeds: list[int] = []

    def policy(self, seed: int) -> Any:
        self.seeds.append(seed)
        return self.copy


@pytest.fixture(scope="module")
def tasks() -> TaskSet:
    return sfl.tasks_of(FOURROOM, seed=3, episodes=4)


def test_the_tasks_are_those_of_a_run(tasks: TaskSet) -> None:
    levels = [task.level for task in tasks]
    assert levels == ["paper"] * 4 + ["any"] * 4
    again = sfl.tasks_of(experiments.get("fourroom-sfl"), seed=3)
    assert len(again) == 200
    drawn = {task.pair: (task.start, task.goal) for task in again if task.level == "any"}
    assert all(drawn[task.pair] == (task.start, task.goal) for task in tasks if task.level == "any")
    assert tasks.spec().action_count == 4


def test_a_policy_alone_and_an_agent_are_taken(tasks: TaskSet) -> None:
    forward = Forward()
    rows = sfl.evaluate(forward, tasks, seed=3, name="forward")
    assert [(row.level, row.pair) for row in rows] == [(task.level, task.pair) for task in tasks]
    assert {row.agent for row in rows} == {"forward"}
    assert len(forward.goals) == len(tasks)
    assert all(goal is not None and goal.shape == (9, 9, 3) for goal in forward.goals)
    learner = Learner(Forward())
    assert sfl.evaluate(learner, tasks, seed=3, name="forward") == rows  # type: ignore[arg-type]
    assert len(learner.seeds) == 1


def test_it_is_the_evaluation_of_a_run(tasks: TaskSet) -> None:
    """The same rows as training writes for the same seed."""
    agent = make_agent(FOURROOM.agent, tasks.spec(), 3)
    rows = sfl.evaluate(agent, tasks, seed=3)
    assert rows == evaluate_tasks(agent, FOURROOM.env, list(tasks), seed=3)


def test_a_plain_list_needs_worlds(tasks: TaskSet) -> None:
    listed = list(tasks)
    with pytest.raises(UsageError, match="needs `worlds`, where to pose them"):
        sfl.evaluate(Forward(), listed)
    rows = sfl.evaluate(Forward(), listed, FOURROOM.env, seed=3)
    assert rows == sfl.evaluate(Forward(), tasks, seed=3)
    in_ours = sfl.evaluate(Forward(), listed, [make_env(MiniGridConfig())], seed=3)
    assert [row.success for row in in_ours] == [row.success for row in rows]
    assert sfl.evaluate(Forward(), replace(tasks, tasks=())) == []


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (object(), "object lacks begin_episode, act, explain; an agent needs policy"),
        (Learner(object()), "What Learner.policy returns lacks begin_episode"),
        (Forward(4), r"Forward.act must return actions from 0 to 3, got \[4"),
        (Forward(-1), "Forward.act must return actions from 0 to 3"),
        (Forward(0.5), r"Forward.act must return 8 whole numbers, got float64 of shape \(8,\)"),
        (Forward, "Forward is a class; give an object of it"),
        (Silent(), "Silent.explain must return an sfl.api.Decision, got NoneType"),
    ],
)
def test_what_is_no_agent_is_refused(agent: Any, message: str, tasks: TaskSet) -> None:
    with pytest.raises(UsageError, match=message):
        sfl.evaluate(agent, tasks)


def test_what_are_no_tasks_is_refused() -> None:
    with pytest.raises(UsageError, match="tasks must be a TaskSet or a list of tasks, got MiniGridConfig"):
        sfl.evaluate(Forward(), FOURROOM.env)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"worlds": []}, r"worlds must be a configuration or environments, at least one, got \[\]"),
        ({"worlds": "sfl/FourRoom-v0"}, "worlds must be a configuration or environments, at least one, got 'sfl/"),
        ({"parallel": -1}, "parallel must be 1 or more, got -1"),
        ({"parallel": np.zeros(3)}, r"parallel must be 1 or more, got array\(\[0\., 0\., 0\.\]\)"),
        ({"seed": -1}, "seed must be a whole number, 0 or more, got -1"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str, tasks: TaskSet) -> None:
    with pytest.raises(UsageError, match=message):
        sfl.evaluate(Forward(), tasks, **options)


def test_one_environment_will_do(tasks: TaskSet) -> None:
    assert sfl.evaluate(Forward(), list(tasks), make_env(MiniGridConfig())) == sfl.evaluate(
        Forward(), list(tasks), [make_env(MiniGridConfig())]
    )


def test_worlds_are_environments_with_goals(tasks: TaskSet) -> None:
    with pytest.raises(UsageError, match=r"worlds must be a configuration or environments, at least one, got \[1\]"):
        sfl.evaluate(Forward(), list(tasks), [1])  # type: ignore[list-item]
    with pytest.raises(UsageError, match=r"CartPole.* shows no desired_goal; sfl.worlds.GoalWrapper gives"):
        sfl.evaluate(Forward(), list(tasks), gymnasium.make("CartPole-v1"))


def test_a_copy_must_be_able_to_act(tasks: TaskSet) -> None:
    with pytest.raises(UsageError, match=r"What Learner.policy returns lacks begin_episode, act, explain"):
        sfl.evaluate(Learner(Learner(Forward())), tasks)


def test_tasks_are_those_of_an_experiment_not_of_a_name() -> None:
    with pytest.raises(UsageError, match="seed must be a whole number, 0 or more, got -1"):
        sfl.tasks_of(FOURROOM, seed=-1)
    with pytest.raises(UsageError, match=r"tasks_of takes an experiment, got 'fourroom-sfl'; sfl\.experiments\.get"):
        sfl.tasks_of("fourroom-sfl")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"episodes must be a number, got array\(\[0\., 0\.\]\)"):
        sfl.tasks_of(FOURROOM, episodes=np.zeros(2))  # type: ignore[arg-type]
