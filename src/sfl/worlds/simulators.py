"""Environments that can be brought back to where they were, for the collector.

`Simulator` is the interface. Of its four kinds `simulator_of` takes the cheapest that shows the same again: MiniGrid's
state, a deep copy, the same actions repeated, or nothing but a reset.
"""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from minigrid.core.world_object import Door, Floor, Goal, Lava, Wall
from minigrid.minigrid_env import MiniGridEnv

from sfl.api import Observation
from sfl.errors import SflError
from sfl.worlds.gym import GoalWrapper, env_name

CHECKED_WALKS, CHECKED_STEPS = 5, 30
"""Random walks that must come out the same in two copies, and their length."""
CANNOT_COPY = (TypeError, ValueError, AttributeError, NotImplementedError, RuntimeError, copy.Error)
"""What deepcopy and an environment's own `__deepcopy__` say of locks, games, windows and foreign memory."""
_LEAST_BYTES = 20_000  # of a copy
_OF_MAKING = ("spec", "_cached_spec", "_saved_kwargs", "metadata", "_metadata")
_IMMOVABLE = (Wall, Floor, Goal, Lava)
_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)


class CannotCopyError(SflError):
    """An environment that does not let itself be copied."""


@dataclass(frozen=True, eq=False)
class View:
    """What an environment shows at one moment."""

    observation: Observation
    info: dict[str, Any]


class Simulator(Protocol):
    """An environment that a collector steps."""

    steps: int
    """Environment steps taken, also those to get back somewhere."""
    can_search: bool
    """Coming back costs no steps, so that every action can be tried everywhere."""
    shows_state: bool
    """`key` is of the state itself and not of what is seen of it."""
    bytes_saved: int
    """About how much memory a saved state takes."""

    def begin(self, seed: int) -> None:
        """Reset."""

    def step(self, action: int) -> bool:
        """One action; whether the episode is over."""

    def snapshot(self) -> Any:
        """How to come back here; `go_back` before the next step."""

    def go_back(self, state: Any) -> None:
        """Come back."""

    def reseed(self, rng: np.random.Generator) -> None:
        """Draw what happens by chance from here on anew."""

    def look(self) -> View:
        """What is seen now."""

    def key(self) -> Hashable:
        """Equal where the world is in the same state."""


class ResetSimulator:
    """No way back but to the start."""

    can_search = shows_state = False
    bytes_saved = 1_000

    def __init__(self, env: GoalWrapper) -> None:
        self.env = env
        self.steps = 0
        self._seed = 0

    def begin(self, seed: int) -> None:
        """Reset."""
        self._seed = seed
        self._see(*self.env.reset(seed=seed, options={"goal": None}))

    def step(self, action: int) -> bool:
        """One action."""
        observation, _, terminated, truncated, info = self.env.step(action)
        self.steps += 1
        self._see(observation, info)
        return terminated or truncated

    def snapshot(self) -> Any:
        """The start."""
        return None

    def go_back(self, state: Any) -> None:
        """Reset."""
        self.begin(self._seed)

    def reseed(self, rng: np.random.Generator) -> None:
        """Another generator of the environment's own."""
        self._draw_from(int(rng.integers(2**31)))

    def look(self) -> View:
        """As the environment gave it."""
        return self._view

    def key(self) -> Hashable:
        """The observation stands for the state."""
        return self._view.observation.tobytes()

    def _draw_from(self, seed: int) -> None:
        self.env.unwrapped.np_random = np.random.Generator(np.random.PCG64(seed))

    def _see(self, observation: dict[str, Observation], info: dict[str, Any]) -> None:
        self._view = View(observation["observation"], info)


class ReplaySimulator(ResetSimulator):
    """Back by the same actions again, in a world that then shows the same."""

    def begin(self, seed: int) -> None:
        """Reset."""
        super().begin(seed)
        self._done: tuple[int, ...] = ()  # actions, and as -1 - seed what chance was drawn from

    def step(self, action: int) -> bool:
        """One action."""
        self._done += (action,)
        return super().step(action)

    def reseed(self, rng: np.random.Generator) -> None:
        """Chance is repeated too: without it the same actions lead elsewhere."""
        self._draw_from(int(rng.integers(2**31)))

    def snapshot(self) -> Any:
        """What was done since the start."""
        return self._done

    def go_back(self, state: Any) -> None:
        """Do it again."""
        self.begin(self._seed)
        for done in state:
            if done < 0:
                self._draw_from(-1 - done)
            else:
                self.step(done)

    def _draw_from(self, seed: int) -> None:
        self._done += (-1 - seed,)
        super()._draw_from(seed)


