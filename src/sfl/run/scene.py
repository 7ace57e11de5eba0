"""What pictures of a run are made of: the map, where things lie on it, and what the policy plans. Draws nothing."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np

from sfl.core.errors import UsageError
from sfl.core.seeding import draw_seed, spawn
from sfl.data.types import GOAL, Array, Explanation, FieldPolicy, Observation, Policy
from sfl.envs import GymConfig, Pose, Task, make_env
from sfl.run.folder import LoadedRun
from sfl.run.rollout import Env

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
    explanation: Explanation


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
    config = run.experiment.env
    one_world = not isinstance(config, GymConfig) or config.reset_seed is not None
    return one_world and len(run.landmark_poses) > 0 and bool(np.isfinite(run.landmark_poses).all())


def journey(policy: Policy, env: Env, task: Task) -> Journey:
    """Put the agent at the task's start and ask it for its route."""
    observation, info = env.reset(seed=task.reset_seed or 0, options=task.options())
    policy.begin_episode(0, observation["desired_goal"])
    policy.act(observation["observation"][None], np.zeros(1, np.int64))
    return Journey(info.get("pose"), goal_place(task.goal), policy.explain(0))


def goal_place(goal: Pose | Observation | None) -> Array | None:
    """Where a goal lies [2]; None where it is known as a picture only."""
    return np.array(goal[:2], float) if isinstance(goal, tuple) else None


def route_places(explanation: Explanation, landmarks: Array, goal: Array | None) -> Array:
    """Where the waypoints of a route lie [R, 2], given those of the landmarks [L, 2]; an unknown goal is left out."""
    places = [goal if waypoint == GOAL else landmarks[waypoint] for waypoint in explanation.route]
    return np.array([place for place in places if place is not None], float).reshape(-1, 2)


def frozen(run: LoadedRun) -> Policy:
    """The run's policy as evaluation has it, with a generator of its own."""
    return run.agent.policy(draw_seed(spawn(run.seed, ["picture"])["picture"]))


def drawing_itself(config: GymConfig) -> GymConfig:
    """A foreign environment draws itself only when it is told so as it is made; some take no such word."""
    if any(word.startswith("render_mode=") for word in config.kwargs):
        return config
    drawing = replace(config, kwargs=(*config.kwargs, "render_mode=rgb_array"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            make_env(drawing).close()
    except UsageError:
        return config
    return drawing
