"""What pictures of a run are made of: the map, where things lie on it, and what the policy plans. Draws nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from sfl.api import GOAL, Array, Decision, FieldPolicy, Observation, Policy
from sfl.run.folder import LoadedRun
from sfl.seeding import draw_seed, spawn
from sfl.worlds import Pose, Task
from sfl.worlds.doom.env import DoomMaze
from sfl.worlds.doom.world import MazeWorld
from sfl.worlds.mazes.free_space import FreeSpace
from sfl.worlds.session import Env

TILE = 48  # pixels of a cell of the floor plan
WALL = 120  # grey of its walls
RING = 0.27  # cells between a cell's centre and the landmarks that share it
CLIP = -5.0  # value of MSS above which the paper's heatmaps show a state; smaller than the edge threshold of its runs
Box = tuple[int, int, int, int]
"""left, top, right, bottom in cells, the last two not included."""


@runtime_checkable
class SimilarityPolicy(Policy, Protocol):
    """A policy that can tell how alike two observations are."""

    def sfs(self, observations: Array, references: Array) -> Array:
        """SFS of observations [B, ...] to references [R, ...], [B, R]."""


@dataclass(frozen=True)
class Chart:
    """A world from above: the floor plan and everything one can see in it."""

    plan: Array  # [H * TILE, W * TILE, 3] uint8
    outside: Array  # [H, W] bool: neither floor nor wall
    poses: Array  # [N, 3]
    observations: Array  # [N, ...]

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in cells."""
        return self.outside.shape[1], self.outside.shape[0]

    def seen_from(self, pose: Array) -> Observation:
        """What the survey shows at a pose [3] of it: all doors are open."""
        return np.asarray(self.observations[int(np.flatnonzero((self.poses == pose).all(1))[0])])

    @property
    def window(self) -> Box:
        """The part of the plan that holds the floor and the walls around it."""
        (left, top), (right, bottom) = self.poses[:, :2].min(0).astype(int), self.poses[:, :2].max(0).astype(int)
        width, height = self.size
        return max(0, left - 1), max(0, top - 1), min(width, right + 2), min(height, bottom + 2)


@dataclass(frozen=True)
class Journey:
    """What a policy means to do at the start of an episode."""

    start: Array | None  # [3]
    goal: Array | None  # [2]
    explanation: Decision


def chart(env: Env) -> Chart | None:
    """The environment's map; None where it has none."""
    if not (env.has_wrapper_attr("survey") and env.has_wrapper_attr("map_image")):
        return None
    poses, observations = env.get_wrapper_attr("survey")()
    image = env.get_wrapper_attr("map_image")(TILE)
    height, width = image.shape[0] // TILE, image.shape[1] // TILE
    floor = np.zeros((height, width), bool)
    floor[poses[:, 1].astype(int), poses[:, 0].astype(int)] = True
    # A wall fills its cell; the cells of no room are black but for their outline.
    outside = ~floor & ~image.reshape(height, TILE, width, TILE, 3).all((1, 3, 4))
    return Chart(floor_plan(image, TILE, floor, outside), outside, poses, observations)


def floor_plan(image: Array, tile: int, floor: Array, outside: Array) -> Array:
    """A MiniGrid map for paper: walls grey, the `floor` [H, W] white, doors and tiles in pale colours."""
    low, high = image.min(2, keepdims=True).astype(float), image.max(2, keepdims=True).astype(float)
    plan = 255 - 0.45 * (high - image) - 0.3 * low
    for cells, shade in ((outside, 255), (~floor & ~outside, WALL)):
        plan[magnified(cells, tile)] = shade
    return np.asarray(plan, np.uint8)


def magnified(cells: Array, tile: int) -> Array:
    """A mask of cells as one of pixels."""
    return cells.repeat(tile, 0).repeat(tile, 1)


def cell_sfs(
    policy: SimilarityPolicy, poses: Array, observations: Array, reference: Observation
) -> tuple[Array, Array]:
    """Cells [C, 2] and the SFS of each to the reference, the mean over its headings [C]."""
    return cell_means(poses, policy.sfs(observations, reference[None])[:, 0])


