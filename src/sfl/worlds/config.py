"""Which world, as a value: our grids (`MiniGridConfig`), any Gymnasium environment (`GymConfig`), mazes (`DoomConfig`).

Each says what it is (`kind`, `world_name`, `spec`, `observation_kind`), makes an environment (`make`) and opens the
world for a run (`open`, see `world.py`), so that nobody else has to tell the three apart.
"""

from __future__ import annotations

import json
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeGuard, cast, get_args

import gymnasium as gym
import numpy as np
from minigrid.minigrid_env import MiniGridEnv

from sfl.api import EnvSpec
from sfl.config import check_types, later, require
from sfl.errors import UsageError, unknown_name
from sfl.user_modules import fault, import_named, import_user_module, is_ours
from sfl.worlds.grids import ACTIONS as GRID_ACTIONS
from sfl.worlds.grids import LAYOUTS, Spawn
from sfl.worlds.gym import GoalWrapper, WholeGrid, env_spec, kind_of_goal_env
from sfl.worlds.observations import ObservationKind, describe_observation

if TYPE_CHECKING:
    from sfl.worlds.doom.world import MazeWorld
    from sfl.worlds.mazes.layout import Maze
    from sfl.worlds.mazes.textures import Textures
    from sfl.worlds.world import EnvironmentWorld, GymWorld, Tell

DOOM_ID = "sfl/DoomMaze-v0"
SPAWNS = ("fixed", "random")
"""What `DoomConfig.pairs` may say instead of a file."""
_OURS = [layout.env_id for layout in LAYOUTS.values()]
_PYTHON_WORDS = {"True": True, "False": False, "None": None}


class _EnvironmentConfig:
    """What worlds of one process have in common: they are asked by making one."""

    @property
    def one_map(self) -> bool:
        """Poses of different episodes lie on one map."""
        return True

    @property
    def action_names(self) -> tuple[str, ...]:
        """By number; () where actions have numbers only."""
        return ()

    def make(self, goal_terminates: bool = True) -> gym.Env[Any, Any]:
        """The environment; with `goal_terminates=False` reaching the goal does not end an episode."""
        raise NotImplementedError

    def spec(self, env_count: int = 1) -> EnvSpec:
        """What a method may know of it."""
        env = self.make()
        spec = env_spec(env, env_count)
        env.close()
        return spec

    def observation_kind(self) -> ObservationKind:
        """What its observations are taken for."""
        env = self.make()
        kind = kind_of_goal_env(env)
        env.close()
        return kind

    def files(self) -> dict[str, Path]:
        """It reads no files of the user's."""
        return {}

    def modules(self) -> list[str]:
        """Modules of the user's that its settings name as `module:name`."""
        return []


@dataclass(frozen=True)
class MiniGridConfig(_EnvironmentConfig):
    """One of the paper's grid worlds."""

    kind: ClassVar[Literal["grid"]] = "grid"
    id: str = "sfl/FourRoom-v0"
    """`sfl/FourRoom-v0` or `sfl/MultiRoom-N2-v0` (N3, N4, N6, N8)."""
    spawn: Spawn = "fixed"
    """Where an episode starts that is given no start: at the paper's start, or anywhere (random)."""
    max_steps: int | None = None
    """Time limit of an episode; None: the paper's."""

    def __post_init__(self) -> None:
        check_types(self)
        if self.id not in _OURS:
            raise unknown_name("grid world", self.id, _OURS, f"There are {', '.join(_OURS)}.")
        _check_limit(self.max_steps)

    @property
    def action_names(self) -> tuple[str, ...]:
        """By number."""
        return GRID_ACTIONS

    def make(self, goal_terminates: bool = True) -> gym.Env[Any, Any]:
        """The environment; with `goal_terminates=False` reaching the goal does not end an episode."""
        chosen: dict[str, Any] = {"spawn": self.spawn, "max_steps": self.max_steps, "goal_terminates": goal_terminates}
        return gym.make(self.id, disable_env_checker=True, **chosen)

    def open(self, run: Path | None = None, tell: Tell | None = None) -> EnvironmentWorld:
        """The world; its tasks follow from the seed of a run."""
        from sfl.worlds.world import EnvironmentWorld

        return EnvironmentWorld(self)

    def world_name(self) -> str:
        """What a checkpoint was made in."""
        return self.id

    def moved(self, folder: Path) -> MiniGridConfig:
        """It reads no files."""
        return self

    def to_show(self, budget: int) -> MiniGridConfig:
        """The same with time for an episode of so many steps."""
        return replace(self, max_steps=budget)


