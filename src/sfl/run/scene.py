"""What pictures of a run are made of: the map, where things lie on it, and what the policy plans. Draws nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np

from sfl.core.seeding import draw_seed, spawn
from sfl.data.types import GOAL, Array, Explanation, Observation, Policy
from sfl.envs import GymConfig, Pose, Task
from sfl.run.evaluate import eval_tasks
from sfl.run.folder import LoadedRun
from sfl.run.rollout import Env

TILE = 16  # pixels of a cell from which its colour is read
RING = 0.27  # cells between a cell's centre and the landmarks that share it
Box = tuple[int, int, int, int]
"""left, top, right, bottom in cells, the last two not included."""


@runtime_checkable
class SimilarityPolicy(Policy, Protocol):
    """A policy that can tell how alike two observations are."""

    def sfs(self, observations: Array, reference: Observation) -> Array:
        """SFS of observations [B, ...] to a reference observation, [B]."""


@dataclass(frozen=True)
class Chart:
    """A world from above: the floor plan and everything one can see in it."""

    plan: Array  # [H, W, 3] uint8: one colour per cell
    poses: Array  # [N, 3]
    observations: Array  # [N, ...]

    @property
    def window(self) -> Box:
        """The part of the plan that holds the floor and the walls around it."""
        (left, top), (right, bottom) = self.poses[:, :2].min(0).astype(int), self.poses[:, :2].max(0).astype(int)
        height, width = self.plan.shape[:2]
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
    return Chart(floor_plan(env.get_wrapper_attr("map_image")(TILE), TILE), poses, observations)


def floor_plan(image: Array, tile: int) -> Array:
    """A map for paper, [H, W, 3]: floor white, walls grey, whatever has a colour in a pale shade of it."""
    height, width = image.shape[0] // tile, image.shape[1] // tile
    cells = image.reshape(height, tile, width, tile, 3).swapaxes(1, 2).reshape(height, width, -1, 3).astype(int)
    most = np.ptp(cells, axis=3).argmax(2)
    colour = np.take_along_axis(cells, most[:, :, None, None], 2)[:, :, 0]
    centre = cells[:, :, tile * (tile // 2) + tile // 2]
    plan = np.where(centre.any(2, keepdims=True), centre + 20, 255)
    return np.where(np.ptp(colour, axis=2)[:, :, None] > 0, 190 + colour * 65 // 255, plan).astype(np.uint8)


def cell_sfs(
    policy: SimilarityPolicy, poses: Array, observations: Array, reference: Observation
) -> tuple[Array, Array]:
    """Cells [C, 2] and the SFS of each to the reference, the mean over its headings [C]."""
    values = policy.sfs(observations, reference)
    cells, members = np.unique(poses[:, :2].astype(int), axis=0, return_inverse=True)
    members = members.reshape(-1)  # numpy 2.0 alone gives them another shape
    return cells, np.bincount(members, values) / np.bincount(members)


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
    """The first evaluation task of a level; by default the paper's start and goal where the run has that level."""
    levels = run.experiment.eval.levels
    chosen = level or ("paper" if "paper" in levels else levels[0])
    return eval_tasks(run.experiment.env, replace(run.experiment.eval, levels=(chosen,), episodes=1), run.seed)[0]


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
    """Where the waypoints of a route lie [R, 2], given the places of the landmarks [L, 2]; a goal unseen is left out."""
    places = [goal if waypoint == GOAL else landmarks[waypoint] for waypoint in explanation.route]
    return np.array([place for place in places if place is not None], float).reshape(-1, 2)


def frozen(run: LoadedRun) -> Policy:
    """The run's policy as evaluation has it, with a generator of its own."""
    return run.agent.policy(draw_seed(spawn(run.seed, ["picture"])["picture"]))
