"""A navigator that is told what is seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfl.api import Decision
from sfl.method.config import NavigatorConfig
from sfl.method.landmarks import LandmarkSet
from sfl.method.navigator import Navigator, Outcomes
from sfl.method.planner import Planner

from .drawing import both_ways, draw

# A chain 0 - 1 - 2 - 3 with a branch 1 - 4 - 3 that costs more; 5 stands alone.
CHAIN = Planner(draw(6, both_ways({(0, 1): 1.0, (1, 2): 1.0, (2, 3): 1.0, (1, 4): 2.0, (4, 3): 2.0})))


OLD = {"frontier_among": "component", "reached": "localized"}


class Script:
    """One navigator on a drawn graph, told what is seen."""

    def __init__(self, planner: Planner = CHAIN, frontier: int | None = None, **settings: object) -> None:
        self.navigator = Navigator(NavigatorConfig(**(OLD | settings)), Outcomes())  # type: ignore[arg-type]
        self.decision = Decision()
        self.planner, self.rng = planner, np.random.default_rng(0)
        self.landmarks = LandmarkSet(planner.edges.size)
        for index in range(planner.edges.size):
            self.landmarks.add(index, 0)
            # Ten million visits to all but one landmark leave one choice of a frontier.
            self.landmarks._visits[index] = 0 if frontier in (None, index) else 10**7

    def begin(self, goal_links: list[int] | None = None) -> Script:
        self.navigator.begin(None if goal_links is None else np.array(goal_links))
        return self

    def see(self, localized: int | None, nearest: int | None = 0, ahead: Sequence[float] = ()) -> int | None:
        at = localized if localized is not None else nearest
        self.decision = Decision(localized=localized, nearest=at, ahead=tuple(ahead))
        self.navigator.decide(self.decision, self.planner, self.landmarks, self.rng)
        return self.decision.heading

    @property
    def route(self) -> tuple[int, ...]:
        assert self.navigator.trip is not None
        return self.navigator.trip.route
