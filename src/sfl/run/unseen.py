"""Which goals of the exam training never came near: a method cannot be asked the way to what it never saw.

Where a goal is a pose, the true poses of training say it; where it is an observation, the environment's own test of
goals does, asked of every observation of training. Draws nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from sfl.api import Array, Observation, Step
from sfl.run.poses import PoseLog
from sfl.worlds import Task
from sfl.worlds.gym import GoalReached, GoalTest
from sfl.worlds.world import World

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

    def restore(self, state: list[int] | None) -> None:
        """Go on from there; None: the checkpoint is older than this metric."""


def unseen_goals(world: World, tasks: Sequence[Task]) -> UnseenGoals:
    """Those of a run's tasks, each goal once."""
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
        """The poses are noted elsewhere."""

    def metrics(self, poses: PoseLog) -> dict[str, float]:
        """Look at the poses that have come since this was last asked."""
        if not self._total or not len(poses):
            return {}
        fresh = np.unique(np.asarray(poses.since(self._looked)[:, :2], np.float64), axis=0)
        self._looked = len(poses)
        for first in range(0, len(fresh), BLOCK):
            gaps = self._unseen[:, None] - fresh[first : first + BLOCK]
            self._unseen = self._unseen[~(np.hypot(gaps[..., 0], gaps[..., 1]) <= self._radius).any(1)]
        return {"explore/goals_unseen": len(self._unseen) / self._total}

    def state(self) -> None:
        """They follow from the poses, which a checkpoint has."""

    def restore(self, state: list[int] | None) -> None:
        """All poses are looked at again."""
        self._looked = 0


class UnseenObservations:
    """Goals that are observations."""

    def __init__(self, goals: Sequence[Observation], reached: GoalReached) -> None:
        distinct = {_key(goal): goal for goal in goals}
        self._goals = list(distinct.values())
        self._finder = _finder(self._goals, reached)
        self._known = True  # whether all of training was looked at

    def add(self, step: Step) -> None:
        """All that was seen, also where an episode ended."""
        if not self._finder.unseen:
            return
        seen, infos = step.transitions.observations, step.infos or ({},) * len(step.poses)
        for observation, info in zip(seen, infos, strict=True):
            self._finder.look(observation, info)
        for row in step.ended:
            info = step.next_infos[row] if step.next_infos else {}
            self._finder.look(step.transitions.next_observations[row], info)

    def metrics(self, poses: PoseLog) -> dict[str, float]:
        """Nothing after a checkpoint that did not know of it."""
        if not self._known or not len(poses):
            return {}
        self._finder.finish()
        return {"explore/goals_unseen": len(self._finder.unseen) / len(self._goals)}

    def state(self) -> list[int] | None:
        """The numbers of the goals."""
        self._finder.finish()
        return sorted(self._finder.unseen) if self._known else None

    def restore(self, state: list[int] | None) -> None:
        """Without a state nobody looked until now, so that nothing is known for good."""
        self._known = state is not None
        self._finder.keep(set(state or ()))


class _Finder:
    """Goals by their numbers, and what is compared with them."""

    def __init__(self, goals: Sequence[Observation]) -> None:
        self._goals = goals
        self.unseen = set(range(len(goals)))

    def look(self, observation: Observation, info: dict[str, Any]) -> None:
        """An observation of training."""
        raise NotImplementedError

    def finish(self) -> None:
        """Compare what still waits for it."""

    def keep(self, numbers: set[int]) -> None:
        """Only these goals are not seen yet."""
        self.unseen = numbers


class _Equal(_Finder):
    """Goals that are reached by the very same observation."""

    def __init__(self, goals: Sequence[Observation]) -> None:
        super().__init__(goals)
        self._numbers = {_key(goal): number for number, goal in enumerate(goals) if np.array_equal(goal, goal)}

    def look(self, observation: Observation, info: dict[str, Any]) -> None:
        """One look into a table."""
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
        """It waits for others."""
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
        """Of the goals not seen yet."""
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
