"""The grid worlds: observation, actions, episodes, starts and goals."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from minigrid.minigrid_env import MiniGridEnv
from minigrid.wrappers import FullyObsWrapper

from sfl.errors import UsageError
from sfl.worlds import GridWorld
from sfl.worlds.grids import LAYOUTS

from .worlds import IDS, doors, put, world

LEFT, RIGHT, FORWARD, TOGGLE = range(4)


class PlainWorld(GridWorld):
    """The same map moved and observed by MiniGrid's own code."""

    gen_obs = MiniGridEnv.gen_obs

    def step(self, action: Any) -> Any:
        return MiniGridEnv.step(self, self.actions.toggle if action == TOGGLE else action)


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize("env_id", IDS)
def test_gymnasium_accepts_every_world(env_id: str) -> None:
    check_env(gym.make(env_id, render_mode="rgb_array").unwrapped)
    check_env(gym.make(env_id, spawn="random", goal_terminates=False).unwrapped, skip_render_check=True)


@pytest.mark.parametrize("name", LAYOUTS)
def test_observation_equals_fully_obs_wrapper_on_a_long_walk(name: str) -> None:
    rng = np.random.default_rng(7)
    ours, plain = world(name, max_steps=10**6), PlainWorld(name, max_steps=10**6)
    twin = FullyObsWrapper(plain)
    opened = 0
    for step in range(2000):
        if step % 100 == 0:
            options = ours.sample_task(rng, 0).options()
            observation, _ = ours.reset(options=options)
            image = twin.reset(options=options)[0]["image"]
        else:
            action = int(rng.choice(4, p=[0.2, 0.2, 0.4, 0.2]))
            observation, *_ = ours.step(action)
            image = twin.step(action)[0]["image"]
        assert np.array_equal(observation["observation"], image)
        assert np.array_equal(observation["achieved_goal"], image)
        opened += sum(door.is_open for door in doors(ours))
    assert opened > 0 or not ours.layout.doors


def test_a_door_opens_and_closes_and_hides_under_the_agent() -> None:
    env = world("MultiRoom-N4")
    closed = env.reset(options={"start": (11, 10, 90)})[0]["observation"]
    assert closed[11, 11].tolist() == [4, 4, 1]  # a door, yellow, closed
    assert env.step(FORWARD)[4]["pose"].tolist() == [11, 10, 90]  # a closed door stops the agent
    opened = env.step(TOGGLE)[0]["observation"]
    assert opened[11, 11].tolist() == [4, 4, 0]
    assert np.array_equal(env.step(TOGGLE)[0]["observation"], closed)
    env.step(TOGGLE)
    inside = env.step(FORWARD)[0]["observation"]
    assert inside[11, 11].tolist() == [10, 0, 1]
    env.step(TOGGLE)  # the cell ahead is floor: nothing happens, and the door underfoot stays open
    assert env.step(FORWARD)[0]["observation"][11, 11].tolist() == [4, 4, 0]
    assert np.array_equal(env.reset(options={"start": (11, 10, 90)})[0]["observation"], closed)


def test_turns_and_walls_and_the_harmless_green_tile() -> None:
    env = world("FourRoom", goal_terminates=False)
    _, info = env.reset(options={"start": (6, 6, 0), "goal": None})
    assert info["pose"].tolist() == [6, 6, 0]
    poses = [env.step(action)[4]["pose"].tolist() for action in (LEFT, LEFT, RIGHT, RIGHT, RIGHT, FORWARD, FORWARD)]
    assert poses == [[6, 6, 270], [6, 6, 180], [6, 6, 270], [6, 6, 0], [6, 6, 90], [6, 7, 90], [6, 7, 90]]
    env.step(LEFT)
    _, reward, terminated, truncated, info = env.step(FORWARD)
    assert info["pose"].tolist() == [7, 7, 0]
    assert (reward, terminated, truncated) == (0.0, False, False)


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_goal_picture_shows_the_target_facing_right_with_all_doors_open(name: str) -> None:
    env = world(name)
    desired = env.reset()[0]["desired_goal"]
    put(env, (env.layout.target, 0, (True,) * len(env.layout.doors)))
    assert np.array_equal(desired, FullyObsWrapper(env).observation({})["image"])


