"""Goals for environments that have none."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from sfl.errors import UsageError
from sfl.worlds import GoalWrapper, GymConfig, draw_tasks, is_goal_env, make_env


class Line(gym.Env[Any, Any]):
    """Cells 0..4 on a line, actions 1 (left) and 2 (right); the environment itself ends at cell 4 and pays 7 there."""

    action_space = spaces.Discrete(2, start=1)

    def __init__(self, observation_space: spaces.Space[Any] | None = None, still: bool = False) -> None:
        self.observation_space = observation_space or spaces.Box(0, 4, (1,), np.int64)
        self.still = still
        self.frame = np.zeros(1, np.int64)  # handed out again and again, as careless environments do

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.frame[0] = (options or {}).get("cell", 0)
        return self.frame, {"own": 1}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action in (1, 2)
        if not self.still:
            self.frame[0] = np.clip(self.frame[0] + (1 if action == 2 else -1), 0, 4)
        return self.frame, 7.0, bool(self.frame[0] == 4), False, {"own": 2}


RIGHT = 1


def goal(cell: int) -> dict[str, Any]:
    return {"goal": np.array([cell])}


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize(
    "config",
    [
        GymConfig("CartPole-v1", goal_test="distance", radius=0.1),
        GymConfig("CartPole-v1", reset_seed=None),
        GymConfig("FrozenLake-v1", kwargs=("is_slippery=false",)),
        GymConfig("MiniGrid-FourRooms-v0"),
        GymConfig("MiniGrid-FourRooms-v0", reset_seed=None, full_observation=False),
    ],
)
def test_gymnasium_accepts_wrapped_environments(config: GymConfig) -> None:
    env = make_env(config)
    assert is_goal_env(env)
    check_env(env, skip_render_check=True)


def test_rewards_and_ends_come_from_the_goal() -> None:
    env = GoalWrapper(Line())
    assert env.action_space == spaces.Discrete(2)
    observation, info = env.reset(options=goal(2))
    assert observation["desired_goal"].tolist() == [2]
    assert (info["is_success"], info["own"]) == (False, 1)
    assert env.step(RIGHT)[1:4] == (0.0, False, False)
    observation, reward, terminated, truncated, info = env.step(RIGHT)
    assert (reward, terminated, truncated, info["is_success"]) == (1.0, True, False, True)
    assert "pose" not in info


def test_a_goal_that_does_not_terminate_and_the_environments_own_end() -> None:
    env = GoalWrapper(Line(), goal_terminates=False)
    env.reset(options=goal(2))
    steps = [env.step(RIGHT)[1:4] for _ in range(4)]
    assert steps == [(0.0, False, False), (1.0, False, False), (0.0, False, False), (0.0, True, False)]


def test_time_out_is_truncated_only_and_counts_from_the_reset() -> None:
    env = GoalWrapper(Line(), max_steps=2)
    for _ in range(2):
        env.reset()
        assert [env.step(0)[2:4] for _ in range(2)] == [(False, False), (False, True)]


def test_without_goal_there_is_no_success() -> None:
    env = GoalWrapper(Line(), goal_test=lambda achieved, desired: True)
    observation, info = env.reset(options={"goal": None})
    assert observation["desired_goal"].tolist() == [0]
    assert not info["is_success"]
    assert env.step(0)[1:4] == (0.0, False, False)


def test_goal_tests() -> None:
    near = GoalWrapper(Line(), goal_test="distance", radius=1.0)
    near.reset(options=goal(2))
    assert near.step(RIGHT)[2]
    own = GoalWrapper(Line(), goal_test=lambda achieved, desired: bool(achieved[0] > desired[0]))
    own.reset(options=goal(2))
    assert [own.step(RIGHT)[4]["is_success"] for _ in range(3)] == [False, False, True]


def test_distance_of_bytes_does_not_wrap_around() -> None:
    env = GoalWrapper(Line(spaces.Box(0, 255, (1,), np.uint8)), goal_test="distance", radius=2.0)
    env.reset(options={"goal": np.array([3], np.uint8)})
    assert not env.reset(options={"goal": np.array([255], np.uint8)})[1]["is_success"]
    assert env.reset(options={"goal": np.array([1], np.uint8)})[1]["is_success"]


def test_observations_are_copies_of_what_the_environment_reuses() -> None:
    env = GoalWrapper(Line())
    first, _ = env.reset()
    second, *_ = env.step(RIGHT)
    assert (first["observation"].tolist(), second["observation"].tolist()) == ([0], [1])
    assert not np.shares_memory(second["observation"], second["achieved_goal"])


def test_discrete_observations_become_one_hot() -> None:
    env = GoalWrapper(gym.make("FrozenLake-v1", is_slippery=False))
    start = env.reset()[0]["observation"]
    assert start.dtype == np.float32
    assert np.flatnonzero(start).tolist() == [0]
    assert np.flatnonzero(env.step(2)[0]["observation"]).tolist() == [1]
    shifted = GoalWrapper(_Numbered(spaces.Discrete(3, start=5)))
    assert shifted.reset()[0]["observation"].tolist() == [0, 1, 0]


def test_an_observation_of_one_number_is_a_list_of_one() -> None:
    env = GoalWrapper(_Numbered(spaces.Box(0.0, 9.0, ())))
    assert env.reset()[0]["observation"].tolist() == [6.0]
    assert env.observation_space["observation"].shape == (1,)  # type: ignore[index]


class _Numbered(Line):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return 6, {}


PICTURE, POINT = spaces.Box(0, 255, (2, 2), np.uint8), spaces.Box(-1.0, 1.0, (3,))


@pytest.mark.parametrize(
    ("space", "key", "shape"),
    [
        ({"image": PICTURE, "point": POINT}, "point", (3,)),
        ({"image": PICTURE, "direction": spaces.Discrete(4)}, "direction", (4,)),
        ({"eye": PICTURE, "text": spaces.Text(5)}, None, (2, 2)),
    ],
)
def test_the_entry_of_dict_observations(space: dict[str, Any], key: str | None, shape: tuple[int, ...]) -> None:
    env = GoalWrapper(Line(spaces.Dict(space)), observation_key=key)
    assert env.observation_space["observation"].shape == shape  # type: ignore[index]


def test_zero_the_sign_of_no_goal_lies_in_the_goals_space() -> None:
    env = GoalWrapper(Line(spaces.Box(1, 4, (1,), np.int64)))
    assert env.observation_space["desired_goal"].low.tolist() == [0]  # type: ignore[index]
    assert env.observation_space["observation"].low.tolist() == [1]  # type: ignore[index]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: GoalWrapper(gym.make("Pendulum-v1")), r"Pendulum-v1 has continuous actions, Box\(-2.0, 2.0"),
        (lambda: GoalWrapper(_Levers()), r"_Levers has actions that are not a single choice, MultiDiscrete"),
        (lambda: GoalWrapper(Line(spaces.Text(3))), r"must be arrays .* got Text\("),
        (lambda: GoalWrapper("CartPole-v1"), "wraps one environment, got str; make it first"),  # type: ignore[arg-type]
        (lambda: GoalWrapper(Line(), observation_key="image"), "observation_key 'image' needs Dict observations"),
        (
            lambda: GoalWrapper(Line(spaces.Dict({"a": POINT, "b": PICTURE}))),
            r"several entries, a \(3 numbers\), b \(table of 2x2 numbers\): .* name it by observation_key",
        ),
        (
            lambda: GoalWrapper(Line(spaces.Dict({"a": POINT})), observation_key="c"),
            r"No observation_key 'c'; the observations have \['a'\]",
        ),
        (lambda: GoalWrapper(Line(), goal_test="distance"), "needs a radius above 0, got 0"),
        (lambda: GoalWrapper(Line(), goal_test="near"), "goal_test must be 'equal', 'distance' or a function"),  # type: ignore[arg-type]
        (lambda: GoalWrapper(Line(), max_steps=0), "max_steps must be at least 1, got 0"),
        (lambda: GoalWrapper(Line()).reset(options={"start": (1, 1, 0)}), "Line takes no start"),
        (
            lambda: GoalWrapper(Line()).reset(options={"goal": np.zeros(2)}),
            r"A goal of Line is a int64 observation of shape \(1,\), got float64 of shape \(2,\)",
        ),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(make: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text) as caught:
        make()
    assert "\n" not in str(caught.value)


class _Levers(Line):
    action_space = spaces.MultiDiscrete([2, 2])  # type: ignore[assignment]


class _Startable(Line):
    reset_options = ("start",)


def test_other_options_reach_the_environment() -> None:
    assert GoalWrapper(Line()).reset(options={"cell": 3})[0]["observation"].tolist() == [3]
    GoalWrapper(_Startable()).reset(options={"start": 1})


def test_a_fixed_world_leaves_chance_to_the_seed_of_the_episode() -> None:
    env = GoalWrapper(gym.make("FrozenLake-v1", map_name="8x8"), reset_seed=0)

    def walk(seed: int | None) -> list[int]:
        env.reset(seed=seed)
        return [int(env.step(2)[0]["observation"].argmax()) for _ in range(8)]

    assert walk(1) == walk(1)
    assert len({tuple(walk(seed)) for seed in range(5)}) > 1
    assert len({tuple(walk(None)) for _ in range(5)}) > 1


def test_minigrid_gives_its_true_pose() -> None:
    env = make_env(GymConfig())
    pose = env.reset()[1]["pose"]
    core: Any = env.unwrapped
    assert pose.tolist() == [*core.agent_pos, 90 * core.agent_dir]
    assert env.step(1)[4]["pose"][2] == 90 * ((pose[2] // 90 + 1) % 4)


def test_drawn_tasks_are_those_of_the_exam_and_repeat() -> None:
    env = GoalWrapper(Line(), reset_seed=0)
    tasks = draw_tasks(env, "any", 200, np.random.default_rng(5))
    again = draw_tasks(env, "any", 200, np.random.default_rng(6))
    goals = [int(task.goal[0]) for task in tasks]  # type: ignore[index,arg-type]
    assert goals == [int(task.goal[0]) for task in again]  # type: ignore[index,arg-type]
    assert set(goals) == {1, 2, 3, 4}
    assert {(task.level, task.start, task.budget, task.reset_seed) for task in tasks} == {("any", None, 200, None)}


def test_a_goal_test_may_ask_for_the_environments_own_info() -> None:
    asked: list[dict[str, Any]] = []

    def by_info(achieved: Any, desired: Any, info: dict[str, Any]) -> bool:
        asked.append(info)
        return bool(achieved[0] == desired[0]) and info["own"] == 2

    env = GoalWrapper(Line(), goal_test=by_info)
    assert not env.reset(options=goal(0))[1]["is_success"]
    env.step(RIGHT)
    assert env.step(0)[4]["is_success"]
    assert [info["own"] for info in asked] == [1, 2, 2]


def test_functions_of_two_arguments_and_of_more_than_they_need() -> None:
    two = GoalWrapper(Line(), goal_test=np.array_equal)  # its third one is no info
    two.reset(options=goal(1))
    assert two.step(RIGHT)[4]["is_success"]
    any_number = GoalWrapper(Line(), goal_test=lambda *given: len(given) == 3)
    assert any_number.reset(options=goal(1))[1]["is_success"]


@pytest.mark.parametrize(
    "goal_test", [lambda achieved: True, lambda a, b, c, d: True, lambda a, b, *, info: True, lambda: True]
)
def test_a_function_of_other_arguments_is_refused_when_it_is_given(goal_test: Any) -> None:
    with pytest.raises(UsageError, match=r"takes \(achieved, desired\) or \(achieved, desired, info\)"):
        GoalWrapper(Line(), goal_test=goal_test)