@dataclass(frozen=True)
class GymConfig(_EnvironmentConfig):
    """Any Gymnasium environment with discrete actions and array observations."""

    kind: ClassVar[Literal["other"]] = "other"
    id: str = "MiniGrid-FourRooms-v0"
    """The id it is registered under; `module:Name-v0` imports `module` first, also one in this folder."""
    goal_test: str = "equal"
    """When a goal is reached: `equal`, when the observation equals it; `distance`, when it lies within `radius` of it;
    or `my_module:my_function`, when that function of (achieved, desired, info) says so."""
    radius: float = 0.0
    """The greatest Euclidean distance between an observation and a goal it reaches (goal test `distance`)."""
    goals: str | None = later(None)
    """`my_module:my_function` that gives the goals to be asked for: (environment, generator, count) -> observations, or
    these and their distances from the start; None: the states that a collector finds."""
    observation_key: str | None = None
    """Which entry of Dict observations to learn from; None: the only array, `image` or `observation`."""
    reset_seed: int | None = 0
    """Every episode resets with this seed, so that the world stays the same; None: worlds vary."""
    max_steps: int | None = None
    """Time limit of an episode; None: the environment's own, else 200."""
    full_observation: bool = True
    """MiniGrid ids: observe the whole grid instead of the view ahead of the agent."""
    kwargs: tuple[str, ...] = ()
    """Arguments of the environment as `name=value`, for example `is_slippery=false`."""

    def __post_init__(self) -> None:
        check_types(self)
        require(
            self.id not in (*_OURS, DOOM_ID),
            f"{self.id} has goals of its own: use an experiment made for it, or "
            f"{'DoomConfig' if self.id == DOOM_ID else 'MiniGridConfig'}.",
        )
        if not self.module and self.id not in gym.registry:
            raise unknown_name("environment", self.id, gym.registry, "An id `module:Name-v0` imports `module` first.")
        require(
            self.goal_test in ("equal", "distance") or _names_function(self.goal_test),
            f"goal_test must be 'equal', 'distance' or 'my_module:my_function', got {self.goal_test!r}.",
        )
        require(
            self.goals is None or _names_function(self.goals),
            f"goals must be 'my_module:my_function', got {self.goals!r}.",
        )
        require(
            self.radius > 0 if self.goal_test == "distance" else self.radius == 0,
            f"radius must be above 0 with goal_test 'distance', else 0; got {self.radius} with {self.goal_test!r}.",
        )
        _check_limit(self.max_steps)
        for argument in self.kwargs:
            _argument(argument)

    @property
    def module(self) -> str:
        """The module that is to be imported first; empty: none."""
        return self.id.rpartition(":")[0]

    @property
    def one_map(self) -> bool:
        """Poses of different episodes lie on one map: where worlds vary they do not."""
        return self.reset_seed is not None

    def make(self, goal_terminates: bool = True) -> gym.Env[Any, Any]:
        """The environment; with `goal_terminates=False` reaching the goal does not end an episode."""
        return GoalWrapper(
            self._inner_env(),
            goal_test=_function("goal_test", self.goal_test) if ":" in self.goal_test else cast(Any, self.goal_test),
            radius=self.radius,
            goals=None if self.goals is None else _function("goals", self.goals),
            observation_key=self.observation_key,
            reset_seed=self.reset_seed,
            max_steps=self.max_steps,
            goal_terminates=goal_terminates,
        )

    def _inner_env(self) -> gym.Env[Any, Any]:
        """The environment itself, with the configured time limit in place of its own."""
        arguments = dict(map(_argument, self.kwargs))
        if module := self.module:
            import_user_module(module, f"env.id {self.id}")
        try:
            env = gym.make(self.id, self.max_steps, disable_env_checker=True, **arguments)
        except (gym.error.Error, ImportError, TypeError) as error:  # unknown ids, missing packages, wrong kwargs
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise UsageError(f"Cannot make {self.id} with {arguments}: {reason}") from error
        except Exception as error:  # an environment of the user's may raise anything
            if is_ours(error):
                raise
            raise UsageError(f"Cannot make {self.id} with {arguments}: {fault(error)}") from error
        if isinstance(env.unwrapped, MiniGridEnv):
            if self.max_steps is not None:
                env.unwrapped.max_steps = self.max_steps  # MiniGrid counts for itself beside Gymnasium's time limit
            if self.full_observation:
                return WholeGrid(env)
        return env

    def open(self, run: Path | None = None, tell: Tell | None = None) -> GymWorld:
        """The world, with the exam that a run saved in its folder; else `tell` hears how collecting one goes."""
        from sfl.worlds.world import GymWorld

        return GymWorld(self, run, tell)

    def world_name(self) -> str:
        """What a checkpoint was made in."""
        return self.id

    def moved(self, folder: Path) -> GymConfig:
        """It reads no files."""
        return self

    def modules(self) -> list[str]:
        """Those of the environment, of its goal test and of its sampler of goals."""
        named = (self.id, self.goal_test, self.goals or "")
        return list(dict.fromkeys(module for text in named if (module := text.rpartition(":")[0])))

    def to_show(self, budget: int) -> GymConfig:
        """The same with time for an episode of so many steps, and drawing itself where it can.

        An environment draws itself only when it is told so as it is made; some take no such word.
        """
        shown = replace(self, max_steps=budget)
        if any(word.startswith("render_mode=") for word in self.kwargs):
            return shown
        drawing = replace(shown, kwargs=(*self.kwargs, "render_mode=rgb_array"))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                drawing.make().close()
        except UsageError:
            return shown
        return drawing


