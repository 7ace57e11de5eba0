"""Environments from configurations, and what is refused before anything starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from sfl.config import from_json, to_json
from sfl.errors import UnknownNameError, UsageError
from sfl.worlds import DoomConfig, EnvConfig, GoalWrapper, GridWorld, GymConfig, MiniGridConfig, is_goal_env, make_env
from sfl.worlds.gym import env_spec


def test_a_grid_world_takes_its_settings() -> None:
    env = make_env(MiniGridConfig("sfl/MultiRoom-N3-v0", spawn="random", max_steps=7), goal_terminates=False)
    core = env.unwrapped
    assert isinstance(core, GridWorld)
    assert (core.layout.name, core.spawn, core.max_steps, core.goal_terminates) == ("MultiRoom-N3", "random", 7, False)
    assert is_goal_env(env)


@pytest.mark.parametrize(
    "config", [MiniGridConfig(spawn="random"), GymConfig("FrozenLake-v1", kwargs=("map_name=8x8",))]
)
def test_configurations_survive_json(config: EnvConfig) -> None:
    assert from_json(EnvConfig, to_json(config)) == config


@pytest.mark.parametrize(
    ("config", "kind", "reads"),
    [
        (MiniGridConfig("sfl/MultiRoom-N2-v0"), "grid", "grid of 25x25 cells with 3 symbols each (MiniGrid)"),
        (GymConfig("FrozenLake-v1"), "other", "a number out of 16, one-hot"),
        (DoomConfig("small"), "maze", "RGB picture 120x160, channels last"),
    ],
)
def test_configurations_answer_for_their_world(config: EnvConfig, kind: str, reads: str) -> None:
    assert config.kind == config.open().kind == kind
    assert config.observation_kind().what == reads
    assert config.to_show(7).max_steps == 7
    env = config.make()
    assert config.spec(3) == env_spec(env, 3)
    env.close()
    assert len(config.action_names) == (0 if kind == "other" else config.spec().action_count)
    assert config.one_map
    assert not config.modules()
    assert not config.files()


def test_only_worlds_of_the_users_name_modules_and_vary() -> None:
    config = GymConfig("my_module:Far-v0", goal_test="tests_of_mine:near", goals="my_module:goals", reset_seed=None)
    assert config.modules() == ["my_module", "tests_of_mine"]
    assert not config.one_map


def test_worlds_load_nothing_that_is_slow_to_import() -> None:
    slow = ("torch", "scipy", "matplotlib", "vizdoom")
    code = f"import sys, sfl.worlds, sfl.worlds.doom; print([name for name in {slow} if name in sys.modules])"
    sources = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=sources)
    assert found.stdout.strip() == "[]"


def test_a_minigrid_id_gives_the_whole_grid_and_all_seven_actions() -> None:
    env = make_env(GymConfig("MiniGrid-FourRooms-v0"))
    assert isinstance(env, GoalWrapper)
    assert env.action_space == gym.spaces.Discrete(7)
    assert env.reset()[0]["observation"].shape == (19, 19, 3)
    assert env.max_steps == 100
    ahead = make_env(GymConfig("MiniGrid-FourRooms-v0", full_observation=False))
    assert ahead.reset()[0]["observation"].shape == (7, 7, 3)


@pytest.mark.parametrize("env_id", ["MiniGrid-FourRooms-v0", "FrozenLake-v1"])
@pytest.mark.parametrize("limit", [20, 150])
def test_the_time_limit_replaces_the_environments_own(env_id: str, limit: int) -> None:
    kwargs = ("map_name=8x8", "is_slippery=false") if env_id == "FrozenLake-v1" else ()
    env = make_env(GymConfig(env_id, max_steps=limit, kwargs=kwargs))
    env.reset()
    ends = [env.step(0)[2:4] for _ in range(limit)]  # turning left, or walking against the left edge
    assert ends == [(False, False)] * (limit - 1) + [(False, True)]


def test_arguments_reach_the_environment() -> None:
    env = make_env(GymConfig("FrozenLake-v1", kwargs=("is_slippery=False", 'desc=["SF","FG"]')))
    assert env.reset()[0]["observation"].tolist() == [1, 0, 0, 0]
    assert env.step(2)[0]["observation"].tolist() == [0, 1, 0, 0]


def test_an_id_may_name_the_module_that_registers_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    line = "gym.register('Far-v0', 'gymnasium.envs.classic_control:CartPoleEnv', max_episode_steps=9)"
    (tmp_path / "far_away.py").write_text(f"import gymnasium as gym\n{line}\n")
    monkeypatch.syspath_prepend(tmp_path)
    env = make_env(GymConfig("far_away:Far-v0"))
    assert isinstance(env, GoalWrapper)
    assert env.max_steps == 9
    del gym.registry["Far-v0"]


def test_a_fixed_world_and_varying_worlds() -> None:
    fixed, varying = make_env(GymConfig()), make_env(GymConfig(reset_seed=None))
    images = [fixed.reset()[0]["observation"] for _ in range(3)]
    assert all(np.array_equal(image, images[0]) for image in images)
    varying.reset(seed=0)
    assert not np.array_equal(varying.reset()[0]["observation"], varying.reset()[0]["observation"])


def test_functions_are_found_in_the_current_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "own_test.py").write_text(
        "def same_sum(achieved, desired):\n    return achieved.sum() == desired.sum()\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [folder for folder in sys.path if folder])
    env = make_env(GymConfig("MiniGrid-Empty-5x5-v0", goal_test="own_test:same_sum"))
    assert isinstance(env, GoalWrapper)
    one, other = np.array([1, 2]), np.array([2, 1])
    assert env.reached(one, other, {})


def test_settings_that_came_later_are_filled_in_and_others_are_still_missed() -> None:
    body = to_json(GymConfig("FrozenLake-v1"))
    del body["goals"]
    assert from_json(EnvConfig, body) == GymConfig("FrozenLake-v1")
    del body["radius"]
    with pytest.raises(UsageError, match=r"missing \['radius'\]"):
        from_json(EnvConfig, body)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: MiniGridConfig("sfl/FourRooms-v0"),
            "No grid world 'sfl/FourRooms-v0'. Did you mean 'sfl/FourRoom-v0'",
        ),
        (lambda: GymConfig("CartPol-v1"), "No environment 'CartPol-v1'. Did you mean 'CartPole-v1'"),
    ],
)
def test_unknown_ids_name_the_nearest(make: Any, text: str) -> None:
    with pytest.raises(UnknownNameError, match=text):
        make()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: MiniGridConfig(max_steps=0), "max_steps must be at least 1, got 0"),
        (lambda: MiniGridConfig(spawn="x"), "spawn must be one of 'fixed', 'random', got 'x'"),  # type: ignore[arg-type]
        (lambda: MiniGridConfig(np.zeros(3)), r"id must be a text, got array\(\[0., 0., 0.\]\)"),  # type: ignore[arg-type]
        (lambda: GymConfig(max_steps=2.5), "max_steps must be a whole number .* got 2.5"),  # type: ignore[arg-type]
        (lambda: DoomConfig(spawn=np.zeros((2, 2))), "spawn must be one of 'fixed', 'random', got array"),  # type: ignore[arg-type]
        (lambda: GymConfig(max_steps=-1), "max_steps must be at least 1, got -1"),
        (lambda: GymConfig(goal_test="near"), "goal_test must be 'equal', 'distance' or 'my_module:.* got 'near'"),
        (lambda: GymConfig(goal_test="a b:c"), "or 'my_module:my_function', got 'a b:c'"),
        (lambda: GymConfig(goals="mine"), "goals must be 'my_module:my_function', got 'mine'"),
        (lambda: make_env(GymConfig(goal_test="no_such_module:f")), "--env.goal-test: no module 'no_such_module'"),
        (lambda: make_env(GymConfig(goals="json:nothing")), "has no 'nothing'; define it there"),
        (lambda: GymConfig(goal_test="distance"), "radius must be above 0 with goal_test 'distance'"),
        (lambda: GymConfig(radius=1.0), "else 0; got 1.0 with 'equal'"),
        (lambda: GymConfig(kwargs=("slippery",)), "kwargs must look like name=value, got 'slippery'"),
        (lambda: GymConfig("sfl/FourRoom-v0"), "sfl/FourRoom-v0 has goals of its own"),
        (lambda: make_env(GymConfig("Pendulum-v1")), "Pendulum-v1 has continuous actions, Box.*needs a Discrete"),
        (
            lambda: make_env(GymConfig("CartPole-v1", kwargs=("gravity=1",))),
            "Cannot make CartPole-v1 with {'gravity': 1}",
        ),
        (lambda: make_env(GymConfig("CartPole-v1", kwargs=("gravity=" + "[" * 100_000,))), "Cannot make CartPole-v1"),
        (lambda: make_env(GymConfig("CartPole-v1", kwargs=("gravity=" + "9" * 5_000,))), "Cannot make CartPole-v1"),
        (lambda: make_env(GymConfig("no_such_module:X-v0")), "no module 'no_such_module' in .* call sfl in the folder"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(make: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text) as caught:
        make()
    assert "\n" not in str(caught.value)
