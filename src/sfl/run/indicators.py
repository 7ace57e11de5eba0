"""Leading indicators: what an evaluation shows of localization, waypoints and edges once true poses are known.

Success follows from them, so they say what to mend when it stays away. Only `run` knows poses; no agent sees them.

`Indicators` watches an evaluation. `UnseenGoals`, the second part, watches training: which goals of the exam it never
came near, as a method cannot be asked the way to what it never saw. Where a goal is a pose, the true poses of training
say it; where it is an observation, the environment's own test of goals does, asked of every observation of training.
Neither draws anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from sfl.api import Array, Decision, Observation, Policy, Step
from sfl.run.coverage import PoseLog, edge_ends
from sfl.worlds import Task
from sfl.worlds.gym import GoalReached, GoalTest
from sfl.worlds.world import World

TILE = 512.0
"""Map units: edges whose middles share a tile of this side are tested against the walls around them together."""

CHUNK = 200_000
"""Pairs of an edge and a wall tested at a time: the numbers of one test stay in the processor's cache."""


class Indicators:
    """Watches an evaluation of the landmark graph that a checkpoint holds."""

    def __init__(self, graph: Mapping[str, Array], landmark_poses: Array, world: World) -> None:
        self._edges = edge_ends(graph, landmark_poses)
        self._walls = world.walls()
        known = landmark_poses[np.isfinite(landmark_poses).all(1), :2]
        self._apart = world.walking_distances(known) if len(known) > 1 else None
        self._localization = Localization(landmark_poses, world.radius)
        self._waypoints = Waypoints(landmark_poses, world.radius)

    def __call__(self, step: Step, policy: Policy) -> None:
        """Compare what the policy believes at this step with where it is."""
        explanations = [policy.explain(env) for env in step.transitions.env_indices.tolist()]
        self._localization.add(step.poses, explanations)
        self._waypoints.add(step, explanations)

    def metrics(self) -> dict[str, float]:
        """Every indicator that is known; none of a policy without landmarks."""
        edges = edge_metrics(self._edges, self._walls)
        return self._localization.metrics() | self._waypoints.metrics() | edges | spread_metrics(self._apart)


class Localization:
    """How far the landmark that the agent believes to be at is from where it is."""

    def __init__(self, landmark_poses: Array, radius: int) -> None:
        self._landmarks, self._radius = landmark_poses, radius  # [L, 3]
        self._distances: list[Array] = []  # [B] each, infinite where not localized
        self._angles: list[Array] = []  # [B] each, degrees
        self._decisions = self._localized = 0  # wherever they were made

    def add(self, poses: Array, explanations: list[Decision]) -> None:
        """One decision of environments at poses [B, 3]; poses and landmarks at unknown places count nowhere."""
        if not len(self._landmarks):
            return
        believed = np.array([-1 if seen.localized is None else seen.localized for seen in explanations], np.int64)
        self._decisions, self._localized = self._decisions + len(believed), self._localized + int((believed >= 0).sum())
        gaps = np.asarray(poses, np.float64) - self._landmarks[believed]
        known = np.isfinite(poses).all(1) & ((believed < 0) | np.isfinite(gaps).all(1))
        distances = np.where(believed < 0, np.inf, np.hypot(gaps[:, 0], gaps[:, 1]))
        self._distances.append(distances[known])
        self._angles.append(np.abs((gaps[:, 2] + 180.0) % 360.0 - 180.0)[known & (believed >= 0)])

    def metrics(self) -> dict[str, float]:
        """Shares over all decisions and over the localized ones, and medians over the latter.

        Without true poses all that can be said is how many decisions were localized.
        """
        distances = np.concatenate([np.empty(0), *self._distances])
        if distances.size == 0:
            return {"graph/localized_in_evaluation": self._localized / self._decisions} if self._decisions else {}
        localized, within = np.isfinite(distances), distances <= self._radius
        name = f"graph/localization_within_{self._radius}"
        shares = {"graph/localized_in_evaluation": float(localized.mean()), f"{name}_of_all": float(within.mean())}
        if not localized.any():
            return shares
        return shares | {
            name: float(within[localized].mean()),
            "graph/localization_distance_median": float(np.median(distances[localized])),
            "graph/localization_angle_median": float(np.median(np.concatenate(self._angles))),
        }


@dataclass(frozen=True)
class Leg:
    """A waypoint, from the decision that made it the target to its end."""

    source: int | None
    """The landmark before it on the route; None: the route begins with it."""
    target: int
    from_source: bool = False
    """The agent was truly at the source when it set out."""
    decisions: int = 0
    reached: int | None = None
    """The landmark at which the agent believed to be when it ended: the target or one further along its route; None: it
    was given up."""
    true: bool = False
    """And the agent was there."""
    afar: bool = False
    """The target lay beyond the radius when the agent set out for it."""
    met: bool = False
    """The agent was truly at it, or at the one further along, while it was the target; whether it knew or not."""


