from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from sfl.errors import UsageError
from sfl.worlds import draw_tasks
from sfl.worlds.doom.env import DoomMaze
from sfl.worlds.mazes.layout import Maze

from .games import random_actions, walk

LEFT, RIGHT, FORWARD, BACKWARD, TURN_LEFT, TURN_RIGHT, NOTHING = range(7)
MIDDLE = (200.0, 224.0, 0.0)


@pytest.fixture
def settings(env: DoomMaze) -> Iterator[DoomMaze]:
    """The shared game, for tests that change how episodes end."""
    kept = env.max_steps, env.goal_terminates
    yield env
    env.max_steps, env.goal_terminates = kept


def test_gymnasium_accepts_it() -> None:
    made = gym.make("sfl/DoomMaze-v0", render_mode="rgb_array")
    check_env(made.unwrapped)
    assert isinstance(made.unwrapped, DoomMaze)
    assert made.unwrapped.maze.name == "small"
    made.close()


def test_stacks_hold_the_newest_four_frames_oldest_first(env: DoomMaze) -> None:
    first = env.reset(options={"start": MIDDLE, "goal": None})[0]
    assert {name: (entry.shape, entry.dtype) for name, entry in first.items()} == {
        name: ((4, 120, 160, 3), np.dtype(np.uint8)) for name in ("observation", "achieved_goal", "desired_goal")
    }
    assert not first["observation"][:3].any()
    assert len(np.unique(first["observation"][3])) > 20
    assert not first["desired_goal"].any()
    newest = [first["observation"][-1]]
    for _ in range(4):
        observation = env.step(TURN_LEFT)[0]["observation"]
        newest.append(observation[-1])
        depth = min(4, len(newest))
        assert np.array_equal(observation[-depth:], newest[-depth:])
        assert not observation[:-depth].any()


@pytest.mark.parametrize("pose", [(100, 100, 0), (200, 80, 179.5), (450, 333, 359), (560, 368, 45.25), (333, 300, 271)])
def test_a_start_is_met_to_the_hundredth_of_a_degree(env: DoomMaze, pose: tuple[float, float, float]) -> None:
    reached = env.reset(options={"start": pose, "goal": (100, 300, 90)})[1]["pose"]
    assert reached[:2].tolist() == list(pose[:2])
    assert abs((reached[2] - pose[2] + 180) % 360 - 180) < 0.01


def test_fractions_of_a_unit_are_rounded(env: DoomMaze) -> None:
    assert env.reset(options={"start": (200.6, 99.4, 0), "goal": None})[1]["pose"][:2].tolist() == [201, 99]


@pytest.mark.parametrize(
    ("action", "direction"),
    [(LEFT, (0, 1)), (RIGHT, (0, -1)), (FORWARD, (1, 0)), (BACKWARD, (-1, 0)), (NOTHING, (0, 0))],
)
def test_moves_go_where_they_say_when_looking_east(env: DoomMaze, action: int, direction: tuple[int, int]) -> None:
    env.reset(options={"start": (200, 200, 0), "goal": None})
    moved = env.step(action)[4]["pose"] - (200, 200, 0)
    assert np.sign(np.round(moved[:2], 3)).tolist() == list(direction)
    assert np.hypot(*moved[:2]) < 20
    assert min(moved[2], 360 - moved[2]) < 0.01


def test_turns_go_where_they_say(env: DoomMaze) -> None:
    turned = {}
    for action in (TURN_LEFT, TURN_RIGHT):
        env.reset(options={"start": (200, 200, 90), "goal": None})
        turned[action] = env.step(action)[4]["pose"] - (200, 200, 90)
    assert 1 < turned[TURN_LEFT][2] < 30
    assert np.allclose(turned[TURN_LEFT], -turned[TURN_RIGHT], atol=0.01)


def test_walls_stop_the_player_at_its_half_width(env: DoomMaze) -> None:
    env.reset(options={"start": MIDDLE, "goal": None})
    _, poses = walk(env, [FORWARD] * 30)
    assert 320 - 16 - 1 <= poses[-1][0] <= 320 - 16
    assert poses[-1] == poses[-2]


