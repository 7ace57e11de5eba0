"""Any Gymnasium environment with discrete actions and array observations as a goal-reaching environment."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from minigrid.minigrid_env import MiniGridEnv
from minigrid.wrappers import FullyObsWrapper

from sfl.api import EnvSpec, Observation
from sfl.config import require
from sfl.errors import UsageError
from sfl.worlds.observations import ObservationKind, describe_observation
from sfl.worlds.tasks import GoalObservation, grid_pose

GoalTest = Callable[[Observation, Observation, dict[str, Any]], bool]
"""(achieved, desired, info) -> whether the goal is reached; `info` is the environment's own of that moment."""
GoalReached = Literal["equal"] | float | GoalTest
"""When an observation is at a goal: when they are equal, within this distance of each other, or as a function says."""
GoalSampler = Callable[[gym.Env[Any, Any], np.random.Generator, int], Any]
"""(environment, generator, count) -> up to so many goals [N, ...], or these and their distances [N] from the start."""

GOAL_KEYS = ("observation", "achieved_goal", "desired_goal")
_DEFAULT_STEPS = 200


def is_goal_env(env: gym.Env[Any, Any]) -> bool:
    """Whether an environment already gives the three entries `observation`, `achieved_goal`, `desired_goal`."""
    return isinstance(env.observation_space, spaces.Dict) and set(env.observation_space) == set(GOAL_KEYS)


