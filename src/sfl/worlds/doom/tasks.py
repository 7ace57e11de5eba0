"""Where episodes of a maze may start and what may be their goal.

First `StartGoalSampler`, which draws and checks single places. Then `Pairs`, start-goal pairs by level: drawn from a
seed, kept as JSON, and read from the authors' files. A file of ours: `{"maze": name, "spawn": "random" | "fixed",
"seed": int | null, "levels": {level: [pair, ...]}}` with pairs `{"start": [x, y, degrees], "goal": [x, y, degrees],
"distance": units on foot}`. A file of the authors: `{level: [[start, goal], ...]}`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sfl.api import Array
from sfl.config import require
from sfl.errors import UsageError
from sfl.files import read_json, write_text
from sfl.seeding import spawn
from sfl.worlds.mazes.layout import Disc, Maze, Spot
from sfl.worlds.tasks import Pose, Task

if TYPE_CHECKING:
    from sfl.worlds.mazes.free_space import Field, FreeSpace

GOAL_RADIUS = 63.0
"""Map units within which a goal counts as reached, whatever the heading."""


class StartGoalSampler:
    """Draws and checks the starts and goals of one maze."""

    def __init__(self, maze: Maze, spawn: Literal["fixed", "random"]) -> None:
        require(spawn in ("fixed", "random"), f"spawn must be 'fixed' or 'random', got {spawn!r}.")
        self.maze = maze
        self.spawn = spawn

    @cached_property
    def free(self) -> FreeSpace:
        """Worked out when it is first needed: a run with fixed starts and no goals does without."""
        from sfl.worlds.mazes.free_space import FreeSpace

        return FreeSpace.of(self.maze)

    def draw_start(self, rng: np.random.Generator) -> Pose:
        """The maze's start, or with random spawn one of its spots, or without those anywhere, with any heading."""
        if self.spawn == "fixed":
            return self.maze.start
        if not self.maze.spots:
            return self.draw_goal(rng)
        x, y = self.maze.spots[int(rng.integers(len(self.maze.spots)))]
        return (x, y, float(rng.uniform(0.0, 360.0)))

    def draw_goal(self, rng: np.random.Generator) -> Pose:
        """Anywhere free, with any heading. Games know whole units only, so that is what is drawn."""
        while True:
            place = np.round(self.free.sample(rng, 1))
            if self.free.contains(place)[0]:
                return (float(place[0, 0]), float(place[0, 1]), float(rng.uniform(0.0, 360.0)))

    def checked(self, pose: Any, role: Literal["start", "goal"]) -> Pose:
        """A pose given by a user. A player must be able to stand at a start; goals may be closer to a wall."""
        numbers = np.asarray(pose, dtype=object).ravel().tolist()
        try:
            x, y, degrees = map(float, numbers)
        except (TypeError, ValueError):
            raise UsageError(f"{role} must be a pose (x, y, degrees), got {pose!r}.") from None
        require(bool(np.isfinite([x, y, degrees]).all()), f"{role} must hold finite numbers, got {pose!r}.")
        test = self.free.contains if role == "start" else self.free.covers
        if not test(np.array([[x, y]]))[0]:
            near = self.maze.start
            raise UsageError(
                f"{role} ({x:g}, {y:g}, {degrees:g}) is inside a wall or out of reach in maze {self.maze.name!r}; "
                f"free is e.g. ({near[0]:g}, {near[1]:g})."
            )
        return (x, y, degrees)


BUDGETS: dict[str, int] = {"easy": 100, "medium": 200, "hard": 300, "hardest": 400}
"""Levels in order, and the decisions within which a goal must be reached."""

RANGES: dict[str, tuple[float, float]] = {"easy": (0, 200), "medium": (200, 400), "hard": (400, 600)}
"""Random spawn: distance on foot from start to goal, in map units."""


FARTHEST = 1e6
"""Map units and degrees beyond which no place is."""