@dataclass(frozen=True)
class DoomConfig:
    """A maze of ViZDoom, seen through the player's eyes."""

    kind: ClassVar[Literal["maze"]] = "maze"
    maze: str = "small"
    """A maze by name (`sfl maze` says which), a .txt layout, or a .wad file (`FILE.wad:MAP02` names its map)."""
    maze_dir: str | None = None
    """The folder with the paper's mazes; None: the one that the variable SFL_MAZES names."""
    spawn: Spawn = "random"
    """Where training episodes start: at the maze's start (fixed), or at one of its spots or anywhere free (random)."""
    pairs: str | None = None
    """A JSON file of start-goal pairs to evaluate on, or `fixed` or `random` for those of that spawn, wherever training
    starts; None: those of its own spawn. These are the authors' where the maze has them, else drawn ones."""
    max_steps: int = 2_500
    """Time limit of a training episode; evaluation has the budget of each level."""
    texture_kind: Literal["train", "test"] | None = None
    """The set that wall textures are drawn from; None: test, and a WAD keeps its own."""
    texture_density: Literal["dense", "sparse"] | None = None
    """Every wall its own texture, or one and now and then another; None: dense, and a WAD keeps its own."""
    texture_seed: int | None = None
    """Equal seeds give equal walls; None: the usual one, and a WAD keeps its own textures."""

    def __post_init__(self) -> None:
        check_types(self)
        require(bool(self.maze), "maze must name a maze or a file, got an empty word.")
        _check_limit(self.max_steps)
        asked_textures(self.texture_kind, self.texture_density, self.texture_seed)

    @property
    def id(self) -> str:
        """The id it is registered under."""
        return DOOM_ID

    def files(self) -> dict[str, Path]:
        """What it reads outside of the package, by where a copy of each lies in the folder that `moved` is given."""
        from sfl.worlds.mazes.load import files_of

        folder = None if self.maze_dir is None else Path(self.maze_dir)
        asked = asked_textures(self.texture_kind, self.texture_density, self.texture_seed)
        of_maze = files_of(self.maze, folder, *(() if asked is None else (asked.kind,)))
        files = {name if name.startswith("maze-dir/") else f"maze/{name}": file for name, file in of_maze.items()}
        if self.pairs not in (None, *SPAWNS):
            pairs = Path(str(self.pairs))
            files[f"pairs/{pairs.name}"] = pairs
        return files

    def moved(self, folder: Path) -> DoomConfig:
        """The same with the copies in a folder, each where `files` says, in place of the files themselves."""
        from sfl.worlds.mazes.load import maze_file

        file, map_name = maze_file(self.maze)
        own, pairs = folder / "maze" / file.name, folder / "pairs" / Path(self.pairs or "").name
        there = (folder / "maze-dir").is_dir() or own.is_file()
        return replace(
            self,
            maze=f"{own}{map_name}" if own.is_file() else self.maze,
            pairs=str(pairs) if pairs.is_file() else self.pairs,
            # Also where nothing is in it: a list of textures that happens to lie elsewhere had no say in this maze.
            maze_dir=str(folder / "maze-dir") if there else self.maze_dir,
        )

    def modules(self) -> list[str]:
        """Its settings name none."""
        return []

    @property
    def one_map(self) -> bool:
        """All episodes are in one maze."""
        return True

    @property
    def action_names(self) -> tuple[str, ...]:
        """By number."""
        from sfl.worlds.doom.protocol import ACTIONS

        return ACTIONS

    def spec(self, env_count: int = 1) -> EnvSpec:
        """What a method may know of it; no game is started to ask it."""
        from sfl.worlds.doom.protocol import FRAME_SHAPE

        return EnvSpec(FRAME_SHAPE, "uint8", len(self.action_names), env_count)

    def observation_kind(self) -> ObservationKind:
        """What its observations are taken for: RGB pictures."""
        from sfl.worlds.doom.protocol import FRAME_SHAPE

        return describe_observation(gym.spaces.Box(0, 255, FRAME_SHAPE, np.uint8))

    def make(self, goal_terminates: bool = True) -> gym.Env[Any, Any]:
        """One game that shows the newest frame alone, as runs do: stacking is the agent's business."""
        chosen: dict[str, Any] = {"maze": self.load(), "spawn": self.spawn, "max_steps": self.max_steps}
        chosen |= {"goal_terminates": goal_terminates, "render_mode": "rgb_array", "stack": 1}
        env = gym.make(self.id, disable_env_checker=True, **chosen)
        stacks: Any = env.observation_space
        frame = gym.spaces.Box(0, 255, stacks["observation"].shape[1:], stacks["observation"].dtype)
        space = gym.spaces.Dict({name: frame for name in stacks})
        return gym.wrappers.TransformObservation(env, lambda seen: {name: seen[name][-1] for name in seen}, space)

    def open(self, run: Path | None = None, tell: Tell | None = None) -> MazeWorld:
        """The maze, with the start-goal pairs that a run saved in its folder; refused where it cannot be read."""
        from sfl.worlds.doom.world import PAIRS_FILE, MazeWorld

        return MazeWorld(self, None if run is None else run / PAIRS_FILE)

    def world_name(self) -> str:
        """What a checkpoint was made in: the id, the maze's name and a fingerprint of its WAD."""
        maze = self.load()
        return f"{self.id} in maze {maze.name} ({zlib.crc32(maze.wad):08x})"

    def to_show(self, budget: int) -> DoomConfig:
        """The same with time for an episode of so many steps."""
        return replace(self, max_steps=budget)

    def load(self) -> Maze:
        """The maze itself, read or built anew."""
        from sfl.worlds.mazes.load import load_maze
        from sfl.worlds.mazes.textures import PAPER_TEXTURES

        textures = asked_textures(self.texture_kind, self.texture_density, self.texture_seed)
        folder = None if self.maze_dir is None else Path(self.maze_dir)
        return load_maze(self.maze, folder, textures or PAPER_TEXTURES)