def test_the_same_start_and_actions_give_the_same_frames_whatever_went_before(env: DoomMaze, arena: Maze) -> None:
    actions = random_actions(40)
    env.reset(options={"start": MIDDLE, "goal": None})
    frames, poses = walk(env, actions)
    walk(env, [FORWARD] * 5)  # running into the next reset
    env.reset(options={"start": MIDDLE, "goal": (450, 300, 77)})
    assert walk(env, actions) == (frames, poses)
    other = DoomMaze(arena)
    other.reset(options={"start": MIDDLE, "goal": None})
    assert walk(other, actions) == (frames, poses)
    other.close()


def test_the_goal_picture_is_what_is_seen_there(env: DoomMaze) -> None:
    goal = (450.0, 200.0, 130.0)
    desired = env.reset(options={"start": MIDDLE, "goal": goal})[0]["desired_goal"]
    seen = env.reset(options={"start": goal, "goal": None})[0]["observation"][-1]
    assert all(np.array_equal(frame, seen) for frame in desired)
    assert np.array_equal(env.pictures(np.array([goal, MIDDLE]))[0], seen)
    with pytest.raises(UsageError, match="No episode runs: reset the environment first"):
        env.step(NOTHING)


def test_success_is_within_63_units_after_an_action_whatever_heading(settings: DoomMaze) -> None:
    env = settings
    _, info = env.reset(options={"start": (100, 300, 0), "goal": (200, 300, 180)})
    assert not info["is_success"]
    distances: list[float] = []
    ends: list[tuple[bool, bool]] = []
    while not ends or not any(ends[-1]):
        _, reward, terminated, truncated, info = env.step(FORWARD)
        distances.append(200 - info["pose"][0])
        ends.append((terminated, truncated))
        assert reward == float(info["is_success"]) == float(terminated)
    assert distances[-1] <= 63 < distances[-2]
    assert ends[-1] == (True, False)
    env.goal_terminates = False
    env.reset(options={"start": (200, 300, 0), "goal": (200, 300, 180)})
    _, reward, terminated, truncated, info = env.step(NOTHING)
    assert (reward, terminated, truncated, info["is_success"]) == (1.0, False, False, True)


def test_time_out_is_truncated_only_and_success_on_the_last_step_terminated_only(settings: DoomMaze) -> None:
    env = settings
    env.max_steps = 3
    env.reset(options={"start": MIDDLE, "goal": None})
    outcomes = [env.step(TURN_LEFT)[1:4] for _ in range(3)]
    assert outcomes == [(0.0, False, False), (0.0, False, False), (0.0, False, True)]
    env.max_steps = 1
    env.reset(options={"start": MIDDLE, "goal": (220, 224, 0)})
    assert env.step(NOTHING)[1:4] == (1.0, True, False)


def test_a_goal_may_be_a_picture_which_is_never_known_to_be_reached(env: DoomMaze) -> None:
    picture = env.pictures(np.array([MIDDLE]))[0]
    observation, _ = env.reset(options={"start": MIDDLE, "goal": picture})
    assert all(np.array_equal(frame, picture) for frame in observation["desired_goal"])
    assert env.step(NOTHING)[1:4] == (0.0, False, False)


def test_arrays_are_never_shared(env: DoomMaze) -> None:
    first, info = env.reset(options={"start": MIDDLE, "goal": (450, 300, 0)})
    second, _, _, _, later = env.step(FORWARD)
    arrays = [*first.values(), *second.values(), info["pose"], later["pose"]]
    pairs = [(one, other) for i, one in enumerate(arrays) for other in arrays[i + 1 :]]
    assert not any(np.shares_memory(one, other) for one, other in pairs)


def test_random_spawn_is_anywhere_free_and_repeats_under_a_seed(env: DoomMaze) -> None:
    def starts() -> list[list[float]]:
        env.reset(seed=3)
        return [env.reset(options={"goal": None})[1]["pose"].tolist() for _ in range(30)]

    poses = np.array(starts())
    assert np.array_equal(poses, starts())
    assert env.sampler.free.contains(poses[:, :2]).all()
    assert (poses[:, 0] > 384).any()
    assert (poses[:, 0] < 320).any()
    assert np.ptp(poses[:, 2]) > 180