class WholeGrid(FullyObsWrapper, gym.utils.RecordConstructorArgs):
    """MiniGrid's wrapper for the whole grid, but one that Gymnasium can make anew from the environment's spec."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        FullyObsWrapper.__init__(self, env)  # type: ignore[no-untyped-call]


class GoalWrapper(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Goals for an environment that has none: a goal is an observation, reached when `goal_test` says so.

    The environment's own reward is left out: the reward is 1 at the goal and 0 elsewhere. An episode ends at the
    goal (if `goal_terminates`), where the environment itself ends it, and, truncated, after `max_steps`.
    `goal_test` is "equal", "distance" (at most `radius`, Euclidean) or a function of (achieved, desired) or (achieved,
    desired, info) that gives a bool; `info` is the environment's own of that moment, which agents never see.
    `goals(env, generator, count)` gives the observations to be asked for, if these are not to be found by a collector.
    With `reset_seed` every episode resets with that seed, which makes one fixed world of a random one; the seed given
    to `reset` then decides only what happens by chance after the start.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        goal_test: Literal["equal", "distance"] | Callable[..., bool] = "equal",
        radius: float = 0.0,
        goals: GoalSampler | None = None,
        observation_key: str | None = None,
        reset_seed: int | None = None,
        max_steps: int | None = None,
        goal_terminates: bool = True,
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(
            self,
            goal_test=goal_test,
            radius=radius,
            goals=goals,
            observation_key=observation_key,
            reset_seed=reset_seed,
            max_steps=max_steps,
            goal_terminates=goal_terminates,
        )
        require(
            isinstance(env, gym.Env),
            f"GoalWrapper wraps one environment, got {type(env).__name__}; make it first: gymnasium.make(ID).",
        )
        gym.Wrapper.__init__(self, env)
        actions = _checked_actions(env)
        self._first_action = int(actions.start)
        self._action_count = int(actions.n)
        self.action_space = spaces.Discrete(self._action_count)
        self.observation_kind = describe_observation(env.observation_space, observation_key, gives_symbols(env))
        space, self._read = self.observation_kind.space, self.observation_kind.read
        self.observation_space = spaces.Dict(
            {"observation": space, "achieved_goal": space, "desired_goal": _with_zero(space)}
        )
        self.goal_test, self.radius, self.goals = goal_test, radius, goals
        self.reached = _goal_test(goal_test, radius)
        """Whether an observation, with the info of that moment, counts as a goal."""
        require(
            reset_seed is None or (isinstance(reset_seed, int | np.integer) and reset_seed >= 0),
            f"reset_seed must be a whole number, 0 or more, or None, got {reset_seed!r}.",
        )
        require(goals is None or callable(goals), f"goals must be a function of (env, rng, count), got {goals!r:.60}.")
        self.reset_seed = None if reset_seed is None else int(reset_seed)
        self.max_steps = _time_limit(env) if max_steps is None else max_steps
        require(
            isinstance(self.max_steps, int | np.integer) and self.max_steps >= 1,
            f"max_steps must be at least 1, got {self.max_steps!r}.",
        )
        self.goal_terminates = goal_terminates
        self._no_goal: Observation = np.zeros(space.shape, space.dtype)
        self._goal: Observation | None = None
        self._step_count = 0
        self._chance: np.random.Generator | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[GoalObservation, dict[str, Any]]:
        """Start an episode. `options`: `goal` an observation or None for no goal; the rest goes to the environment."""
        options = dict(options or {})
        goal = options.pop("goal", None)
        if "start" in options and "start" not in getattr(self.env.unwrapped, "reset_options", ()):
            raise UsageError(
                f"{env_name(self.env)} takes no start: leave it out of the reset options, or name it in "
                f"the environment's attribute reset_options."
            )
        self._goal = None if goal is None else self.checked_goal(goal)
        raw, info = self._reset_inner(seed, options or None)
        self._step_count = 0
        return self._observed(raw, info)

    def _reset_inner(self, seed: int | None, options: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]:
        if self.reset_seed is None:
            return self.env.reset(seed=seed, options=options)
        if seed is not None or self._chance is None:
            self._chance, _ = gym.utils.seeding.np_random(seed)
        result = self.env.reset(seed=self.reset_seed, options=options)
        self.env.unwrapped.np_random = self._chance  # the world is fixed, but what happens in it by chance is not
        return result

    def step(self, action: int) -> tuple[GoalObservation, float, bool, bool, dict[str, Any]]:
        """One action; the goal is looked at before the environment's own end of the episode."""
        raw, _, terminated, truncated, info = self.env.step(int(action) + self._first_action)
        self._step_count += 1
        observation, info = self._observed(raw, info)
        terminated = bool(terminated) or (info["is_success"] and self.goal_terminates)
        late = bool(truncated) or self._step_count >= self.max_steps
        return observation, float(info["is_success"]), terminated, late and not terminated, info

    def read(self, raw: Any) -> Observation:
        """What an agent gets of the environment's own observation."""
        return self._read(raw)

    def _observed(self, raw: Any, info: dict[str, Any]) -> tuple[GoalObservation, dict[str, Any]]:
        observation = self._read(raw)
        success = self._goal is not None and bool(self.reached(observation, self._goal, info))
        desired = self._no_goal if self._goal is None else self._goal
        entries = {"observation": observation, "achieved_goal": observation.copy(), "desired_goal": desired.copy()}
        return entries, {**info, **_pose(self.env.unwrapped), "is_success": success}

    def checked_goal(self, goal: Any) -> Observation:
        """A goal as an observation; one of another shape or kind of number is refused."""
        array = np.asarray(goal)
        require(
            array.shape == self._no_goal.shape and np.can_cast(array.dtype, self._no_goal.dtype, "same_kind"),
            f"A goal of {env_name(self.env)} is a {self._no_goal.dtype} observation of shape {self._no_goal.shape}, "
            f"got {array.dtype} of shape {array.shape}.",
        )
        return array.astype(self._no_goal.dtype)


def goal_wrapper(env: gym.Env[Any, Any]) -> GoalWrapper | None:
    """The `GoalWrapper` around an environment, whatever wrappers are around that one."""
    while not isinstance(env, GoalWrapper):
        if not isinstance(env, gym.Wrapper):
            return None
        env = env.env
    return env


def gives_symbols(env: gym.Env[Any, Any]) -> bool:
    """Whether it shows MiniGrid's symbols, one cell in each place: their space has the bounds of pixels."""
    world, space = env.unwrapped, env.observation_space
    if not isinstance(world, MiniGridEnv):
        return False
    named = {"image", "observation"}
    images = [space[name] for name in space if name in named] if isinstance(space, spaces.Dict) else [space]
    view = env.get_wrapper_attr("agent_view_size")
    return any((image.shape or ())[:2] in {(world.width, world.height), (view, view)} for image in images)