EnvConfig = MiniGridConfig | GymConfig | DoomConfig


def asked_textures(kind: str | None, density: str | None, seed: int | None) -> Textures | None:
    """The textures that were asked for; None: nothing was."""
    from sfl.worlds.mazes.textures import Textures

    asked = {"kind": kind, "density": density, "seed": seed}
    given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    return Textures(**given) if given else None


def is_config(value: Any) -> TypeGuard[EnvConfig]:
    """Whether a value is the configuration of a world."""
    return isinstance(value, get_args(EnvConfig))


def config_of(env_id: str) -> EnvConfig:
    """The configuration of an environment with all else left as it is."""
    if env_id == DOOM_ID:
        return DoomConfig()
    return MiniGridConfig(env_id) if env_id.startswith("sfl/") else GymConfig(env_id)


def make_env(config: EnvConfig, goal_terminates: bool = True) -> gym.Env[Any, Any]:
    """The environment of a configuration; with `goal_terminates=False` reaching the goal does not end an episode."""
    if not is_config(config):
        given = f"make_env(GymConfig({config!r}))" if isinstance(config, str) else "an object of GymConfig"
        raise UsageError(f"make_env takes the configuration of an environment, got {config!r:.60}; try {given}.")
    return config.make(goal_terminates)


def _argument(text: str) -> tuple[str, Any]:
    """`name=value` with the value as JSON (or True, False, None); anything else is a word."""
    name, equals, value = text.partition("=")
    require(bool(equals) and name.isidentifier(), f"kwargs must look like name=value, got {text!r}.")
    if value in _PYTHON_WORDS:
        return name, _PYTHON_WORDS[value]
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):  # no JSON, a number of thousands of digits, thousands of brackets: a word
        return name, value


def _names_function(text: str) -> bool:
    module, colon, name = text.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), name))


def _function(setting: str, text: str) -> Callable[..., Any]:
    """The function that `my_module:my_function` names."""
    found = import_named(text, f"--env.{setting.replace('_', '-')}")
    if not callable(found):
        raise UsageError(f"{setting} {text!r} names no function but {found!r}.")
    return cast(Callable[..., Any], found)


def _check_limit(max_steps: int | None) -> None:
    require(max_steps is None or max_steps >= 1, f"max_steps must be at least 1, got {max_steps}.")
