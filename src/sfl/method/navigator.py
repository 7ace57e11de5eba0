"""Where to go now: Algorithm 1 (frontier, route, random steps) and Algorithm 3 (traverse), for one environment.

The navigator sees landmark numbers only. Algorithm 3 as printed loops while the target is not reached *or* the episode
goes on; it must end at the target or with the episode, and does so here: the end of an episode is the next `begin`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sfl.api import GOAL, Array
from sfl.errors import NoRouteError
from sfl.method.config import Frontier, NavigatorConfig
from sfl.method.landmarks import LandmarkSet
from sfl.method.planner import Planner, Route, shortest_routes


@dataclass(frozen=True)
class Sighting:
    """What localization says at one decision."""

    localized: int | None  # the landmark the agent is at
    nearest: int | None  # the most similar landmark, whatever the threshold; None without landmarks
    step: int  # environment steps so far, to date failures
    ahead: Sequence[float] = ()  # SFS to what `Navigator.ahead` named, where that was asked for


@dataclass
class Trip:
    """A route being walked: `route[position]` is the landmark to go to now."""

    route: Route
    position: int
    limit: int
    steps: int = 0
    steps_on_leg: int = 0
    shake_left: int = 0
    off_route: int = 0
    """Times in a row that the agent was localized to a landmark that is not on the route."""
    settled: int = 0
    """Legs of the route, from its start, of which it is known whether they were walked; leg i ends at `route[i]`."""


class Navigator:
    """One environment's mode: on a trip (traverse), or not (explore at random)."""

    def __init__(self, config: NavigatorConfig) -> None:
        self.config = config
        self.trip: Trip | None = None
        self.goal_links: Array | None = None
        self.route_found = True
        self.reached: int | None = None
        """The landmark of the route that counted as reached at the last decision."""
        self.failures: list[tuple[int, int]] = []
        self.walks: list[tuple[int, int]] = []
        self._tried: set[int] = set()  # landmarks that the goal is joined to, but it was not found there
        self._ahead: Sequence[float] = ()  # SFS to the landmarks from `trip.position` on
        self._avoided: set[tuple[int, int]] = set()
        self.finished: list[bool] = []
        self._explore_left = 0
        self._trips = 0
        self._shaking = False

    def begin(self, goal_links: Array | None) -> None:
        """A new episode. `goal_links` are the landmarks that the goal is joined to, best first; None = explore."""
        self.trip, self.goal_links, self.route_found = None, goal_links, True
        self._avoided.clear()
        self._tried.clear()
        self._explore_left = self._trips = 0

    def abandon(self) -> None:
        """The landmarks are others: the trip leads nowhere, and what became of its legs says nothing."""
        self.trip = None
        self.failures.clear()
        self.walks.clear()
        self._avoided.clear()

    def ahead(self) -> Route:
        """What to know the SFS of before the next step: the next landmarks of the route, the goal among them."""
        if self.trip is None or self.config.reached != "similar":
            return ()
        return self.trip.route[self.trip.position : self.trip.position + self.config.look_ahead]

    @property
    def waypoint(self) -> int | None:
        """The landmark of the route (or `GOAL`) that is next to be reached; None: no trip, or random steps on one."""
        return None if self.trip is None or self._shaking else self.trip.route[self.trip.position]

    def step(self, seen: Sighting, planner: Planner, landmarks: LandmarkSet, rng: np.random.Generator) -> int | None:
        """One decision: the landmark (or `GOAL`) to go to, or None to act at random."""
        self.reached, self._ahead, self._shaking = None, seen.ahead, False
        if self.trip is not None:
            self._follow(seen, planner)
        if self.trip is None:
            self._choose(seen, planner, landmarks, rng)
        if self.trip is None:
            self._explore_left -= 1
            return None
        self.trip.steps += 1
        if self.trip.shake_left > 0:
            self.trip.shake_left -= 1
            self._shaking = True
            return None
        self.trip.steps_on_leg += 1
        return self._aim(self.trip)

    def _aim(self, trip: Trip) -> int:
        """The next landmark, or one farther ahead that is already similar enough to go straight there."""
        near = [place for place, sfs in enumerate(self._ahead) if sfs >= self.config.aim_threshold]
        return trip.route[trip.position + max(near, default=0)]

    def state(self) -> list[int]:
        """Everything but the goal as plain numbers: counters, failed edges, then the trip under way."""
        avoided = [index for pair in sorted(self._avoided) for index in pair]
        numbers = [int(self.route_found), self._explore_left, self._trips, len(avoided), *avoided]
        if self.trip is not None:
            trip = self.trip
            numbers += [trip.position, trip.limit, trip.steps, trip.steps_on_leg, trip.shake_left, trip.off_route]
            numbers += [trip.settled, *trip.route]
        return numbers

    def load_state(self, numbers: list[int]) -> None:
        """Take up numbers made by `state`."""
        found, self._explore_left, self._trips, length, *rest = numbers
        self.route_found = bool(found)
        self._avoided = set(zip(rest[0:length:2], rest[1:length:2], strict=True))
        if len(rest) > length:
            position, limit, steps, steps_on_leg, shake_left, off_route, settled, *route = rest[length:]
            self.trip = Trip(tuple(route), position, limit, steps, steps_on_leg, shake_left, off_route, settled)

    def _follow(self, seen: Sighting, planner: Planner) -> None:
        """Advance along the route, plan anew, or end the trip."""
        trip = self.trip
        assert trip is not None
        passed = self._passed(seen, trip.route[trip.position :])
        if passed:
            trip.position += passed
            self._ahead = self._ahead[passed:]
            self.reached = trip.route[trip.position - 1]
            trip.steps_on_leg = trip.off_route = 0
            self._settle(trip)
            if trip.position == len(trip.route):
                self._end_trip(reached=True)
        elif self._lost(seen, trip):
            late = self._late(trip)
            self._replan(seen, planner)
            if late and self.trip is not None:
                self.trip.shake_left = self.config.shake_steps
        if self.trip is not None and trip.steps >= trip.limit:
            self._end_trip(reached=False)

    def _passed(self, seen: Sighting, ahead: Route) -> int:
        """How many landmarks of the route are behind the agent once the farthest that counts as reached is."""
        here = self._here(seen)
        reached = [] if here is None or here not in ahead else [ahead.index(here)]
        for place, sfs in enumerate(seen.ahead):
            if sfs >= self.config.reach_threshold and ahead[place] != GOAL:
                reached.append(place)
        return max(reached, default=-1) + 1

    def _here(self, seen: Sighting) -> int | None:
        """The landmark where the agent takes itself to be."""
        return seen.nearest if self.config.reached == "nearest" else seen.localized

    def _lost(self, seen: Sighting, trip: Trip) -> bool:
        if seen.localized is not None:
            trip.off_route = 0 if seen.localized in trip.route else trip.off_route + 1
        off = self.config.replan_off_route and trip.off_route >= self.config.off_route_patience
        return off or self._late(trip)

    def _late(self, trip: Trip) -> bool:
        return 0 < self.config.replan_after <= trip.steps_on_leg

    def _settle(self, trip: Trip) -> None:
        """Book the legs as walked that a failure of the next one can no longer be blamed on."""
        last = max(trip.settled, trip.position - (1 if self.config.blame == "leg" else 2))
        self.walks += pairwise(trip.route[trip.settled : last + 1])
        trip.settled = last

    def _replan(self, seen: Sighting, planner: Planner) -> None:
        """The leg has failed: book it, and go on to the same destination from where the agent seems to be."""
        trip = self.trip
        assert trip is not None
        self._ahead = ()
        if trip.route[trip.position] == GOAL:
            self._tried.add(trip.route[trip.position - 1])
        else:
            failed = list(pairwise(trip.route[trip.settled : trip.position + 1]))
            self.failures += failed
            self._avoided.update(failed)
        start = seen.localized if seen.localized is not None else seen.nearest
        trip.steps_on_leg = trip.off_route = 0
        if start is None:
            return
        try:
            trip.route = self._detour(start, trip.route[-1], planner)
            trip.position, trip.settled = first_waypoint(trip.route, self._here(seen)), 0
            self.route_found = True
        except NoRouteError:
            self._without_route()

    def _without_route(self) -> None:
        """Walk to a goal, or to a frontier that was drawn from all landmarks, directly; else give the trip up."""
        self.route_found = False
        if self.goal_links is not None:
            self.trip = Trip((GOAL,), 0, limit=_NO_LIMIT)
        elif self.trip is not None and self.config.frontier_among == "all":
            self.trip.route, self.trip.position, self.trip.settled = self.trip.route[-1:], 0, 0
        else:
            self._end_trip(reached=False)

    def _end_trip(self, reached: bool) -> None:
        self.trip = None
        self.finished.append(reached)
        self._explore_left = self.config.explore_steps

    def _choose(self, seen: Sighting, planner: Planner, landmarks: LandmarkSet, rng: np.random.Generator) -> None:
        if self.goal_links is not None:
            self._plan_to_goal(seen, planner)
        elif self._explore_left <= 0 and not (self.config.one_trip and self._trips) and seen.nearest is not None:
            self._plan_to_frontier(seen, planner, landmarks, rng)

    def _plan_to_goal(self, seen: Sighting, planner: Planner) -> None:
        start = seen.localized if seen.localized is not None else seen.nearest
        try:
            if start is None:
                raise NoRouteError("There is no landmark yet.")
            route = self._detour(start, GOAL, planner)
            self.trip = Trip(route, first_waypoint(route, self._here(seen)), limit=_NO_LIMIT)
        except NoRouteError:
            self._without_route()

    def _plan_to_frontier(
        self, seen: Sighting, planner: Planner, landmarks: LandmarkSet, rng: np.random.Generator
    ) -> None:
        start = seen.localized if seen.localized is not None else seen.nearest
        assert start is not None
        self._trips += 1
        among = planner.companions(start) if self.config.frontier_among == "component" else np.arange(landmarks.count)
        frontier = draw_frontier(among, landmarks.visits, self.config.frontier, rng)
        try:
            route = draw_route(planner, start, frontier, self.config.route_choices, rng)
            limit = min(self.config.frontier_steps, self.config.steps_per_landmark * len(route))
            self.trip = Trip(route, first_waypoint(route, self._here(seen)), limit)
        except NoRouteError:
            self.trip = Trip((frontier,), 0, self.config.frontier_steps)

    def _detour(self, start: int, destination: int, planner: Planner) -> Route:
        """A route without the edges that failed in this episode, or with them when there is no other."""
        if self.config.avoid_failed and self._avoided:
            try:
                return self._route(start, destination, planner.without(self._avoided))
            except NoRouteError:
                self._avoided.clear()
        return self._route(start, destination, planner)

    def _route(self, start: int, destination: int, planner: Planner) -> Route:
        if destination != GOAL:
            return planner.route(start, destination)
        assert self.goal_links is not None
        links = self.goal_links[np.isfinite(planner.distances(start)[self.goal_links])].tolist()
        if not links:
            raise NoRouteError(f"The landmark graph holds no route from {start} to the goal.")
        if self._tried.issuperset(links):
            self._tried.clear()
        return (*planner.route(start, next(link for link in links if link not in self._tried)), GOAL)


_NO_LIMIT = 2**62


def first_waypoint(route: Route, here: int | None) -> int:
    """Where a route begins: after its first landmark when the agent is there, and else at that landmark itself.

    The first landmark is then only the most similar one; the next may be beyond the reach of the local policy.
    """
    return 0 if here is None else min(1, len(route) - 1)


def draw_frontier(among: Array, visits: Array, rule: Frontier, rng: np.random.Generator) -> int:
    """A landmark with probability proportional to 1 / max(1, visits) (Algorithm 1, line 3), or uniformly."""
    weights = np.ones(len(among)) if rule == "uniform" else 1.0 / np.maximum(1, visits[among])
    return int(rng.choice(among, p=weights / weights.sum()))


def draw_route(planner: Planner, start: int, goal: int, choices: int, rng: np.random.Generator) -> Route:
    """The shortest route, or one of the `choices` shortest, rank r = 1, 2, ... with weight exp(-r)."""
    if choices == 1:
        return planner.route(start, goal)
    routes = shortest_routes(planner.edges, start, goal, choices)
    weights = np.exp(-np.arange(1.0, len(routes) + 1))
    return routes[int(rng.choice(len(routes), p=weights / weights.sum()))]