class CopySimulator(ResetSimulator):
    """Back by a deep copy, which must not be stepped itself."""

    can_search = True

    def __init__(self, env: GoalWrapper) -> None:
        super().__init__(env)
        self._original = env
        self.bytes_saved = _LEAST_BYTES
        self.shows_state = isinstance(env.unwrapped, MiniGridEnv)

    def begin(self, seed: int) -> None:
        """Reset a copy: saved states stay as they are."""
        made: dict[int, Any] = {}
        self.env = _copied(self._original, _never_changing(self._original), made)
        self.bytes_saved = max(self.bytes_saved, sum(sys.getsizeof(thing) for thing in made.values()))
        super().begin(seed)
        self._shared = _never_changing(self.env)
        self._generators = _generators_in(made)

    def _draw_from(self, seed: int) -> None:
        """Every generator that the environment holds: many draw from one of their own."""
        super()._draw_from(seed)
        for number, generator in enumerate(self._generators):
            _draw_anew(generator, int(np.random.SeedSequence((seed, number)).generate_state(1)[0]))

    def snapshot(self) -> Any:
        """The environment itself."""
        return self.env, self._view

    def go_back(self, state: Any) -> None:
        """A copy goes on."""
        env, self._view = state
        made: dict[int, Any] = {}
        self.env = _copied(env, self._shared, made)
        self._generators = _generators_in(made)

    def key(self) -> Hashable:
        """Of MiniGrid also what is carried, which no picture of the grid shows."""
        core: Any = self.env.unwrapped
        if not isinstance(core, MiniGridEnv):
            return super().key()
        carried = None if core.carrying is None else core.carrying.encode()
        return tuple(core.agent_pos), int(core.agent_dir), carried, core.grid.encode().tobytes()


class MiniGridSimulator(ResetSimulator):
    """Worlds of the minigrid package: a state is a list of what lies where, and a picture is only made where wanted."""

    can_search = shows_state = True

    def __init__(self, env: GoalWrapper) -> None:
        super().__init__(env)
        self._core: Any = env.unwrapped

    def begin(self, seed: int) -> None:
        """Reset."""
        super().begin(seed)
        things = [thing for thing in (*self._core.grid.grid, self._core.carrying) if thing is not None]
        things += [thing.contains for thing in things if thing.contains is not None]
        self._movable = list({id(thing): thing for thing in things if not isinstance(thing, _IMMOVABLE)}.values())
        self._doors = [thing for thing in self._movable if isinstance(thing, Door)]

    def step(self, action: int) -> bool:
        """One action, without the picture that MiniGrid makes after each."""
        self._core.gen_obs = dict
        try:
            _, _, terminated, truncated, self._info = self._core.step(action + self._first)
        finally:
            del self._core.gen_obs
        self.steps += 1
        return bool(terminated or truncated)

    def snapshot(self) -> Any:
        """Where the agent and all things are."""
        core = self._core
        doors = tuple((door.is_open, door.is_locked) for door in self._doors)
        places = tuple(thing.cur_pos for thing in self._movable)
        things = self._movable, self._doors, places, doors
        return core.agent_pos, core.agent_dir, core.carrying, core.step_count, tuple(core.grid.grid), things

    def go_back(self, state: Any) -> None:
        """Put them there."""
        core = self._core
        core.agent_pos, core.agent_dir, core.carrying, core.step_count, cells, things = state
        core.grid.grid = list(cells)
        self._movable, self._doors, places, doors = things
        for door, (is_open, is_locked) in zip(self._doors, doors, strict=True):
            door.is_open, door.is_locked = is_open, is_locked
        for thing, place in zip(self._movable, places, strict=True):
            thing.cur_pos = place

    def look(self) -> View:
        """The picture, through the wrappers around the world."""
        raw = self._core.gen_obs()
        for wrapper in reversed(_wrappers(self.env)):
            if isinstance(wrapper, gym.ObservationWrapper):
                raw = wrapper.observation(raw)
        return View(self.env.read(raw), self._info)

    def key(self) -> Hashable:
        """Things are told apart by which they are."""
        core = self._core
        doors = tuple((door.is_open, door.is_locked) for door in self._doors)
        return tuple(core.agent_pos), int(core.agent_dir), core.carrying, tuple(core.grid.grid), doors

    def _see(self, observation: dict[str, Observation], info: dict[str, Any]) -> None:
        self._info = info

    @property
    def _first(self) -> int:
        return int(self._core.action_space.start)


