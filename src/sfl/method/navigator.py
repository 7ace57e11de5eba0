"""Where to go now: frontiers, trips and random steps (Algorithm 1), walked waypoint by waypoint (Algorithm 3).

One navigator leads the agent of one environment. It sees landmarks as numbers only: it is given a decision that says
where the agent is, and completes it with where to go. Algorithm 3 as printed loops while the target is not reached *or*
the episode goes on; it must end at the target or with the episode, and does so here: the end of an episode is the next
`begin`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from sfl.api import GOAL, Array, Decision
from sfl.errors import NoRouteError
from sfl.method.config import Frontier, NavigatorConfig
from sfl.method.landmarks import LandmarkSet
from sfl.method.planner import Planner, Route


@dataclass
class Outcomes:
    """What became of legs and trips, written down by the navigators that are given it, until someone reads it."""

    walked: list[tuple[int, int]] = field(default_factory=list)
    """Edges that were walked as planned."""
    failed: list[tuple[int, int]] = field(default_factory=list)
    """Edges that were set out on and not walked to their end."""
    trips: list[bool] = field(default_factory=list)
    """Trips that ended, by whether they came to their destination."""

    def clear(self) -> None:
        """All of it has been read."""
        for column in (self.walked, self.failed, self.trips):
            column.clear()


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
    """Leads one environment's agent: on a trip (traverse), or not (explore at random)."""

    def __init__(self, config: NavigatorConfig, outcomes: Outcomes) -> None:
        self.config, self.outcomes = config, outcomes
        self.trip: Trip | None = None
        self.goal_links: Array | None = None
        self.route_found = True
        self._not_at: set[int] = set()  # landmarks that the goal is joined to, but it was not found there
        self._avoided: set[tuple[int, int]] = set()  # edges that failed in this episode
        self._explore_left = 0
        self._trips = 0

    def begin(self, goal_links: Array | None) -> None:
        """A new episode. `goal_links` are the landmarks that the goal is joined to, best first; None = explore."""
        self.trip, self.goal_links, self.route_found = None, goal_links, True
        self._avoided.clear()
        self._not_at.clear()
        self._explore_left = self._trips = 0

    def abandon(self) -> None:
        """The landmarks are others: the trip leads nowhere."""
        self.trip = None
        self._avoided.clear()

    def waypoints(self) -> Route:
        """What to know the SFS of before the next decision: the next landmarks of the route, the goal among them."""
        if self.trip is None or self.config.reached != "similar":
            return ()
        return self.trip.route[self.trip.position : self.trip.position + self.config.look_ahead]

    def decide(self, decision: Decision, planner: Planner, landmarks: LandmarkSet, rng: np.random.Generator) -> None:
        """Complete a decision that says what was seen: where to head, or nothing, which is to act at random."""
        ahead: Sequence[float] = ()
        if self.trip is not None:
            ahead = self._follow(self.trip, decision, planner)
        if self.trip is None and self.goal_links is not None:
            self._plan_to_goal(decision, planner)
        elif self.trip is None and self._may_set_out(decision):
            self._plan_to_frontier(decision, planner, landmarks, rng)
        trip, decision.route_found = self.trip, self.route_found
        if trip is None:
            self._explore_left -= 1  # Algorithm 1, line 9
            return
        decision.route = trip.route
        trip.steps += 1
        if trip.shake_left > 0:
            trip.shake_left -= 1
            return
        trip.steps_on_leg += 1
        decision.target = trip.route[trip.position]
        near = [place for place, sfs in enumerate(ahead) if sfs >= self.config.aim_threshold]
        decision.heading = trip.route[trip.position + max(near, default=0)]

    # ---- Algorithm 3: from waypoint to waypoint

    def _follow(self, trip: Trip, decision: Decision, planner: Planner) -> Sequence[float]:
        """Advance along the route, plan anew, or end the trip; returns the SFS to the waypoints that are next then."""
        ahead: Sequence[float] = decision.ahead
        passed = self._passed(decision, trip.route[trip.position :])
        if passed:
            trip.position += passed
            ahead = ahead[passed:]
            decision.reached = trip.route[trip.position - 1]
            trip.steps_on_leg = trip.off_route = 0
            self._book_walked(trip)
            if trip.position == len(trip.route):
                self._end_trip(reached=True)
        elif self._lost(decision, trip):
            late = self._late(trip)
            self._replan(trip, decision, planner)
            ahead = ()
            if late and self.trip is not None:
                self.trip.shake_left = self.config.shake_steps
        if self.trip is not None and trip.steps >= trip.limit:
            self._end_trip(reached=False)
        return ahead

    def _passed(self, decision: Decision, ahead: Route) -> int:
        """How many landmarks of the route are behind the agent once the farthest that counts as reached is."""
        here = self._here(decision)
        reached = [] if here is None or here not in ahead else [ahead.index(here)]
        for place, sfs in enumerate(decision.ahead):
            if sfs >= self.config.reach_threshold and ahead[place] != GOAL:
                reached.append(place)
        return max(reached, default=-1) + 1

    def _here(self, decision: Decision) -> int | None:
        """The landmark where the agent takes itself to be on a trip."""
        return decision.nearest if self.config.reached == "nearest" else decision.localized

    def _lost(self, decision: Decision, trip: Trip) -> bool:
        if decision.localized is not None:
            trip.off_route = 0 if decision.localized in trip.route else trip.off_route + 1
        off = self.config.replan_off_route and trip.off_route >= self.config.off_route_patience
        return off or self._late(trip)

    def _late(self, trip: Trip) -> bool:
        return 0 < self.config.replan_after <= trip.steps_on_leg

    def _book_walked(self, trip: Trip) -> None:
        """The legs that a failure of the next one can no longer be blamed on."""
        last = max(trip.settled, trip.position - (1 if self.config.blame == "leg" else 2))
        self.outcomes.walked += pairwise(trip.route[trip.settled : last + 1])
        trip.settled = last

    def _replan(self, trip: Trip, decision: Decision, planner: Planner) -> None:
        """The leg has failed: book it, and go on to the same destination from where the agent seems to be."""
        if trip.route[trip.position] == GOAL:
            self._not_at.add(trip.route[trip.position - 1])
        else:
            failed = list(pairwise(trip.route[trip.settled : trip.position + 1]))
            self.outcomes.failed += failed
            self._avoided.update(failed)
        start = _start(decision)
        trip.steps_on_leg = trip.off_route = 0
        if start is None:
            return
        try:
            trip.route = self._detour(start, trip.route[-1], planner)
            trip.position, trip.settled = first_waypoint(trip.route, self._here(decision)), 0
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
        self.outcomes.trips.append(reached)
        self._explore_left = self.config.explore_steps

    # ---- Algorithm 1: the next trip

    def _may_set_out(self, decision: Decision) -> bool:
        """The random steps are over, there is a landmark, and another trip is allowed."""
        tripped = self.config.one_trip and self._trips > 0
        return self._explore_left <= 0 and not tripped and decision.nearest is not None

    def _plan_to_frontier(
        self, decision: Decision, planner: Planner, landmarks: LandmarkSet, rng: np.random.Generator
    ) -> None:
        """Algorithm 1, lines 3 and 5."""
        start = _start(decision)
        assert start is not None
        self._trips += 1
        among = planner.companions(start) if self.config.frontier_among == "component" else np.arange(landmarks.count)
        frontier = draw_frontier(among, landmarks.visits, self.config.frontier, rng)
        try:
            route = draw_route(planner, start, frontier, self.config.route_choices, rng)
            limit = min(self.config.frontier_steps, self.config.steps_per_landmark * len(route))
            self.trip = Trip(route, first_waypoint(route, self._here(decision)), limit)
        except NoRouteError:
            self.trip = Trip((frontier,), 0, self.config.frontier_steps)

    def _plan_to_goal(self, decision: Decision, planner: Planner) -> None:
        """In evaluation: along the graph to a landmark that the goal is joined to, and from there to the goal."""
        start = _start(decision)
        try:
            if start is None:
                raise NoRouteError("There is no landmark yet.")
            route = self._detour(start, GOAL, planner)
            self.trip = Trip(route, first_waypoint(route, self._here(decision)), limit=_NO_LIMIT)
        except NoRouteError:
            self._without_route()

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
        if self._not_at.issuperset(links):
            self._not_at.clear()
        return (*planner.route(start, next(link for link in links if link not in self._not_at)), GOAL)

    # ---- checkpoints

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
        """Go on with numbers made by `state`."""
        found, self._explore_left, self._trips, length, *rest = numbers
        self.route_found = bool(found)
        self._avoided = set(zip(rest[0:length:2], rest[1:length:2], strict=True))
        if len(rest) > length:
            position, limit, steps, steps_on_leg, shake_left, off_route, settled, *route = rest[length:]
            self.trip = Trip(tuple(route), position, limit, steps, steps_on_leg, shake_left, off_route, settled)


_NO_LIMIT = 2**62


def _start(decision: Decision) -> int | None:
    """Where routes are planned from."""
    return decision.localized if decision.localized is not None else decision.nearest


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
    routes = planner.shortest_routes(start, goal, choices)
    weights = np.exp(-np.arange(1.0, len(routes) + 1))
    return routes[int(rng.choice(len(routes), p=weights / weights.sum()))]
