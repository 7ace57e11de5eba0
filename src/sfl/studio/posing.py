"""What a page asks for, checked, and made a task that several agents can be given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sfl.api import Array
from sfl.config import require
from sfl.errors import UsageError
from sfl.run.compare import task_in
from sfl.run.folder import LoadedRun
from sfl.run.goals import goal_in_picture
from sfl.show.views import first_task
from sfl.studio.views import as_frame, read_picture
from sfl.worlds import DoomConfig, EnvConfig, Pose, Task, make_env
from sfl.worlds.doom.tasks import BUDGETS

MOST_PLAYERS = 4
LONGEST_BUDGET = 10_000
LARGEST_SEED = 2**31 - 1
_FARTHEST = 1e6


@dataclass(frozen=True)
class Request:
    """An episode that a page asks for. A pair is one of the run's own tasks, whatever start and goal say beside it."""

    players: tuple[tuple[str, str], ...]
    """Run and checkpoint of each."""
    start: Pose | None = None
    goal: Pose | str | None = None
    """A pose, or the address that holds a picture."""
    level: str | None = None
    pair: int | None = None
    budget: int | None = None
    seed: int = 0

    @classmethod
    def read(cls, body: dict[str, Any]) -> Request:
        """From JSON; what is not what it should be is refused."""
        goal = body.get("goal")
        if isinstance(goal, dict):
            picture = goal.get("picture")
            require(isinstance(picture, str), f"goal.picture must be a text, got {picture!r:.60}.")
        level = body.get("level")
        require(level is None or isinstance(level, str), f"level must be a text, got {level!r:.60}.")
        return cls(
            _players(body.get("players")),
            _pose(body.get("start"), "start"),
            goal["picture"] if isinstance(goal, dict) else _pose(goal, "goal"),
            level,
            _whole(body.get("pair"), "pair", 0, LARGEST_SEED),
            _whole(body.get("budget"), "budget", 1, LONGEST_BUDGET),
            _whole(body.get("seed"), "seed", 0, LARGEST_SEED) or 0,
        )


def _players(given: Any) -> tuple[tuple[str, str], ...]:
    fits = isinstance(given, list) and all(isinstance(player, dict) for player in given)
    require(fits, f"players must be a list of objects with run and checkpoint, got {given!r:.60}.")
    require(1 <= len(given) <= MOST_PLAYERS, f"1 to {MOST_PLAYERS} players can play at once, got {len(given)}.")
    players = [(player.get("run"), player.get("checkpoint", "last")) for player in given]
    for run, checkpoint in players:
        words = isinstance(run, str) and isinstance(checkpoint, str)
        require(words, f"A player has a run and a checkpoint, both texts, got {run!r:.30} and {checkpoint!r:.30}.")
    return tuple(players)


def _pose(given: Any, name: str) -> Pose | None:
    if given is None:
        return None
    numbers: list[Any] = given if isinstance(given, list) and len(given) == 3 else [None]
    fits = all(
        isinstance(number, int | float)
        and not isinstance(number, bool)
        and math.isfinite(number)
        and abs(number) < _FARTHEST
        for number in numbers
    )
    require(fits, f"{name} must be a pose [x, y, degrees] of finite numbers, got {given!r:.60}.")
    x, y, degrees = numbers
    return (float(x), float(y), float(degrees))


def _whole(given: Any, name: str, least: int, most: int) -> int | None:
    fits = given is None or (isinstance(given, int) and not isinstance(given, bool) and least <= given <= most)
    require(fits, f"{name} must be a whole number from {least} to {most}, got {given!r:.60}.")
    return None if given is None else int(given)


def require_one_world(runs: Sequence[LoadedRun]) -> None:
    """Agents are compared on one task only where it means the same to all of them."""
    first, *others = (_world(run.experiment.env) for run in runs)
    for run, other in zip(runs[1:], others, strict=True):
        require(
            other == first,
            f"All players must live in one world; {runs[0].experiment.name} lives in {first}, "
            f"{run.experiment.name} in {other}.",
        )


def _world(config: EnvConfig) -> str:
    """Equal for runs in the same place; of a foreign environment every argument may matter."""
    return repr(config) if config.kind == "other" else config.world_name()


def task_of(run: LoadedRun, asked: Request) -> Task:
    """The task that is asked for, in the world of a run; a start or goal inside a wall is refused here."""
    placed = asked.goal is not None or asked.start is not None
    if asked.pair is not None or (asked.level is not None and not placed):
        task = _own_task(run, asked.level, asked.pair or 0)
    elif not placed:
        task = first_task(run)
    else:
        task = _given_task(run.experiment.env, asked.goal, asked.start)
    return task if asked.budget is None else replace(task, budget=asked.budget)


def _own_task(run: LoadedRun, level: str | None, pair: int) -> Task:
    levels = run.experiment.eval.levels
    level = levels[0] if level is None else level
    if level not in levels:
        raise UsageError(f"No level {level!r:.40}; this run has {', '.join(levels)}.")
    tasks = run.tasks(level)
    require(pair < len(tasks), f"No pair {pair} of level {level}; there are 0 to {len(tasks) - 1}.")
    return tasks[pair]


def _given_task(config: EnvConfig, goal: Pose | str | None, start: Pose | None) -> Task:
    picture = read_picture(goal) if isinstance(goal, str) else None
    pose = None if isinstance(goal, str) else goal
    if config.kind == "maze":
        return _task_in_maze(config, pose, picture, start)
    env = make_env(config)
    try:
        if picture is not None:
            return task_in(env, goal_in_picture("The goal picture", picture, env), start)
        known = config.kind == "grid"
        places = f"Places of {config.id} are not known; give one of the run's tasks or a picture."
        require(known or (goal is None and start is None), places)
        return task_in(env, pose, start)
    finally:
        env.close()


def _task_in_maze(config: DoomConfig, goal: Pose | None, picture: Array | None, start: Pose | None) -> Task:
    """A picture does not say where it was taken: such an episode ends when the agent takes itself to be there."""
    world = config.open()
    if goal is not None:
        return world.given_task(goal, start)
    require(picture is not None, "An episode in a maze needs a goal: give a pose, a picture or one of the run's tasks.")
    assert picture is not None
    place = None if start is None else world.sampler.checked(start, "start")
    return Task("any", 0, place, as_frame(picture), max(BUDGETS.values()))