@dataclass
class Waypoints:
    """What became of the landmarks that the agent walked to, one after the other.

    A waypoint that is open when the budget is used up was given up; one that is open when the goal is reached counts
    nowhere.
    """

    landmark_poses: Array  # [L, 3]
    radius: int
    legs: list[Leg] = field(default_factory=list)
    _open: dict[int, Leg] = field(default_factory=dict)  # by environment

    def add(self, step: Step, explanations: list[Decision]) -> None:
        """One decision of several environments."""
        envs = step.transitions.env_indices.tolist()
        for env, pose, seen in zip(envs, step.poses, explanations, strict=True):
            self._close(env, pose, seen)
            if seen.target is not None and env not in self._open and self._knows(pose, seen.target):
                source = _before(seen.target, seen.route)
                from_source = source is not None and self._at(pose, source)
                self._open[env] = Leg(source, seen.target, from_source, afar=not self._at(pose, seen.target))
            if env in self._open:
                leg = self._open[env]
                met = leg.met or self._at(pose, leg.target)
                self._open[env] = replace(leg, decisions=leg.decisions + 1, met=met)
        for row in step.ended:
            left = self._open.pop(envs[row], None)
            if left is not None and not step.succeeded[row] and row not in step.broken:
                self.legs.append(replace(left, met=left.met or self._at(step.next_poses[row], left.target)))

    def _close(self, env: int, pose: Array, seen: Decision) -> None:
        """End a leg by belief or for another target; random steps (no target) do not change where it is going."""
        leg = self._open.get(env)
        if leg is not None and seen.reached is not None:
            leg = replace(leg, reached=seen.reached, true=self._at(pose, seen.reached))
        elif leg is None or seen.target in (None, leg.target):
            return
        self.legs.append(replace(leg, met=leg.met or leg.true or self._at(pose, leg.target)))
        del self._open[env]

    def _knows(self, pose: Array, target: int) -> bool:
        """The target is a landmark, not the goal, and where it and the agent are is known."""
        return target >= 0 and bool(np.isfinite([*pose, *self.landmark_poses[target]]).all())

    def _at(self, pose: Array, landmark: int) -> bool:
        return bool(np.hypot(*(pose[:2] - self.landmark_poses[landmark, :2])) <= self.radius)

    def metrics(self) -> dict[str, float]:
        """Nothing without waypoints."""
        if not self.legs:
            return {}
        believed = [leg.true for leg in self.legs if leg.reached is not None]
        parts = {
            "eval/waypoint_given_up": [leg.reached is None for leg in self.legs],
            "eval/waypoint_truly_reached": [leg.met for leg in self.legs],
            "eval/waypoint_truly_reached_from_afar": [leg.met for leg in self.legs if leg.afar],
            "eval/waypoint_belief_true": believed,
        }
        shares = {name: sum(part) / len(part) for name, part in parts.items() if part}
        return {"eval/waypoint_count": float(len(self.legs))} | shares


def _before(waypoint: int, route: tuple[int, ...]) -> int | None:
    place = route.index(waypoint) if waypoint in route else 0
    return route[place - 1] if place > 0 else None


def spread_metrics(apart: Array | None) -> dict[str, float]:
    """The mean walking distance [L, L] between two landmarks, where it is known."""
    if apart is None:
        return {}
    return {"graph/landmark_distance": float(apart[~np.eye(len(apart), dtype=bool)].mean())}


def edge_metrics(ends: Array, walls: Array | None) -> dict[str, float]:
    """Length of edges [E, 4] and the share that crosses a wall; nothing of edges at unknown places."""
    ends = ends[np.isfinite(ends).all(1)]
    if not len(ends):
        return {}
    length = float(np.median(np.hypot(ends[:, 2] - ends[:, 0], ends[:, 3] - ends[:, 1])))
    metrics = {"graph/edge_length_median": length}
    return metrics if walls is None else metrics | {"graph/edges_across_walls": float(crossing(ends, walls).mean())}


