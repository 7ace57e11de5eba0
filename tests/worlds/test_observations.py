"""The table of what observations are taken for: every case, what looks at it, and what is refused."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import minigrid.wrappers as minigrid
import numpy as np
import pytest
from gymnasium import spaces
from minigrid.core.mission import MissionSpace

from sfl.api import Array, EncoderKind
from sfl.errors import UsageError
from sfl.nn.encoders import GridEncoder, PictureEncoder, VectorEncoder, make_encoder
from sfl.worlds import GoalWrapper, GymConfig, MiniGridConfig, make_env
from sfl.worlds.gym import kind_of_goal_env
from sfl.worlds.observations import describe_observation


def box(low: float, high: float, *shape: int, dtype: Any = np.float32) -> spaces.Box:
    return spaces.Box(low, high, shape, dtype)


def pixels(*shape: int) -> spaces.Box:
    return box(0, 255, *shape, dtype=np.uint8)


def symbols(*shape: int) -> spaces.Box:
    return box(0, 10, *shape, dtype=np.uint8)


def numbers(*shape: int) -> spaces.Box:
    return box(-np.inf, np.inf, *shape)


POINT = numbers(2)
MISSION = MissionSpace(mission_func=lambda: "go")

FOUR = "picture of 4 channels (RGB with a mask, or 4 grey)"

SURE: list[tuple[spaces.Space[Any], str, EncoderKind, tuple[int, ...]]] = [
    (numbers(4), "4 numbers", "vector", (4,)),
    (numbers(1), "1 number", "vector", (1,)),
    (numbers(), "a number", "vector", (1,)),
    (box(0, 9, 3, dtype=np.int64), "3 numbers", "vector", (3,)),
    (pixels(128), "128 numbers", "vector", (128,)),
    (spaces.Discrete(16), "a number out of 16, one-hot", "vector", (16,)),
    (spaces.MultiDiscrete([3, 2]), "2 choices, one-hot each", "vector", (5,)),
    (spaces.MultiBinary(6), "6 yes-or-no values as numbers", "vector", (6,)),
    (spaces.MultiBinary([2, 3]), "6 yes-or-no values as numbers", "vector", (6,)),
    (numbers(4, 6), "table of 4x6 numbers", "vector", (4, 6)),
    (symbols(8, 8), "table of 8x8 numbers", "vector", (8, 8)),
    (pixels(84, 84, 3), "RGB picture 84x84, channels last", "picture", (84, 84, 3)),
    (pixels(84, 96, 1), "grey picture 84x96, channels last", "picture", (84, 96, 1)),
    (pixels(84, 84, 4), f"{FOUR} 84x84, channels last", "picture", (84, 84, 4)),
    (pixels(84, 84, 12), "stack of 4 RGB pictures 84x84, channels last", "picture", (84, 84, 12)),
    (pixels(84, 84, 5), "stack of 5 grey pictures 84x84, channels last", "picture", (84, 84, 5)),
    (box(0, 255, 84, 84, 3), "RGB picture 84x84, channels last", "picture", (84, 84, 3)),
    (pixels(120, 160, 3), "RGB picture 120x160, channels last", "picture", (120, 160, 3)),
    (pixels(84, 96), "grey picture 84x96, given one channel", "picture", (84, 96, 1)),
    (pixels(3, 84, 96), "RGB picture 84x96, channels first, put last", "picture", (84, 96, 3)),
    (pixels(1, 84, 96), "grey picture 84x96, channels first, put last", "picture", (84, 96, 1)),
    (pixels(4, 84, 84), f"{FOUR} 84x84, channels first, put last", "picture", (84, 84, 4)),
    (pixels(12, 84, 96), "stack of 4 RGB pictures 84x96, channels first, put last", "picture", (84, 96, 12)),
    (
        pixels(4, 84, 96, 3),
        "stack of 4, each a RGB picture 84x96, channels last, side by side as channels",
        "picture",
        (84, 96, 12),
    ),
    (
        pixels(4, 3, 84, 96),
        "stack of 4, each a RGB picture 84x96, channels first, side by side as channels",
        "picture",
        (84, 96, 12),
    ),
    (symbols(9, 11, 3), "grid of 9x11 cells with 3 symbols each", "grid", (9, 11, 3)),
    (symbols(9, 9, 17), "grid of 9x9 cells with 17 symbols each", "grid", (9, 9, 17)),
    (box(0, 1, 17, 9, 9), "grid of 9x9 cells with 17 numbers each, channels first, put last", "grid", (9, 9, 17)),
    (box(0, 1, 32, 32, 4), "grid of 32x32 cells with 4 numbers each", "grid", (32, 32, 4)),
    (box(-2, 2, 9, 9, 3), "grid of 9x9 cells with 3 numbers each", "grid", (9, 9, 3)),
    (box(0, 1, 32, 32, 3, dtype=np.int8), "grid of 32x32 cells with 3 symbols each", "grid", (32, 32, 3)),
    (symbols(5, 5, 3), "grid of 5x5 cells with 3 symbols each", "vector", (5, 5, 3)),
    (
        symbols(4, 9, 9, 3),
        "stack of 4, each a grid of 9x9 cells with 3 symbols each, side by side as channels",
        "grid",
        (9, 9, 12),
    ),
    (spaces.Dict({"state": numbers(4)}), "4 numbers", "vector", (4,)),
    (spaces.Dict({"a": spaces.Dict({"b": numbers(4)})}), "4 numbers", "vector", (4,)),
]


@pytest.mark.parametrize(("space", "words", "encoder", "shape"), SURE, ids=[row[1] + str(row[3]) for row in SURE])
def test_what_is_sure(space: spaces.Space[Any], words: str, encoder: EncoderKind, shape: tuple[int, ...]) -> None:
    kind = describe_observation(space)
    assert (kind.words, kind.encoder, kind.space.shape, kind.unsure) == (words, encoder, shape, "")
    looks = {"grid": GridEncoder, "picture": PictureEncoder, "vector": VectorEncoder}
    assert type(make_encoder(shape, 8, 1.0)) is looks[encoder]
    space.seed(0)
    seen = kind.read(space.sample())
    assert seen.dtype == kind.space.dtype
    assert kind.space.contains(seen)


UNSURE = [
    (pixels(32, 32, 3), "a small picture or a grid of symbols; enlarge .* than 40 a side .*, or give symbols a space"),
    (pixels(3, 32, 32), "a small picture or a grid of symbols"),
    (pixels(9, 9, 3), "a small picture or a grid of symbols"),
    (pixels(30, 84, 3), "a small picture or a grid of symbols"),
    (pixels(3, 3, 3), "which axis has the channels; put them last"),
    (pixels(3, 84, 3), "which axis has the channels"),
    (pixels(84, 84, 84), "which axis has the channels"),
    (symbols(8, 8, 8), "which axis has the channels"),
    (symbols(10, 7, 9), "which axis has the channels"),
    (pixels(28, 28), "a small grey picture or symbols; enlarge"),
    (box(0, 1, 84, 84), "a grey picture with pixels from 0 to 1; give pictures as bytes from 0 to 255"),
    (box(0, 1, 84, 84, 3), "a picture with pixels from 0 to 1; give pictures as bytes"),
    (box(-1, 1, 84, 84), "a grey picture with pixels from -1 to 1; give pictures as bytes"),
    (box(-1, 1, 3, 84, 84), "a picture with pixels from -1 to 1; give pictures as bytes"),
    (box(0, 1, 32, 32, 3), "a small picture with pixels from 0 to 1 or a grid .*, as bytes, or give symbols as whole"),
    (box(-1, 1, 1, 28, 28), "a small picture with pixels from -1 to 1 or a grid of symbols"),
    (symbols(20, 20, 3, 4), "which axis is the stack; put it first"),
    (numbers(84, 84, 3), "its bounds, -inf to inf, say neither pixels nor symbols; give pictures as bytes"),
    (box(0, 1000, 9, 9, 3, dtype=np.int64), "its bounds, 0 to 1000, say neither pixels nor symbols"),
    (symbols(50, 50, 3), "up to 40 cells a side; show a part of it with a wrapper"),
    (pixels(4, 32, 32, 3), "a small picture or a grid of symbols"),
    (pixels(2, 4, 84, 84, 3), "what 5 axes are"),
]


@pytest.mark.parametrize(("space", "why"), UNSURE, ids=[str(row[0]) for row in UNSURE])
def test_what_is_unsure_has_no_encoder_and_is_read_as_it_is(space: spaces.Box, why: str) -> None:
    kind = describe_observation(space)
    assert kind.encoder is None
    with pytest.raises(UsageError, match=why):
        raise UsageError(kind.doubt)
    assert "\n" not in kind.doubt
    assert kind.space == space
    space.seed(0)
    sample = space.sample()
    assert np.array_equal(kind.read(sample), sample)


REFUSED = [
    (spaces.Tuple([numbers(2), numbers(2)]), "or a Dict that holds one, got Tuple; turn them into one with a wrapper"),
    (spaces.Text(5), "got Text"),
    (spaces.Sequence(spaces.Discrete(3)), "got Sequence"),
    (spaces.Graph(numbers(2), numbers(2)), "got Graph"),
    (numbers(0), r"of shape \(0,\) hold nothing"),
    (
        spaces.Dict({"image": pixels(84, 84, 3), "speed": numbers(3)}),
        r"several entries, image \(RGB picture 84x84, channels last\), speed \(3 numbers\): sfl learns from one array; "
        "name it by observation_key",
    ),
    (spaces.Dict({"image": pixels(84, 84, 3), "direction": spaces.Discrete(4)}), r"direction \(Discrete\(4\)\), image"),
    (spaces.Dict({"observation": numbers(3), "mask": spaces.MultiBinary(3)}), "several entries"),
    (spaces.Dict({"a": spaces.Text(3), "b": spaces.Tuple([POINT])}), r"no entry that is an array, a \(Text.*Tuple\)"),
    (spaces.Dict({}), "no entry that is an array"),
]


@pytest.mark.parametrize(("space", "why"), REFUSED, ids=[str(row[1]) for row in REFUSED])
def test_what_cannot_be_one_array_is_refused(space: spaces.Space[Any], why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        describe_observation(space)
    assert "\n" not in str(caught.value)


def test_entries_of_a_dict() -> None:
    space = spaces.Dict({"image": pixels(84, 84, 3), "speed": numbers(3), "say": spaces.Text(4)})
    assert describe_observation(space, "speed").words == "3 numbers"
    assert describe_observation(space, "image").space.shape == (84, 84, 3)
    with pytest.raises(UsageError, match=r"No observation_key 'x'; the observations have \['image', 'say', 'speed'\]"):
        describe_observation(space, "x")
    left = describe_observation(spaces.Dict({"speed": numbers(3), "say": spaces.Text(4)}))
    assert left.words == "3 numbers; left out: say"
    assert left.read({"speed": [1, 2, 3], "say": "hi"}).tolist() == [1, 2, 3]
    grid = spaces.Dict({"image": pixels(9, 9, 3), "direction": spaces.Discrete(4), "mission": MISSION})
    assert describe_observation(grid, symbols=True).words == (
        "grid of 9x9 cells with 3 symbols each (MiniGrid); left out: direction, mission"
    )


def test_layouts_are_turned_as_they_ought_to_be() -> None:
    picture = np.arange(3 * 50 * 60, dtype=np.uint8).reshape(3, 50, 60)
    first = describe_observation(pixels(3, 50, 60)).read(picture)
    assert np.array_equal(first, np.moveaxis(picture, 0, 2))
    assert first.flags["C_CONTIGUOUS"]
    frames = np.random.default_rng(0).integers(256, size=(4, 50, 60, 3)).astype(np.uint8)
    last, before = (
        describe_observation(pixels(*shape.shape)).read(shape) for shape in (frames, np.moveaxis(frames, 3, 1))
    )
    assert np.array_equal(last, before)
    assert all(np.array_equal(last[:, :, 3 * frame : 3 * frame + 3], frames[frame]) for frame in range(4))
    assert np.array_equal(describe_observation(pixels(50, 60)).read(picture[0])[:, :, 0], picture[0])
    assert describe_observation(spaces.MultiDiscrete([3, 2], start=[1, 0])).read([3, 1]).tolist() == [0, 0, 1, 0, 1]
    assert describe_observation(spaces.MultiBinary([2, 2])).read([[0, 1], [1, 0]]).tolist() == [0, 1, 1, 0]


def test_bounds_are_turned_with_the_observations() -> None:
    low, high = np.zeros((3, 50, 60), np.uint8), np.full((3, 50, 60), 255, np.uint8)
    low[2, 1, 0] = 7
    space = describe_observation(spaces.Box(low, high)).space
    assert space.low[1, 0, 2] == 7
    assert space.low.sum() == 7


@pytest.mark.parametrize(
    ("space", "given", "why"),
    [
        (numbers(2), np.zeros(3), r"an observation of shape \(3,\), its observation space says \(2,\)"),
        (numbers(2), [np.nan, 0], r"not finite \(nan\): nothing can be learned from it"),
        (numbers(2), [0, np.inf], r"not finite \(inf\)"),
        (numbers(2), "words", "no array of float32: words"),
        (spaces.Discrete(3), 3, "observation number 3 of 3"),
        (spaces.Discrete(3), "x", "no array of int64: x"),
        (spaces.Discrete(3), [1, 2], "promised a whole number and gave"),
        (spaces.Discrete(3), 1.7, "gave 1.7 in an array of float64, its observation space says int64"),
        (spaces.Discrete(3), float("inf"), "gave inf in an array of float64"),
        (spaces.MultiDiscrete([3, 2]), [0, 2], "observation number 2 of 2"),
        (spaces.MultiDiscrete([3, 3]), [1], "observation of 1 number, its observation space says 2"),
        (spaces.MultiDiscrete([3, 3]), None, "no array of int64: None"),
        (spaces.MultiDiscrete([3, 3]), [np.nan, 0], "gave nan in an array of float64"),
        (spaces.MultiBinary(3), [1, 0], "observation of 2 numbers, its observation space says 3"),
        (spaces.MultiBinary(3), [[1], [1, 0]], "no array of float32"),
        (pixels(2), np.array([0.5, 1.0]), "gave 0.5 in an array of float64, its observation space says uint8"),
        (pixels(2), [-1, 0], "gave -1 in an array of int64, its observation space says uint8"),
        (pixels(2), np.array([300, 0]), "gave 300 in an array of int64"),
        (numbers(2), np.array([1j, 0]), "no array of float32: .* \\(it holds complex128\\)"),
        (spaces.Dict({"a": numbers(2)}), {"b": 1}, "promises an entry 'a', and it gave"),
    ],
)
def test_what_breaks_the_promise_of_the_space_is_one_line(space: spaces.Space[Any], given: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        describe_observation(space).read(given)
    assert "\n" not in str(caught.value)


def room(*wrappers: Any) -> gym.Env[Any, Any]:
    env: gym.Env[Any, Any] = gym.make("MiniGrid-Empty-5x5-v0")
    for wrap in wrappers:
        env = wrap(env)
    return env


@pytest.mark.parametrize(
    ("env", "words", "encoder"),
    [
        (room(), "grid of 7x7 cells with 3 symbols each (MiniGrid); left out: direction, mission", "grid"),
        (room(minigrid.ImgObsWrapper), "grid of 7x7 cells with 3 symbols each (MiniGrid)", "grid"),
        (
            room(minigrid.FullyObsWrapper),
            "grid of 5x5 cells with 3 symbols each (MiniGrid); left out: direction, mission",
            "vector",
        ),
        (
            room(lambda env: minigrid.ViewSizeWrapper(env, 3)),
            "grid of 3x3 cells with 3 symbols each (MiniGrid); left out: direction, mission",
            "vector",
        ),
        (
            room(lambda env: minigrid.RGBImgObsWrapper(env, tile_size=16)),
            "RGB picture 80x80, channels last; left out: direction, mission",
            "picture",
        ),
        (
            room(lambda env: minigrid.RGBImgObsWrapper(env, tile_size=8)),
            "40x40x3 numbers; left out: direction, mission",
            None,
        ),
    ],
)
def test_minigrid_says_by_itself_whether_it_shows_symbols(
    env: gym.Env[Any, Any], words: str, encoder: EncoderKind | None
) -> None:
    kind = GoalWrapper(env).observation_kind
    assert (kind.words, kind.encoder) == (words, encoder)
    env.close()


def test_what_the_shipped_worlds_show_has_not_changed() -> None:
    """They are read as they were before there was a table: nothing is turned, no bound is another."""
    grid = kind_of_goal_env(make_env(MiniGridConfig("sfl/MultiRoom-N4-v0")))
    assert (grid.encoder, grid.turned, grid.space) == ("grid", "", pixels(25, 25, 3))
    rooms = kind_of_goal_env(make_env(GymConfig("MiniGrid-FourRooms-v0")))
    assert (rooms.encoder, rooms.turned, rooms.space) == ("grid", "", pixels(19, 19, 3))
    lake = kind_of_goal_env(make_env(GymConfig("FrozenLake-v1")))
    assert (lake.encoder, lake.space) == ("vector", box(0, 1, 16))


class Shows(gym.Env[Any, Any]):
    """Goals of its own, and an observation of any space."""

    action_space = spaces.Discrete(2)

    def __init__(self, space: spaces.Space[Any], actions: spaces.Space[Any] | None = None) -> None:
        self.observation_space = spaces.Dict({"observation": space, "achieved_goal": space, "desired_goal": space})
        self.action_space = actions or spaces.Discrete(2)  # type: ignore[assignment]


def test_environments_with_goals_of_their_own_are_taken_as_they_are_or_refused() -> None:
    assert kind_of_goal_env(Shows(pixels(84, 84, 3))).encoder == "picture"
    refused: dict[str, tuple[spaces.Space[Any], spaces.Space[Any] | None]] = {
        "shows RGB picture 84x84, channels first; give it as": (pixels(3, 84, 84), None),
        "must be an array .* got Discrete": (spaces.Discrete(3), None),
        "continuous actions": (numbers(2), box(-1, 1, 2)),
        "actions of Shows begin at 1": (numbers(2), spaces.Discrete(2, start=1)),
    }
    for why, (space, actions) in refused.items():
        with pytest.raises(UsageError, match=why):
            kind_of_goal_env(Shows(space, actions))


def test_a_wrapper_around_the_goals_is_looked_at_anew() -> None:
    inner = make_env(GymConfig("FrozenLake-v1"))

    def cut(seen: dict[str, Array]) -> dict[str, Array]:
        return {name: array[:8] for name, array in seen.items()}

    eight = spaces.Dict({name: box(0, 1, 8) for name in ("observation", "achieved_goal", "desired_goal")})
    assert kind_of_goal_env(gym.wrappers.TransformObservation(inner, cut, eight)).words == "8 numbers"
