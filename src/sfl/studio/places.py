"""The world of a run from above, and what is seen in it. Grids: y grows down; mazes: y grows up."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from minigrid.core.grid import Grid
from PIL import Image

from sfl.api import Array
from sfl.errors import UsageError
from sfl.run.evaluate import eval_tasks, open_world
from sfl.show.views import HEADINGS, view_at, viewpoints
from sfl.studio.answers import Document, NotHereError, numbers
from sfl.studio.runs import Run
from sfl.worlds import Pose, Task, make_env
from sfl.worlds.doom.env import DoomMaze
from sfl.worlds.doom.tasks import GOAL_RADIUS
from sfl.worlds.doom.world import MazeWorld
from sfl.worlds.grids import Layout
from sfl.worlds.world import EnvironmentWorld

TASKS = 50
"""Tasks of a level that the page lists."""

TILE = 16
"""Pixels of a cell in the picture of a grid."""

BATCH = 16
"""Views that are rendered at a time: progress is shown in between."""

IDLE = 30.0
"""Seconds after which a game that nobody asks for pictures is ended."""

Value = TypeVar("Value")


class Recent:
    """The last few things that were worked out, each once: who asks meanwhile waits for it."""

    def __init__(self, size: int) -> None:
        self._size, self._lock = size, threading.RLock()
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """What is kept under the key, or else what `make` gives."""
        with self._lock:
            if key not in self._kept:
                self._kept[key] = make()
                while len(self._kept) > self._size:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            found: Value = self._kept[key]
            return found

    def peek(self, key: Hashable) -> Any:
        """What is kept under the key, or None."""
        with self._lock:
            return self._kept.get(key)


@dataclass(frozen=True, eq=False)
class Views:
    """Where a field is taken: places all over the world, four headings each, one after the other."""

    poses: Array  # [N, 3]
    side: float
    """Of the square that a place stands for."""
    observations: Array | None
    """[N, ...] where they are known at once; None: they must be rendered."""

    @property
    def places(self) -> Array:
        """[P, 2]."""
        return self.poses[:: len(HEADINGS), :2]

    def nearest(self, x: float, y: float, degrees: float) -> int:
        """The view closest to a pose; a place off the map is refused."""
        view = view_at(self.poses, (x, y, degrees))
        if np.hypot(*(self.poses[view, :2] - (x, y))) > 2 * self.side:
            raise UsageError(f"({x:g}, {y:g}) lies off the map; choose a place inside.")
        return view


class Atlas:
    """The worlds of all runs, each opened once, and the one game that takes pictures."""

    def __init__(self) -> None:
        self._worlds, self._views, self._pictures = Recent(8), Recent(8), Recent(2_000)
        self._frames = Recent(1)  # of one maze: they take 70 MB
        self._game: tuple[str, DoomMaze] | None = None
        self._game_lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def world(self, run: Run) -> EnvironmentWorld | MazeWorld:
        """Where a run takes place."""
        experiment = run.facts.experiment
        return self._worlds.get((run.id, experiment), lambda: open_world(experiment.env, run.folder.path))

    def map(self, run: Run) -> Document:
        """The map, the start, and the tasks that the run is evaluated on."""
        facts = run.facts
        if facts.kind == "other":
            return {"kind": "other", "title": run.title}
        world = self.world(run)
        about = _maze_map(world) if world.kind == "maze" else _grid_map(_layout(run))
        return {"kind": facts.kind, "title": run.title, **about, "tasks": _tasks(run)}

    def views(self, run: Run) -> Views:
        """Where the fields of a run are taken."""
        world_key = run.facts.world_key
        if run.facts.kind == "other":
            raise NotHereError(f"The world of {run.title} cannot be looked at from above.")
        world = self.world(run)
        if world.kind == "maze":
            side, poses = self._views.get(world_key, lambda: viewpoints(world.sampler.free))
            return Views(poses, side, None)
        poses, observations = self._views.get(world_key, lambda: _survey(run))
        return Views(poses, 1.0, observations)

    def look(self, run: Run, views: Views, progress: Callable[[int], None]) -> Array:
        """[N, ...] what is seen at all views; those of a maze are rendered once."""
        if views.observations is not None:
            progress(len(views.poses))
            return views.observations
        found: Array = self._frames.get(run.facts.world_key, lambda: self._render(run, views.poses, progress))
        progress(len(views.poses))
        return found

    def picture(self, run: Run, pose: Array) -> bytes:
        """What is seen at a pose [3], as PNG."""
        key = (run.facts.world_key, tuple(pose.tolist()))
        return self._pictures.get(key, lambda: self._photograph(run, pose))

    def can_look(self, run: Run, poses: Array) -> bool:
        """Whether a player could see something at all of these poses [N, 3] of a maze; not from within a wall."""
        world = self.world(run)
        return world.kind == "maze" and bool(world.sampler.free.covers(poses[:, :2]).all())

    def photographs(self, run: Run, poses: Array) -> Array:
        """[N, 120, 160, 3] what is seen at poses [N, 3] of a maze."""
        with self._camera(run) as game:
            return game.pictures(poses)

    def close(self) -> None:
        """End the game."""
        with self._game_lock:
            self._end_game()

    def _photograph(self, run: Run, pose: Array) -> bytes:
        if run.facts.kind == "other" or not np.isfinite(pose).all():
            raise NotHereError("Where this landmark was seen is not known.")
        if run.facts.kind == "maze":
            return png(self.photographs(run, pose[None])[0])
        views = self.views(run)
        assert views.observations is not None
        view = views.nearest(*pose.tolist())
        return png(_drawn(views.observations[view], views.poses[view], _layout(run)))

    def _render(self, run: Run, poses: Array, progress: Callable[[int], None]) -> Array:
        parts = []
        for first in range(0, len(poses), BATCH):
            parts.append(self.photographs(run, poses[first : first + BATCH]))
            progress(first)
        return np.concatenate(parts)

    @contextmanager
    def _camera(self, run: Run) -> Iterator[DoomMaze]:
        """The game that takes pictures in the maze of a run; it ends when nobody has asked for a while."""
        world, key = self.world(run), run.facts.world_key
        assert world.kind == "maze"
        with self._game_lock:
            if self._game is not None and self._game[0] != key:
                self._end_game()
            if self._game is None:
                self._game = (key, DoomMaze(world.sampler.maze))
            if self._timer is not None:
                self._timer.cancel()
            try:
                yield self._game[1]
            except BaseException:
                self._end_game()
                raise
            self._timer = threading.Timer(IDLE, self.close)
            self._timer.daemon = True
            self._timer.start()

    def _end_game(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._game is not None:
            self._game[1].close()
        self._game = self._timer = None


def png(picture: Array) -> bytes:
    """A picture [H, W, 3] as a file."""
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "png")
    return buffer.getvalue()


def _layout(run: Run) -> Layout:
    env = make_env(run.facts.experiment.env)
    world: Any = env.unwrapped
    env.close()
    layout: Layout = world.layout
    return layout


def _survey(run: Run) -> tuple[Array, Array]:
    env = make_env(run.facts.experiment.env)
    try:
        poses, observations = env.get_wrapper_attr("survey")()
    finally:
        env.close()
    return poses, observations


def _used(layout: Layout) -> tuple[int, int, int, int]:
    """The part of a grid that is not empty: left, top, right, bottom, the last two included."""
    cells = np.array([*layout.walls, *layout.open_cells])
    (left, top), (right, bottom) = cells.min(0).tolist(), cells.max(0).tolist()
    return left, top, right, bottom


def _grid_map(layout: Layout) -> Document:
    left, top, right, bottom = _used(layout)
    floor, doors = set(layout.open_cells), set(layout.door_cells)
    marks = {cell: "." for cell in floor} | {cell: "D" for cell in doors} | {layout.tile: "G"}
    marks |= {cell: "#" for cell in layout.walls}
    rows = ["".join(marks.get((x, y), " ") for x in range(layout.width)) for y in range(layout.height)]
    return {
        "unit": "cell",
        "y_down": True,
        "bounds": [left - 0.5, top - 0.5, right + 0.5, bottom + 0.5],
        "walls": [],
        "cells": {"width": layout.width, "height": layout.height, "rows": rows},
        "start": [*layout.start, 0.0],
        "success_radius": 0.5,
    }


def _maze_map(world: MazeWorld) -> Document:
    maze = world.sampler.maze
    ends = maze.walls.reshape(-1, 2)
    return {
        "unit": "map unit",
        "y_down": False,
        "bounds": numbers(np.concatenate([ends.min(0), ends.max(0)]), 1),
        "walls": numbers(maze.walls, 1),
        "cells": None,
        "start": list(maze.start),
        "success_radius": GOAL_RADIUS,
    }


def _tasks(run: Run) -> Document:
    """The run's own evaluation tasks by level."""
    experiment = run.facts.experiment
    found: dict[str, list[Document]] = {level: [] for level in experiment.eval.levels}
    for task in eval_tasks(experiment.env, experiment.eval, run.facts.seed, run.folder.path):
        if len(found[task.level]) < TASKS:
            found[task.level].append(_task(task))
    return found


def _task(task: Task) -> Document:
    return {"start": _pose(task.start), "goal": _pose(task.goal), "budget": task.budget}


def _pose(pose: Pose | Array | None) -> list[float] | None:
    """None: it is not known, or a picture only."""
    return [round(float(number), 2) for number in pose] if isinstance(pose, tuple) else None


def _drawn(observation: Array, pose: Array, layout: Layout) -> Array:
    """A grid with the agent in it, [H, W, 3], without what is empty around."""
    left, top, right, bottom = _used(layout)
    grid = Grid.decode(observation)[0]
    whole = grid.render(TILE, (int(pose[0]), int(pose[1])), int(pose[2] // 90) % 4)
    return np.asarray(whole[top * TILE : (bottom + 1) * TILE, left * TILE : (right + 1) * TILE])
