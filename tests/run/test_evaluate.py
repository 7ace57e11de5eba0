from __future__ import annotations

import pytest

from sfl.api import Decision
from sfl.baselines.random import RandomConfig
from sfl.errors import UsageError
from sfl.registry import make_agent
from sfl.run.evaluate import EPISODE_COLUMNS, Label, eval_tasks, evaluate, summarise
from sfl.run.settings import EvalConfig
from sfl.worlds import GymConfig, MiniGridConfig, Task

from .worlds import Corridor, Walk

FOURROOM = MiniGridConfig()


def corridor_tasks(*goals: int, budget: int = 10) -> list[Task]:
    return [Task("any", pair, None, goal, budget) for pair, goal in enumerate(goals)]  # type: ignore[arg-type]


def test_rows_come_in_the_order_of_the_tasks_with_their_steps_and_outcomes() -> None:
    rows = evaluate(Walk(), [Corridor(limit=6), Corridor(limit=6)], corridor_tasks(5, 1, 50, 2))
    assert [(row.pair, row.success, row.steps, row.outcome) for row in rows] == [
        (0, 1, 5, "reached"),
        (1, 1, 1, "reached"),
        (2, 0, 6, "timeout"),
        (3, 1, 2, "reached"),
    ]


def test_budget_ends_an_episode() -> None:
    (row,) = evaluate(Walk(), [Corridor(limit=6)], corridor_tasks(5, budget=3))
    assert (row.success, row.steps, row.budget, row.outcome) == (0, 3, 3, "timeout")


def test_no_route_is_an_outcome_of_its_own_unless_the_goal_was_reached() -> None:
    lost = Walk(explanation=Decision(route_found=False))
    rows = evaluate(lost, [Corridor(limit=6)], corridor_tasks(50, 2))
    assert [row.outcome for row in rows] == ["no_route", "reached"]


def test_columns_are_those_of_the_contract() -> None:
    expected = "experiment,agent,env,maze,spawn,seed,env_steps,level,pair,budget,success,steps,outcome"
    assert ",".join(EPISODE_COLUMNS) == expected


def test_same_seed_same_rows_and_another_seed_others() -> None:
    agent = make_agent(RandomConfig(), FOURROOM.spec(), 0, "cpu")
    tasks = eval_tasks(FOURROOM, EvalConfig(episodes=8, levels=("any",)), seed=1)
    first, second = (evaluate(agent, FOURROOM, tasks, seed=1) for _ in range(2))
    assert first == second
    other = evaluate(agent, FOURROOM, tasks, seed=2, label=Label(seed=1))
    assert [row.steps for row in other] != [row.steps for row in first]


def test_what_is_evaluated_does_not_depend_on_how_many_environments_there_are() -> None:
    tasks = eval_tasks(FOURROOM, EvalConfig(episodes=5, levels=("any",)), seed=1)
    still = Walk(action=0)
    assert evaluate(still, FOURROOM, tasks, parallel=1) == evaluate(still, FOURROOM, tasks, parallel=4)


def test_tasks_of_a_level_do_not_depend_on_the_other_levels() -> None:
    both = eval_tasks(FOURROOM, EvalConfig(episodes=4), seed=3)
    alone = eval_tasks(FOURROOM, EvalConfig(episodes=4, levels=("any",)), seed=3)
    assert [(t.start, t.goal) for t in both[4:]] == [(t.start, t.goal) for t in alone]
    assert {(t.start, t.goal) for t in both[:4]} == {((1, 1, 0.0), (6, 7, 0.0))}
    other = eval_tasks(FOURROOM, EvalConfig(episodes=4, levels=("any",)), seed=4)
    assert [t.start for t in other] != [t.start for t in alone]


def test_unknown_levels_and_levels_without_a_default_task_are_refused() -> None:
    with pytest.raises(UsageError, match="No level 'hard'"):
        eval_tasks(FOURROOM, EvalConfig(levels=("hard",)), seed=0)
    with pytest.raises(UsageError, match="use the level 'any'"):
        eval_tasks(GymConfig("FrozenLake-v1"), EvalConfig(levels=("paper",)), seed=0)


def test_no_tasks_no_rows() -> None:
    assert evaluate(Walk(), FOURROOM, []) == []


def test_summary_counts_steps_of_successes_only() -> None:
    rows = evaluate(Walk(), [Corridor(limit=6)], corridor_tasks(5, 1, 50))
    assert summarise(rows) == {"eval/success_any": pytest.approx(2 / 3), "eval/steps_any": 3.0}
    assert summarise(evaluate(Walk(), [Corridor(limit=6)], corridor_tasks(50))) == {"eval/success_any": 0.0}