DRAWS_PER_PAIR = 100  # a level that is not full after this many draws per pair asked for is rare or absent in the maze


@dataclass(frozen=True)
class Pair:
    """One start and one goal."""

    start: Pose
    goal: Pose
    distance: float | None = None
    """Map units on foot; None: not known, as in the authors' files."""


@dataclass(frozen=True)
class Pairs:
    """The pairs of one maze."""

    maze: str
    spawn: Literal["random", "fixed"]
    seed: int | None
    """What they were drawn from; None: not known."""
    levels: Mapping[str, tuple[Pair, ...]]

    def tasks(self, *levels: str) -> list[Task]:
        """The episodes of the levels named, in that order; without a name those of all levels."""
        if absent := [level for level in levels if level not in self.levels]:
            raise UsageError(
                f"No level {absent[0]!r} in the pairs of {self.maze!r}; choose from those there are with "
                f"--eval.levels {' '.join(self.levels)}."
            )
        return [
            Task(level, number, pair.start, pair.goal, BUDGETS[level])
            for level in levels or self.levels
            for number, pair in enumerate(self.levels[level])
        ]


def trivial(task: Task) -> bool:
    """Whether the episode begins within reach of its goal; tables show a second column without such tasks."""
    if not isinstance(task.start, tuple) or not isinstance(task.goal, tuple):
        return False
    return math.dist(task.start[:2], task.goal[:2]) <= GOAL_RADIUS


def draw_random_pairs(maze: Maze, free: FreeSpace, seed: int, per_level: int = 50) -> Pairs:
    """Random spawn: a start, then a goal at a random radius and angle around it; its level is its distance on foot.

    The radii come from the three ranges in turn. A goal in a wall, out of reach or too far is dropped. A level that the
    maze has no pairs for is left out.
    """
    require(per_level >= 1, f"per_level must be at least 1, got {per_level}.")
    rng = spawn(seed, ["random-pairs"])["random-pairs"]
    ranges = list(RANGES.values())
    field_from = lru_cache(maxsize=len(maze.spots))(lambda x, y: free.distances_from(np.array((x, y)), ranges[-1][1]))
    levels: dict[str, list[Pair]] = {level: [] for level in RANGES}
    for draw in range(DRAWS_PER_PAIR * per_level):
        x, y = _random_spot(maze, free, rng)
        radius, angle = rng.uniform(*ranges[draw % len(ranges)]), rng.uniform(0, math.tau)
        goal = (x + radius * math.cos(angle), y + radius * math.sin(angle))
        headings = rng.uniform(0, 360, 2).tolist()
        if not free.contains(np.array(goal))[0]:
            continue
        distance = float(free.at(field_from(x, y), np.array(goal))[0])
        for level, (least, most) in RANGES.items():
            if least <= distance < most and len(levels[level]) < per_level:
                levels[level].append(Pair((x, y, headings[0]), (*goal, headings[1]), distance))
        if all(len(pairs) == per_level for pairs in levels.values()):
            break
    return Pairs(maze.name, "random", seed, _filled(levels, maze))


def draw_fixed_pairs(maze: Maze, free: FreeSpace, seed: int, per_level: int = 50) -> Pairs:
    """Fixed spawn: from the maze's start to goals in the discs of its regions.

    A maze without regions has the quartiles of distance from the start, over all free space, as levels.
    """
    require(per_level >= 1, f"per_level must be at least 1, got {per_level}.")
    rng = spawn(seed, ["fixed-pairs"])["fixed-pairs"]
    field = free.distances_from(np.array(maze.start[:2]))
    places = _in_regions(maze, free, rng, per_level) if maze.regions else _in_quartiles(free, field, rng, per_level)
    levels = {}
    for level, goals in places.items():
        headings, distances = rng.uniform(0, 360, len(goals)).tolist(), free.at(field, goals).tolist()
        found = zip(goals.tolist(), headings, distances, strict=True)
        levels[level] = [Pair(maze.start, (x, y, heading), distance) for (x, y), heading, distance in found]
    return Pairs(maze.name, "fixed", seed, _filled(levels, maze))