def test_success_is_the_cell_whatever_heading_and_the_reward_falls_with_time() -> None:
    env = world("FourRoom")
    env.reset(options={"start": (6, 6, 90)})
    env.step(LEFT)
    env.step(RIGHT)
    _, reward, terminated, truncated, info = env.step(FORWARD)
    assert (terminated, truncated, info["is_success"]) == (True, False, True)
    assert reward == pytest.approx(1 - 0.9 * 3 / 100)


def test_without_goal_nothing_counts_as_success() -> None:
    env = world("FourRoom")
    observation, _ = env.reset(options={"start": (6, 6, 90), "goal": None})
    assert not observation["desired_goal"].any()
    _, reward, terminated, _, info = env.step(FORWARD)
    assert (reward, terminated, info["is_success"]) == (0.0, False, False)


@pytest.mark.parametrize("name", LAYOUTS)
def test_time_out_is_truncated_only(name: str) -> None:
    env = world(name, goal_terminates=False)
    x, y = env.layout.target
    env.reset(options={"start": (x, y, 0)})
    ends = [env.step(LEFT)[2:4] for _ in range(env.layout.max_steps)]
    assert ends == [(False, False)] * (env.layout.max_steps - 1) + [(False, True)]


def test_success_on_the_last_step_is_terminated_only() -> None:
    env = world("FourRoom", max_steps=1)
    env.reset(options={"start": (6, 6, 90)})
    assert env.step(FORWARD)[2:4] == (True, False)


def test_a_goal_may_be_an_observation_or_stand_in_a_doorway() -> None:
    env = world("MultiRoom-N2")
    seen = env.reset(options={"start": (17, 5, 180), "goal": None})[0]["observation"]
    observation, _ = env.reset(options={"start": (18, 5, 180), "goal": seen})
    assert np.array_equal(observation["desired_goal"], seen)
    assert env.step(FORWARD)[2]
    picture = env.reset(options={"goal": (20, 5, 90)})[0]["desired_goal"]
    assert picture[20, 5].tolist() == [10, 0, 1]


def test_arrays_are_never_shared() -> None:
    env = world("FourRoom")
    first, info = env.reset()
    kept = {name: array.copy() for name, array in first.items()}
    second, _, _, _, later = env.step(RIGHT)
    arrays = [*first.values(), *second.values()]
    pairs = [(one, other) for i, one in enumerate(arrays) for other in arrays[i + 1 :]]
    assert not any(np.shares_memory(one, other) for one, other in pairs)
    assert not np.shares_memory(info["pose"], later["pose"])
    for array in second.values():
        array.fill(0)
    third, *_ = env.step(LEFT)
    assert all(np.array_equal(third[name], kept[name]) for name in kept)


def test_random_spawn_reaches_every_cell_and_repeats_under_a_seed() -> None:
    env = world("FourRoom", spawn="random")
    env.reset(seed=3)
    first = [env.reset()[1]["pose"].tolist() for _ in range(1500)]
    env.reset(seed=3)
    assert [env.reset()[1]["pose"].tolist() for _ in range(1500)] == first
    assert len({tuple(pose) for pose in first}) == 160