def crossing(lines: Array, walls: Array) -> Array:
    """[E] bool: the straight line [E, 4] (x1, y1, x2, y2) crosses one of the walls [W, 4]."""
    lines, walls = np.asarray(lines, np.float64), np.asarray(walls, np.float64)
    lower, upper = np.minimum(walls[:, :2], walls[:, 2:]), np.maximum(walls[:, :2], walls[:, 2:])
    _, tiles = np.unique(np.floor((lines[:, :2] + lines[:, 2:]) / 2 / TILE), axis=0, return_inverse=True)
    tiles = tiles.reshape(-1)  # numpy 2.0 alone gives them another shape
    crossed = np.zeros(len(lines), bool)
    for tile in range(tiles.max(initial=-1) + 1):
        rows = np.flatnonzero(tiles == tile)
        ends = lines[rows].reshape(-1, 2)
        near = walls[((upper >= ends.min(0)) & (lower <= ends.max(0))).all(1)]
        for part in np.array_split(rows, len(rows) * len(near) // CHUNK + 1):
            crossed[part] = (_parts(lines[part], near) & _parts(near, lines[part]).T).any(1)
    return crossed


def _parts(lines: Array, others: Array) -> Array:
    """[A, B] bool: the endless line through each of `lines` [A, 4] has the two ends of each of `others` [B, 4] on
    different sides. An end on the line counts to one side, so that a line through a corner crosses one of its walls."""
    (x, y), (dx, dy) = lines[:, :2].T, (lines[:, 2:] - lines[:, :2]).T
    normals = np.stack([-dy, dx, dy * x - dx * y], axis=1)
    first, second = (normals @ np.vstack([ends.T, np.ones(len(ends))]) >= 0 for ends in (others[:, :2], others[:, 2:]))
    return np.asarray(first != second)


BLOCK = 256
"""Observations that are compared with the goals at once."""

PARTS = 64
"""Sums of an observation that distances are first told from."""

ROUNDING = 1e-9
"""By which share of their sizes a distance by products may be wrong, at most."""

MOST_KNOWN = 200_000
"""Observations that are remembered as asked about; beyond it they are forgotten and asked about again."""


class UnseenGoals(Protocol):
    """The goals that training has not come near so far."""

    def add(self, step: Step) -> None:
        """Look at a step of training."""

    def metrics(self, poses: PoseLog) -> dict[str, float]:
        """`explore/goals_unseen`, given the poses of all steps so far; nothing where it is not known."""

    def state(self) -> list[int] | None:
        """For a checkpoint: the numbers of the goals; None: they follow from the poses."""

    def load_state(self, state: list[int] | None) -> None:
        """Go on from what `state` returned."""


def unseen_goals(world: World, tasks: Sequence[Task]) -> UnseenGoals:
    """The distinct goals of a run's tasks, none seen yet."""
    goals = [task.goal for task in tasks if task.goal is not None]
    pictured = [np.asarray(goal) for goal in goals if not isinstance(goal, tuple)]
    if pictured:
        return UnseenObservations(pictured, world.goal_reached())
    places = np.array([goal[:2] for goal in goals], np.float64).reshape(-1, 2)
    return UnseenPositions(places, world.goal_radius)


class UnseenPositions:
    """Goals at known places."""

    def __init__(self, places: Array, radius: float) -> None:
        self._unseen = np.unique(places, axis=0)  # [G, 2]
        self._total, self._radius = len(self._unseen), radius
        self._looked = 0  # at so many of the poses

    def add(self, step: Step) -> None:
        """Nothing to do: `PoseLog` has the poses."""

    def metrics(self, poses: PoseLog) -> dict[str, float]:
        """Compare the poses since the last call with the goals."""
        if not self._total or not len(poses):
            return {}
        fresh = np.unique(np.asarray(poses.since(self._looked)[:, :2], np.float64), axis=0)
        self._looked = len(poses)
        for first in range(0, len(fresh), BLOCK):
            gaps = self._unseen[:, None] - fresh[first : first + BLOCK]
            self._unseen = self._unseen[~(np.hypot(gaps[..., 0], gaps[..., 1]) <= self._radius).any(1)]
        return {"explore/goals_unseen": len(self._unseen) / self._total}

    def state(self) -> None:
        """None: they follow from the poses, which a checkpoint has."""

    def load_state(self, state: list[int] | None) -> None:
        """Compare all poses again."""
        self._looked = 0


class UnseenObservations:
    """Goals that are observations."""

    def __init__(self, goals: Sequence[Observation], reached: GoalReached) -> None:
        distinct = {_key(goal): goal for goal in goals}
        self._goals = list(distinct.values())
        self._finder = _finder(self._goals, reached)

    def add(self, step: Step) -> None:
        """Look at the observations of a step, and at the last ones of episodes that ended."""
        if not self._finder.unseen:
            return
        seen, infos = step.transitions.observations, step.infos or ({},) * len(step.poses)
        for observation, info in zip(seen, infos, strict=True):
            self._finder.look(observation, info)
        for row in step.ended:
            info = step.next_infos[row] if step.next_infos else {}
            self._finder.look(step.transitions.next_observations[row], info)

    def metrics(self, poses: PoseLog) -> dict[str, float]:
        """The share of the goals that were not seen."""
        if not len(poses):
            return {}
        self._finder.finish()
        return {"explore/goals_unseen": len(self._finder.unseen) / len(self._goals)}

    def state(self) -> list[int]:
        """The numbers of the goals that were not seen."""
        self._finder.finish()
        return sorted(self._finder.unseen)

    def load_state(self, state: list[int] | None) -> None:
        """Only these goals are not seen yet."""
        assert state is not None
        self._finder.unseen = set(state)


class _Finder:
    """Goals by their numbers, and what is compared with them."""

    def __init__(self, goals: Sequence[Observation]) -> None:
        self._goals = goals
        self.unseen = set(range(len(goals)))

    def look(self, observation: Observation, info: dict[str, Any]) -> None:
        """An observation of training."""
        raise NotImplementedError

    def finish(self) -> None:
        """Compare the observations that were collected."""


class _Equal(_Finder):
    """Goals that are reached by the very same observation."""

    def __init__(self, goals: Sequence[Observation]) -> None:
        super().__init__(goals)
        self._numbers = {_key(goal): number for number, goal in enumerate(goals) if np.array_equal(goal, goal)}

    def look(self, observation: Observation, info: dict[str, Any]) -> None:
        """Find the goal that equals it in a table."""
        number = self._numbers.get(_key(observation))
        if number is not None:
            self.unseen.discard(number)


class _WithinRadius(_Finder):
    """Goals that are reached within a distance, found by sums over parts of the observations.

    Two observations are at least as far apart as their sums are (divided by the root of a part's length, by Cauchy and
    Schwarz), so that few pairs have to be measured in full, also of pictures.
    """

    def __init__(self, goals: Sequence[Observation], radius: float) -> None:
        super().__init__(goals)
        self._radius = radius
        self._sums = _sums(goals)  # [G, K]
        self._waiting: list[Observation] = []

    def look(self, observation: Observation, info: dict[str, Any]) -> None:
        """Collect observations, to compare a block of them at once."""
        self._waiting.append(np.array(observation))
        if len(self._waiting) == BLOCK:
            self.finish()

    def finish(self) -> None:
        """Products find the pairs that may be near; rounding decides nothing, as those are measured one by one."""
        waiting, self._waiting = self._waiting, []
        if not waiting or not self.unseen:
            return
        numbers = np.array(sorted(self.unseen))
        seen, goals = _sums(waiting), self._sums[numbers]
        sizes = (seen**2).sum(1)[:, None] + (goals**2).sum(1)
        maybe = sizes - 2 * seen @ goals.T <= self._radius**2 + ROUNDING * sizes  # [B, G]
        for place in np.flatnonzero(maybe.any(0)).tolist():
            goal = self._goals[numbers[place]]
            if any(self._is_near(waiting[row], goal) for row in np.flatnonzero(maybe[:, place]).tolist()):
                self.unseen.discard(int(numbers[place]))

    def _is_near(self, observation: Observation, goal: Observation) -> bool:
        return bool(np.linalg.norm(np.subtract(observation, goal, dtype=float)) <= self._radius)


def _sums(observations: Sequence[Observation]) -> Array:
    """[N, K] sums over at most `PARTS` parts of each observation, divided by the root of a part's length."""
    flat = np.stack([np.ravel(observation) for observation in observations])
    length = -(-flat.shape[1] // PARTS)
    starts = np.arange(0, flat.shape[1], length)
    return np.asarray(np.add.reduceat(flat, starts, axis=1, dtype=np.float64) / length**0.5)


class _ByFunction(_Finder):
    """Goals that are reached when a function says so: it is asked once of each observation with its info."""

    def __init__(self, goals: Sequence[Observation], reaches: GoalTest) -> None:
        super().__init__(goals)
        self._reaches = reaches
        self._known: set[int] = set()

    def look(self, observation: Observation, info: dict[str, Any]) -> None:
        """Ask the test of goals, unless it was asked about such an observation before."""
        key = hash((_key(observation), repr(info)))
        if key in self._known:
            return
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known.add(key)
        self.unseen -= {number for number in self.unseen if self._reaches(observation, self._goals[number], info)}


def _finder(goals: Sequence[Observation], reached: GoalReached) -> _Finder:
    if reached == "equal":
        return _Equal(goals)
    return _ByFunction(goals, reached) if callable(reached) else _WithinRadius(goals, float(reached))


def _key(observation: Observation) -> bytes:
    """Equal for equal observations: of the two zeros of floats there is only one."""
    array = np.asarray(observation)
    return (array + 0.0 if array.dtype.kind == "f" else array).tobytes()