def save_pairs(path: Path, pairs: Pairs) -> None:
    """Write a file of pairs; one in its place stays whole until the new one is."""
    levels = {level: [asdict(pair) for pair in found] for level, found in pairs.levels.items()}
    body = {"maze": pairs.maze, "spawn": pairs.spawn, "seed": pairs.seed, "levels": levels}
    write_text(path, json.dumps(body, indent=1) + "\n")


def load_pairs(path: Path, maze: Maze, free: FreeSpace, per_level: int = 50) -> Pairs:
    """The first `per_level` pairs of each level, from a file of ours or of the authors; they must fit the maze."""
    try:
        content = read_json(path)
    except OSError as error:
        raise UsageError(f"Cannot read the pairs file {path} ({error.strerror}); give a JSON file of pairs.") from error
    require(isinstance(content, dict), f"{path} is no pairs file: it must hold a JSON object of levels.")
    if "levels" in content:
        pairs = _read_ours(content, path, per_level)
    else:  # theirs name neither maze nor spawn: the places must fit the maze, and a fixed spawn has one start
        levels = _read_levels(content, path, per_level)
        starts = {pair.start for found in levels.values() for pair in found}
        pairs = Pairs(maze.name, "fixed" if len(starts) == 1 else "random", None, levels)
    require(
        pairs.maze == maze.name,
        f"{path} holds pairs for another maze: {pairs.maze!r}, not {maze.name!r}; choose that maze or other pairs.",
    )
    check_pairs(pairs, free, str(path))
    return pairs


def check_pairs(pairs: Pairs, free: FreeSpace, origin: str) -> None:
    """Every start must be free; a goal may be closer to a wall than a player can walk, as some of the authors' are."""
    for level, found in pairs.levels.items():
        starts = free.contains(np.array([pair.start[:2] for pair in found]))
        goals = free.covers(np.array([pair.goal[:2] for pair in found]))
        for number, pair in enumerate(found):
            if not (starts[number] and goals[number]):
                what, pose = ("goal", pair.goal) if starts[number] else ("start", pair.start)
                raise UsageError(
                    f"{origin}: the {what} ({pose[0]:.1f}, {pose[1]:.1f}) of {level} pair {number} is inside a wall "
                    f"or out of reach in {pairs.maze!r}; are these pairs for another maze?"
                )


def _read_ours(content: dict[str, Any], path: Path, per_level: int) -> Pairs:
    wanted = {"maze", "spawn", "seed", "levels"}
    require(content.keys() == wanted, f"{path} is no pairs file: it has {sorted(content)}, not {sorted(wanted)}.")
    way = content["spawn"]
    require(way in ("random", "fixed"), f"{path}: spawn must be 'random' or 'fixed', got {way!r}.")
    seed = content["seed"]
    whole = seed is None or (isinstance(seed, int) and not isinstance(seed, bool))
    require(whole, f"{path}: seed must be a whole number or null, got {seed!r:.60}.")
    return Pairs(content["maze"], way, seed, _read_levels(content["levels"], path, per_level))


def _read_levels(content: Any, path: Path, per_level: int) -> dict[str, tuple[Pair, ...]]:
    require(isinstance(content, dict) and bool(content), f"{path}: levels must be a JSON object, got {content!r:.60}.")
    levels = {}
    for level in _known_levels(content, str(path)):
        entries = content[level]
        require(isinstance(entries, list) and bool(entries), f"{path}: level {level!r} must be a list of pairs.")
        levels[level] = tuple(
            _read_pair(entry, f"{path}: {level} pair {number}") for number, entry in enumerate(entries[:per_level])
        )
    return levels