def cell_means(poses: Array, values: Array) -> tuple[Array, Array]:
    """Cells [C, 2] of poses [N, 3] and the mean of the values [N] in each, [C]."""
    cells, members = np.unique(poses[:, :2].astype(int), axis=0, return_inverse=True)
    members = members.reshape(-1)  # numpy 2.0 alone gives them another shape
    return cells, np.bincount(members, values) / np.bincount(members)


def values_policy(policy: Policy) -> FieldPolicy | None:
    """The policy itself, if it tells how many steps it takes from one view to another (MSS), else None."""
    return policy if isinstance(policy, FieldPolicy) and policy.score == "value" else None


def scores(policy: FieldPolicy, observations: Array, references: Array) -> Array:
    """The policy's number for each observation [B, ...] with each reference [R, ...], [B, R]."""
    return policy.compare(policy.embed(observations), policy.embed(references))


def landmark_sfs(psi: Array) -> Array:
    """SFS between all landmarks [L, L]."""
    units = psi / np.maximum(np.linalg.norm(psi, axis=1, keepdims=True), 1e-12)
    return np.asarray(units @ units.T)


def spread(poses: Array) -> Array:
    """Where to draw poses [L, 3] so that those of one cell do not hide each other, [L, 2]."""
    cells = [(float(x), float(y)) for x, y in poses[:, :2]]
    total, seen = Counter(cells), Counter[tuple[float, float]]()
    places = poses[:, :2].astype(float).copy()
    for row in np.argsort(poses[:, 2], kind="stable").tolist():
        cell = cells[row]
        if total[cell] > 1:
            turn = 2 * np.pi * seen[cell] / total[cell]
            places[row] += RING * np.array([np.cos(turn), np.sin(turn)])
        seen[cell] += 1
    return places


def first_task(run: LoadedRun, level: str | None = None) -> Task:
    """The first evaluation task of a level; by default the paper's start and goal, else one of the hardest level."""
    tasks = run.tasks(level, 1)  # of each level the first
    return next((task for task in tasks if task.level == "paper"), tasks[-1])


def poses_agree(run: LoadedRun) -> bool:
    """Poses of different episodes lie on one map, and the landmarks' are known."""
    return run.experiment.env.one_map and len(run.landmark_poses) > 0 and bool(np.isfinite(run.landmark_poses).all())


def journey(policy: Policy, env: Env, task: Task) -> Journey:
    """Put the agent at the task's start and ask it for its route."""
    observation, info = env.reset(seed=task.reset_seed or 0, options=task.options())
    policy.begin_episode(0, observation["desired_goal"])
    policy.act(observation["observation"][None], np.zeros(1, np.int64))
    return Journey(info.get("pose"), goal_place(task.goal), policy.explain(0))


def goal_place(goal: Pose | Observation | None) -> Array | None:
    """Where a goal lies [2]; None where it is known as a picture only."""
    return np.array(goal[:2], float) if isinstance(goal, tuple) else None


def route_places(explanation: Decision, landmarks: Array, goal: Array | None) -> Array:
    """Where the waypoints of a route lie [R, 2], given those of the landmarks [L, 2]; an unknown goal is left out."""
    places = [goal if waypoint == GOAL else landmarks[waypoint] for waypoint in explanation.route]
    return np.array([place for place in places if place is not None], float).reshape(-1, 2)


def frozen(run: LoadedRun) -> Policy:
    """The run's policy as evaluation has it, with a generator of its own."""
    return run.agent.policy(draw_seed(spawn(run.seed, ["picture"])["picture"]))


# ---- What is seen all over a maze, and which of it a policy takes for the same. Draws nothing.

HEADINGS = (0.0, 90.0, 180.0, 270.0)
PLACES = 300  # about
FAR = 400.0  # map units between two views that should not look alike
OPEN = 64.0  # map units: a wall that is closer ahead fills the view, and looks alike wherever its texture is used
NEAR = 200.0  # map units: pairs of views whose ends both lie this close show the same alias


@dataclass(frozen=True, eq=False)
class Survey:
    """Views in four directions from places all over a maze; two of them are references for the others."""

    side: float
    """Map units of the square around a place that its views stand for."""
    poses: Array  # [N, 3]
    frames: Array  # [N, 120, 160, 3]
    ahead: Array  # [N] map units that are free in front of each
    start: int
    """The view closest to the maze's start."""
    far: int
    """The most open view at the place that is farthest from there on foot."""

    @property
    def references(self) -> tuple[int, int]:
        """The views that heatmaps compare all others with."""
        return self.start, self.far

    @property
    def distances(self) -> Array:
        """[N, N] map units between the places of two views, in a straight line."""
        places = self.poses[:, :2]
        return np.asarray(np.linalg.norm(places[:, None] - places, axis=2))


