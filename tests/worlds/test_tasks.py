"""Start-goal pairs."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from sfl.errors import UsageError
from sfl.worlds import GoalWrapper, MiniGridConfig, Task, draw_tasks, make_env


def test_the_papers_task_is_repeated_with_its_number() -> None:
    env = make_env(MiniGridConfig("sfl/MultiRoom-N4-v0"))
    tasks = draw_tasks(env, "paper", 3, np.random.default_rng(0))
    assert [(task.level, task.pair, task.budget) for task in tasks] == [("paper", pair, 160) for pair in range(3)]
    assert tasks[2].options() == {"start": (11, 9, 0.0), "goal": (14, 18, 0.0)}


def test_any_tasks_cover_the_floor_never_start_at_their_goal_and_repeat() -> None:
    env = make_env(MiniGridConfig(max_steps=30))
    tasks = draw_tasks(env, "any", 2000, np.random.default_rng(1))
    again = draw_tasks(env, "any", 2000, np.random.default_rng(1))
    assert [(task.start, task.goal) for task in tasks] == [(task.start, task.goal) for task in again]
    assert all(task.start[:2] != task.goal[:2] for task in tasks)  # type: ignore[index]
    assert len({task.start for task in tasks}) == 160
    assert {task.goal for task in tasks} == {(x, y, 0.0) for x, y in env.unwrapped.free_cells()}  # type: ignore[attr-defined]
    assert {(task.level, task.budget) for task in tasks} == {("any", 30)}


def test_a_task_without_start_or_goal_says_so_in_its_options() -> None:
    assert Task("any", 0, None, None, 5).options() == {"goal": None}


def test_unknown_levels_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(UsageError, match="No level 'hard'; the levels are 'paper' and 'any'"):
        draw_tasks(make_env(MiniGridConfig()), "hard", 1, rng)
    with pytest.raises(UsageError, match="use the level 'any' instead of 'paper'"):
        draw_tasks(GoalWrapper(gym.make("FrozenLake-v1")), "paper", 1, rng)
    with pytest.raises(UsageError, match="No level 'hard'; the levels are 'near', 'middle', 'far' and 'any'"):
        draw_tasks(GoalWrapper(gym.make("FrozenLake-v1")), "hard", 1, rng)