def test_fixed_spawn_is_the_papers_start() -> None:
    assert world("MultiRoom-N6").reset(seed=5)[1]["pose"].tolist() == [5, 20, 0]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"start": (4, 1, 0)}, r"start \(4, 1\) is inside a wall of sfl/FourRoom-v0; free cells are e\.g\. \(1, 1\)"),
        ({"goal": (0, 0, 0)}, r"goal \(0, 0\) is inside a wall"),
        ({"goal": (9, 1, 0)}, r"goal \(9, 1\) is outside the 9x9 grid"),
        ({"start": (-1, 1, 0)}, r"start \(-1, 1\) is outside the 9x9 grid"),
        ({"start": (1.5, 1, 0)}, r"start \(1\.5, 1\) is between the cells"),
        ({"start": (1, 1, 45)}, r"degrees of a start must be a multiple of 90, got 45"),
        ({"start": "here"}, r"start must be a pose \(x, y, degrees\), got 'here'"),
        ({"goal": (1, 2, 0, 4)}, r"goal must be a pose"),
        ({"gaol": (1, 1, 0)}, r"Unknown reset options \['gaol'\].*known are 'start' and 'goal'"),
        ({"goal": np.zeros((9, 9, 3), np.uint8)}, r"must show one agent \(object 10\), this one shows 0"),
        ({"goal": np.zeros((9, 9, 3))}, r"uint8 array of shape \(9, 9, 3\), got float64"),
        ({"goal": np.zeros((7, 7, 3), np.uint8)}, r"got uint8 of shape \(7, 7, 3\)"),
    ],
)
def test_bad_options_are_refused_in_one_line(options: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text) as caught:
        world("FourRoom").reset(options=options)
    assert "\n" not in str(caught.value)


def test_starts_on_doors_and_outside_the_rooms_are_refused() -> None:
    with pytest.raises(UsageError, match=r"start \(20, 5\) is on a closed door of sfl/MultiRoom-N2-v0"):
        world("MultiRoom-N2").reset(options={"start": (20, 5, 0)})
    with pytest.raises(UsageError, match=r"goal \(1, 1\) is in no room"):
        world("MultiRoom-N2").reset(options={"goal": (1, 1, 0)})


def test_a_refused_reset_leaves_the_episode_as_it_was() -> None:
    env = world("FourRoom")
    before = env.reset(options={"start": (2, 2, 0)})[0]
    with pytest.raises(UsageError):
        env.reset(options={"start": (2, 3, 0), "goal": (0, 0, 0)})
    assert np.array_equal(env.gen_obs()["observation"], before["observation"])


def test_unknown_actions_and_arguments_are_refused() -> None:
    env = world("FourRoom")
    env.reset()
    with pytest.raises(UsageError, match="Action 4 is none of 0 left"):
        env.step(4)
    with pytest.raises(UsageError, match=r"No layout 'FiveRoom'\. Did you mean 'FourRoom'"):
        GridWorld("FiveRoom")
    with pytest.raises(UsageError, match="spawn must be 'fixed' or 'random', got 'anywhere'"):
        GridWorld("FourRoom", spawn="anywhere")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="max_steps must be at least 1, got 0"):
        GridWorld("FourRoom", max_steps=0)


def test_survey_shows_every_place_as_the_agent_would_see_it() -> None:
    env = world("MultiRoom-N2")
    poses, observations = env.survey()
    assert poses.shape == (44, 3)
    assert observations.shape == (44, 25, 25, 3)
    for pose, observation in zip(poses, observations, strict=True):
        put(env, ((int(pose[0]), int(pose[1])), int(pose[2]) // 90, (True,)))
        assert np.array_equal(env.gen_obs()["observation"], observation)


def test_pictures_of_the_map() -> None:
    env = world("MultiRoom-N2", render_mode="rgb_array")
    picture = env.map_image(8)
    assert (picture.shape, picture.dtype) == ((200, 200, 3), np.uint8)
    assert picture[5 * 8 + 4, 22 * 8 + 4].tolist() == [0, 255, 0]  # row is y: the green tile at (22, 5)
    assert picture[5 * 8 + 4, 18 * 8 + 4].tolist() == [0, 0, 0]
    env.reset(options={"start": (18, 5, 0)})
    env.tile_size = 8
    assert env.render()[5 * 8 + 4, 18 * 8 + 4].tolist() == [255, 0, 0]  # the agent
    assert np.array_equal(env.map_image(8), picture)