def survey(world: MazeWorld) -> Survey:
    """Look around in the game."""
    free, maze = world.sampler.free, world.sampler.maze
    side, poses = viewpoints(free)
    frames = pictures(world, poses)
    on_foot = free.at(free.distances_from(np.array(maze.start[:2])), poses[:: len(HEADINGS), :2])
    place = int(np.argmax(np.where(np.isfinite(on_foot), on_foot, -1.0))) * len(HEADINGS)
    ahead = free_ahead(free, poses)
    far = place + int(np.argmax(ahead[place : place + len(HEADINGS)]))
    return Survey(side, poses, frames, ahead, view_at(poses, maze.start), far)


def viewpoints(free: FreeSpace) -> tuple[float, Array]:
    """The side of a square, and poses [N, 3] in its middle for all squares: four headings each, one after the other."""
    side = float(np.sqrt(free.area / PLACES))
    places = central_places(free, side)
    return side, np.array([(x, y, heading) for x, y in places.tolist() for heading in HEADINGS])


def pictures(world: MazeWorld, poses: Array) -> Array:
    """[N, 120, 160, 3] what is seen at poses [N, 3]."""
    env = DoomMaze(world.sampler.maze)
    try:
        return env.pictures(poses)
    finally:
        env.close()


def central_places(free: FreeSpace, side: float) -> Array:
    """[P, 2] of each square of the free space the free place nearest to its middle, so that no corridor is missed."""
    points = free.origin + free.cell * np.argwhere(free.mask)
    numbers, gaps = np.floor(points / side), np.linalg.norm(points / side % 1 - 0.5, axis=1)
    order = np.argsort(gaps, kind="stable")
    _, first = np.unique(numbers[order], axis=0, return_index=True)
    return np.asarray(points[order][first])


def free_ahead(free: FreeSpace, poses: Array) -> Array:
    """[N] how far a player at poses [N, 3] can walk straight ahead, in whole steps of the lattice up to 256 units."""
    turns, ways = np.radians(poses[:, 2:]), np.arange(free.cell, 256.0 + free.cell, free.cell)
    passed = poses[:, None, :2] + ways[:, None] * np.stack([np.cos(turns), np.sin(turns)], axis=2)  # [N, W, 2]
    open_way = free.contains(passed).reshape(passed.shape[:2])
    return np.asarray(free.cell * np.logical_and.accumulate(open_way, axis=1).sum(1))


def view_at(poses: Array, pose: tuple[float, float, float]) -> int:
    """The view [N, 3] nearest to a pose, and of those the one whose heading is closest."""
    gaps = np.linalg.norm(poses[:, :2] - pose[:2], axis=1)
    turns = np.abs((poses[:, 2] - pose[2] + 180) % 360 - 180)
    return int(np.lexsort((turns, gaps))[0])


def aliased_pairs(sfs: Array, poses: Array, chosen: Array, count: int) -> list[tuple[int, int]]:
    """The pairs of `chosen` views ([N] bool) with the highest SFS [N, N] that are more than 400 units apart.

    A pair whose two ends lie near those of a pair before it shows nothing new and is left out.
    """
    views = np.flatnonzero(chosen)
    first, second = (views[ends] for ends in np.triu_indices(len(views), 1))
    apart = np.linalg.norm(poses[first, :2] - poses[second, :2], axis=1) > FAR
    first, second = first[apart], second[apart]
    found: list[tuple[int, int]] = []
    for row in np.argsort(-sfs[first, second], kind="stable").tolist():
        pair = int(first[row]), int(second[row])
        if not any(_same(poses, pair, other) or _same(poses, pair, other[::-1]) for other in found):
            found.append(pair)
        if len(found) == count:
            break
    return found


def _same(poses: Array, pair: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return bool((np.linalg.norm(poses[list(pair), :2] - poses[list(other), :2], axis=1) <= NEAR).all())