def test_random_spawn_keeps_to_the_mazes_spots_and_fixed_spawn_to_its_start(arena: Maze) -> None:
    spots = ((128.0, 128.0), (512.0, 128.0))
    made = DoomMaze(replace(arena, spots=spots), spawn="random")
    poses = [made.reset(seed=seed, options={"goal": None})[1]["pose"] for seed in range(8)]
    made.sampler.spawn = "fixed"
    fixed = made.reset(seed=0)[1]["pose"]
    made.close()
    assert {(pose[0], pose[1]) for pose in poses} == set(spots)
    assert len({round(pose[2]) for pose in poses}) > 4
    assert np.allclose(fixed, (96, 224, 0))


def test_goals_are_drawn_when_none_is_named(env: DoomMaze) -> None:
    first = env.reset(seed=5)[0]["desired_goal"]
    assert first.any()
    assert np.array_equal(env.reset(seed=5)[0]["desired_goal"], first)
    assert not np.array_equal(env.reset()[0]["desired_goal"], first)


def test_tasks_of_the_level_any_can_be_posed(env: DoomMaze) -> None:
    tasks = draw_tasks(env, "any", 3, np.random.Generator(np.random.PCG64(0)))
    for task in tasks:
        _, info = env.reset(options=task.options())
        assert task.start is not None
        assert np.allclose(info["pose"], task.start, atol=0.01)
    assert len({task.goal for task in tasks}) == 3


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"start": (350, 100, 5)},
            r"start \(350, 100, 5\) is inside a wall or out of reach in maze 'arena'; free is e\.g\.",
        ),
        ({"start": (70, 100, 0)}, r"start \(70, 100, 0\) is inside a wall"),
        ({"goal": (352, 100, 0)}, r"goal \(352, 100, 0\) is inside a wall"),
        ({"goal": (5000, 100, 0)}, r"goal \(5000, 100, 0\) is inside a wall or out of reach"),
        ({"start": "here"}, r"start must be a pose \(x, y, degrees\), got 'here'"),
        ({"goal": (1, 2)}, r"goal must be a pose"),
        ({"start": (100, float("nan"), 0)}, r"start must hold finite numbers"),
        ({"gaol": (100, 100, 0)}, r"Unknown reset options \['gaol'\].*known are 'start' and 'goal'"),
        ({"goal": np.zeros((120, 160, 3))}, r"uint8 array of shape \(120, 160, 3\).*got float64"),
        ({"goal": np.zeros((60, 80, 3), np.uint8)}, r"got uint8 of shape \(60, 80, 3\)"),
    ],
)
def test_bad_options_are_refused_in_one_line_and_the_episode_goes_on(
    env: DoomMaze, options: dict[str, Any], text: str
) -> None:
    before = env.reset(options={"start": MIDDLE, "goal": None})[0]["observation"][-1]
    with pytest.raises(UsageError, match=text) as caught:
        env.reset(options=options)
    assert "\n" not in str(caught.value)
    assert np.array_equal(env.step(NOTHING)[0]["observation"][-2], before)


def test_goals_may_be_closer_to_a_wall_than_a_player_can_come(env: DoomMaze) -> None:
    assert env.reset(options={"start": MIDDLE, "goal": (70, 100, 0)})[0]["desired_goal"].any()


@pytest.mark.parametrize("action", [7, -1, 0.5, "left"])
def test_unknown_actions_are_refused(env: DoomMaze, action: Any) -> None:
    env.reset(options={"start": MIDDLE, "goal": None})
    with pytest.raises(UsageError, match=r"is none of 0 move left, .*, 6 nothing"):
        env.step(action)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"max_steps": 0}, "max_steps must be at least 1, got 0"),
        ({"stack": 0}, "stack must be at least 1, got 0"),
        ({"spawn": "anywhere"}, "spawn must be 'fixed' or 'random', got 'anywhere'"),
    ],
)
def test_bad_arguments_are_refused(arena: Maze, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        DoomMaze(arena, **arguments)