def _wrappers(env: GoalWrapper) -> list[gym.Wrapper[Any, Any, Any, Any]]:
    """Those inside a `GoalWrapper`, from the outside."""
    found, inner = [], env.env
    while isinstance(inner, gym.Wrapper):
        found.append(inner)
        inner = inner.env
    return found


def is_plain(env: GoalWrapper, *allowed: type[Any]) -> bool:
    """Nothing stands between a `GoalWrapper` and the world but what `gym.make` adds, and wrappers that are allowed."""
    added = (gym.wrappers.OrderEnforcing, gym.wrappers.PassiveEnvChecker, gym.wrappers.TimeLimit)
    return all(isinstance(wrapper, (*added, *allowed)) for wrapper in _wrappers(env))


def _of_minigrid(env: GoalWrapper) -> bool:
    """Worlds whose `step` changes the agent, doors and where things are, and nothing else. BabyAI remembers more."""
    module = type(env.unwrapped).__module__
    known = module.startswith("minigrid.envs.") and not module.startswith("minigrid.envs.babyai")
    return isinstance(env.unwrapped, MiniGridEnv) and known and is_plain(env, gym.ObservationWrapper)


def _never_changing(env: GoalWrapper) -> list[Any]:
    """What copies may share: spaces, how the environment was made, and in MiniGrid the walls."""
    core: Any = env.unwrapped
    layers = [env, *_wrappers(env), core]
    shared = [layer.observation_space for layer in layers] + [layer.action_space for layer in layers]
    shared += [value for layer in layers for name, value in vars(layer).items() if name in _OF_MAKING]
    if isinstance(core, MiniGridEnv):
        shared += [thing for thing in core.grid.grid if isinstance(thing, _IMMOVABLE)]
    return shared


def _copied(env: GoalWrapper, shared: list[Any], made: dict[int, Any] | None = None) -> GoalWrapper:
    """A copy; `made` gets what was copied for it, by the originals' ids."""
    known = {id(thing): thing for thing in shared}
    memo = dict(known)
    try:
        copied = copy.deepcopy(env, memo)
    except CANNOT_COPY as error:
        raise CannotCopyError(f"{env_name(env)} cannot be copied: {error}") from error
    if made is not None:
        made |= {name: thing for name, thing in memo.items() if name not in known}
    return copied


def _generators_in(made: dict[int, Any]) -> list[Any]:
    """Those among the things that a copy is made of, in the order in which they were copied."""
    return [thing for thing in made.values() if isinstance(thing, _GENERATORS)]


def _draw_anew(generator: Any, seed: int) -> None:
    """In its place, as other things may hold it, too. What has no seed stays as it is."""
    if isinstance(generator, np.random.Generator):
        bits = generator.bit_generator
        bits.state = type(bits)(seed).state
    elif isinstance(generator, random.Random) or generator.get_state(legacy=False)["bit_generator"] == "MT19937":
        generator.seed(seed)


def simulator_of(env: GoalWrapper, seed: int, rng: np.random.Generator) -> tuple[Simulator, bool]:
    """The cheapest way back that shows the same again, and whether there is chance in what happens."""
    count = int(env.action_space.n)  # type: ignore[attr-defined]
    walks = rng.integers(count, size=(CHECKED_WALKS, CHECKED_STEPS)).tolist()
    if _of_minigrid(env):
        world = MiniGridSimulator(env)
        return world, _has_chance(world, seed, walks, rng)
    for kind in (CopySimulator, ReplaySimulator):
        made = kind(env)
        try:
            if _shows_the_same(made, seed, walks):
                return made, _has_chance(made, seed, walks, rng)
        except CannotCopyError:
            continue
    return ResetSimulator(env), True


def _shows_the_same(made: Simulator, seed: int, walks: list[list[int]]) -> bool:
    made.begin(seed)
    start = made.snapshot()
    return all(_shown(made, start, walk) == _shown(made, start, walk) for walk in walks)


def _has_chance(made: Simulator, seed: int, walks: list[list[int]], rng: np.random.Generator) -> bool:
    made.begin(seed)
    start = made.snapshot()
    return any(_shown(made, start, walk, rng) != _shown(made, start, walk, rng) for walk in walks)


def _shown(
    made: Simulator, start: Any, actions: list[int], rng: np.random.Generator | None = None
) -> list[tuple[bytes, bool]]:
    """What a walk from the start shows; with a generator, with chance drawn anew from it."""
    made.go_back(start)
    if rng is not None:
        made.reseed(rng)
    shown = []
    for action in actions:
        ended = made.step(action)
        shown.append((made.look().observation.tobytes(), ended))
        if ended:
            break
    return shown