def _read_pair(entry: Any, where: str) -> Pair:
    if isinstance(entry, dict):
        distance = entry.get("distance")
        fits = distance is None or _is_number(distance)
        require(fits, f"{where}: distance must be a number or null, got {distance!r:.60}.")
        return Pair(_read_pose(entry.get("start"), where), _read_pose(entry.get("goal"), where), distance)
    require(isinstance(entry, list) and len(entry) == 2, f"{where} must be [start, goal], got {entry!r:.60}.")
    return Pair(_read_pose(entry[0], where), _read_pose(entry[1], where))


def _read_pose(value: Any, where: str) -> Pose:
    fits = isinstance(value, list) and len(value) == 3 and all(map(_is_number, value))
    require(fits, f"{where}: a pose must be [x, y, degrees], got {value!r:.60}.")
    return float(value[0]), float(value[1]), float(value[2])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= FARTHEST


def _known_levels(names: Iterable[str], origin: str) -> list[str]:
    """The levels in order of difficulty."""
    names = set(names)
    if unknown := sorted(names - BUDGETS.keys()):
        raise UsageError(f"{origin} has an unknown level {unknown[0]!r}; the levels are {', '.join(BUDGETS)}.")
    return [level for level in BUDGETS if level in names]


def _random_spot(maze: Maze, free: FreeSpace, rng: np.random.Generator) -> Spot:
    if maze.spots:
        return maze.spots[rng.integers(len(maze.spots))]
    x, y = free.sample(rng, 1)[0].tolist()
    return x, y


def _in_regions(maze: Maze, free: FreeSpace, rng: np.random.Generator, per_level: int) -> dict[str, Array]:
    """Level -> [per_level, 2] goals; the discs of a level take turns, so that each has its share."""
    goals = {}
    regions = {level: discs for level, discs in maze.regions.items() if discs}
    for level in _known_levels(regions, f"Maze {maze.name!r}"):
        discs = regions[level]
        turns = [discs[number % len(discs)] for number in range(per_level)]
        goals[level] = np.array([_in_disc(disc, level, maze, free, rng) for disc in turns]).reshape(-1, 2)
    return goals


def _in_disc(disc: Disc, level: str, maze: Maze, free: FreeSpace, rng: np.random.Generator) -> Array:
    """[2] a free place, uniform over the free part of a disc."""
    x, y, radius = disc
    for _ in range(DRAWS_PER_PAIR):
        length, angle = radius * np.sqrt(rng.random(20)), rng.uniform(0, math.tau, 20)
        places = np.stack([x + length * np.cos(angle), y + length * np.sin(angle)], axis=1)
        inside = free.contains(places)
        if inside.any():
            return np.asarray(places[inside.argmax()])
    raise UsageError(f"Maze {maze.name!r}: no free place in the {level} region {disc}; move it off the walls.")


def _in_quartiles(free: FreeSpace, field: Field, rng: np.random.Generator, per_level: int) -> dict[str, Array]:
    """Level -> [<= per_level, 2] goals, uniform over the quarter of free space that makes the level."""
    bounds = np.quantile(field.values[free.mask], (0.25, 0.5, 0.75))
    goals: dict[str, Array] = {level: np.empty((0, 2)) for level in BUDGETS}
    for _ in range(DRAWS_PER_PAIR):
        places = free.sample(rng, 4 * per_level)
        quarters = np.searchsorted(bounds, free.at(field, places))
        for quarter, level in enumerate(BUDGETS):
            goals[level] = np.concatenate([goals[level], places[quarters == quarter]])[:per_level]
        if all(len(found) == per_level for found in goals.values()):
            break
    return goals


def _filled(levels: Mapping[str, list[Pair]], maze: Maze) -> dict[str, tuple[Pair, ...]]:
    """The levels that have pairs at all."""
    filled = {level: tuple(pairs) for level, pairs in levels.items() if pairs}
    require(bool(filled), f"Maze {maze.name!r} is too small: no goal of any level was found; use a larger one.")
    return filled