def kind_of_goal_env(env: gym.Env[Any, Any]) -> ObservationKind:
    """What the observations of an environment with goals are; those of others' are taken as they come or refused."""
    space: Any = env.observation_space
    seen = space["observation"]
    if env.has_wrapper_attr("observation_kind"):
        known: ObservationKind = env.get_wrapper_attr("observation_kind")
        if known.space == seen:  # no wrapper around it has changed them
            return known
    actions = _checked_actions(env)
    require(actions.start == 0, f"The actions of {env_name(env)} begin at {actions.start}; let them begin at 0.")
    require(
        isinstance(seen, spaces.Box) and bool(seen.shape),
        f"The entry observation of {env_name(env)} must be an array (Box), got {seen}; wrap it into one.",
    )
    kind = describe_observation(seen, None, gives_symbols(env))
    goal = space["desired_goal"]
    require(
        goal.shape == seen.shape,
        f"The goals of {env_name(env)} have shape {goal.shape}, its observations {seen.shape}: to SFL a goal is an "
        f"observation; leave its goals out with GoalWrapper(env, observation_key='observation').",
    )
    require(not kind.turned, f"{env_name(env)} has goals of its own and shows {kind.what}; give it as [H, W, C].")
    return kind


def env_spec(env: gym.Env[Any, Any], env_count: int) -> EnvSpec:
    """What an agent may know of an environment."""
    space: Any = env.observation_space
    seen = space["observation"]
    action_space: Any = env.action_space
    return EnvSpec(tuple(seen.shape), str(np.dtype(seen.dtype)), int(action_space.n), env_count)


def env_name(env: gym.Env[Any, Any]) -> str:
    """What errors call an environment."""
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def _checked_actions(env: gym.Env[Any, Any]) -> spaces.Discrete:
    if isinstance(env.action_space, spaces.Discrete):
        return env.action_space
    kind = "continuous actions" if isinstance(env.action_space, spaces.Box) else "actions that are not a single choice"
    raise UsageError(
        f"{env_name(env)} has {kind}, {env.action_space}; sfl needs a Discrete action space: discretise it with a "
        f"wrapper."
    )


def _with_zero(space: spaces.Box) -> spaces.Box:
    """The same space with zeros in it, which stand for `no goal`."""
    zero = np.zeros(space.shape, space.dtype)
    return spaces.Box(np.minimum(space.low, zero), np.maximum(space.high, zero), space.shape, space.dtype.type)


def _goal_test(goal_test: str | Callable[..., bool], radius: float) -> GoalTest:
    if callable(goal_test):
        return _of_three(goal_test)
    if goal_test == "equal":
        return lambda achieved, desired, info: np.array_equal(achieved, desired)
    require(goal_test == "distance", f"goal_test must be 'equal', 'distance' or a function, got {goal_test!r}.")
    number = isinstance(radius, int | float | np.integer | np.floating)
    require(number and radius > 0, f"The goal test 'distance' needs a radius above 0, got {radius!r}.")
    return lambda achieved, desired, info: bool(np.linalg.norm(np.subtract(achieved, desired, dtype=float)) <= radius)


def _of_three(goal_test: Callable[..., bool]) -> GoalTest:
    """The user's function as one of (achieved, desired, info), by its signature."""
    name = getattr(goal_test, "__name__", repr(goal_test))
    try:
        given = inspect.signature(goal_test).parameters.values()
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"The goal test {name} does not say what it takes; wrap it: lambda achieved, desired, info: ..."
        ) from error
    kinds = inspect.Parameter
    places = [one for one in given if one.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    needed = sum(one.default is kinds.empty for one in places)
    any_number = any(one.kind is kinds.VAR_POSITIONAL for one in given)
    named = any(one.kind is kinds.KEYWORD_ONLY and one.default is kinds.empty for one in given)
    asks_info = needed == 3 or any_number or (len(places) > 2 and places[2].name == "info")
    fits = not named and needed <= 3 and (len(places) >= 2 or any_number)
    require(fits, f"A goal test takes (achieved, desired) or (achieved, desired, info), {name} does not.")
    if asks_info:
        return goal_test
    return lambda achieved, desired, info: goal_test(achieved, desired)


def _time_limit(env: gym.Env[Any, Any]) -> int:
    of_spec = env.spec.max_episode_steps if env.spec is not None else None
    return int(of_spec or getattr(env.unwrapped, "max_steps", None) or _DEFAULT_STEPS)  # MiniGrid keeps its own limit


def _pose(env: Any) -> dict[str, Any]:
    """MiniGrid's true pose; other environments have none that we know of."""
    if not (hasattr(env, "agent_pos") and hasattr(env, "agent_dir")):
        return {}
    return {"pose": grid_pose(env.agent_pos, env.agent_dir)}
