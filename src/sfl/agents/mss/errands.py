"""Where each environment goes in training: led by the planner to a landmark, or straight to a state seen before."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from sfl.agents.mss.config import AnyMSSConfig, MSSConfig
from sfl.agents.mss.pilot import Chart
from sfl.data.types import Array
from sfl.learners.device import to_device
from sfl.learners.uvfa import UVFA

PLAN, WALK = 0, 1


class Errands:
    """Two goals for every environment, of which each decision follows one."""

    def __init__(self, config: AnyMSSConfig, blank: Tensor, count: int, rng: np.random.Generator) -> None:
        """`blank` [1, ...]: any state."""
        self._config, self._rng = config, rng
        self.goals = torch.zeros_like(blank).expand(2, count, *blank.shape[1:]).clone()
        self.onward = np.zeros((count, 0))  # values of the ways from landmarks to the planner's goals
        self._stale = np.ones((2, count), bool)  # goals to be drawn anew
        self._given = np.zeros(count, bool)  # goals that were asked for
        self._age = np.zeros(count, np.int64)  # decisions of the episode so far
        self.trips = self.arrivals = 0

    def begin_episode(self, env: int, goal: Tensor | None, chart: Chart | None, network: UVFA) -> None:
        """New goals, unless there is one that was asked for."""
        self.trips += int(not self._stale[PLAN, env] and not self._given[env])
        self._age[env], self._stale[:, env], self._given[env] = 0, True, goal is not None
        if goal is not None:
            self.goals[PLAN, env] = goal[0]
            self._stale[PLAN, env] = False
            if chart is not None:
                self.onward[env] = chart.to_goals(goal, network)[0]

    def planned(self, envs: Array) -> Array:
        """[B] bool: which decisions the planner makes, each with its share or all of a phase; one older from here."""
        if isinstance(self._config, MSSConfig):
            planned = self._rng.random(len(envs)) < self._config.plan_share
        else:
            phase, step = np.divmod(self._age[envs], self._config.cycle_steps)
            planned = phase % 2 == PLAN
            self._give_up(envs[(step == 0) & ~self._given[envs]])
        self._age[envs] += 1
        return np.asarray(planned | self._given[envs])

    def _give_up(self, envs: Array) -> None:
        """A phase is over, whatever came of it."""
        self.trips += int((~self._stale[PLAN, envs]).sum())
        self._stale[:, envs] = True

    def renew(self, envs: Array, chart: Chart, draw: Callable[[int], Tensor], network: UVFA) -> None:
        """Draw the goals that are due: a landmark for the planner, a state of the replay for the bare policy."""
        led, walking = envs[self._stale[PLAN, envs]], envs[self._stale[WALK, envs]]
        if len(led):
            picks = self._rng.integers(len(chart.landmarks), size=len(led))
            goals = chart.landmarks.index_select(0, to_device(picks, chart.landmarks.device))
            self.goals[PLAN].index_copy_(0, to_device(led, goals.device), goals)
            self.onward[led] = chart.to_goals(goals, network)
        if len(walking):
            goals = draw(len(walking))
            self.goals[WALK].index_copy_(0, to_device(walking, goals.device), goals)
        self._stale[:, envs] = False

    def goals_of(self, envs: Array, planned: Array) -> Tensor:
        """The goals [B, ...] of these decisions."""
        flat, kinds = self.goals.flatten(0, 1), np.where(planned, PLAN, WALK)
        return flat.index_select(0, to_device(kinds * self.goals.shape[1] + envs, flat.device))

    def arrive(self, envs: Array, planned: Array, arrived: Array) -> None:
        """Whoever is there goes elsewhere next, unless it was sent."""
        done = arrived & ~self._given[envs]
        self._stale[PLAN, envs[done & planned]] = True
        self._stale[WALK, envs[done & ~planned]] = True
        self.trips += int((done & planned).sum())
        self.arrivals += int((done & planned).sum())

    def rechart(self, chart: Chart, network: UVFA) -> None:
        """There is another map."""
        self.onward = chart.to_goals(self.goals[PLAN], network)

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        return {
            "errand_goals": self.goals.cpu().numpy().copy(),
            "errand_onward": self.onward.copy(),
            "errand_stale": self._stale.copy(),
            "errand_given": self._given.copy(),
            "errand_age": self._age.copy(),
            "errand_tally": np.array([self.trips, self.arrivals]),
        }

    def load_state(self, state: dict[str, Array]) -> None:
        """Take up arrays made by `state`."""
        self.goals = torch.from_numpy(state["errand_goals"].copy()).to(self.goals.device)
        self.onward, self._stale = state["errand_onward"].copy(), state["errand_stale"].copy()
        self._given, self._age = state["errand_given"].copy(), state["errand_age"].copy()
        self.trips, self.arrivals = state["errand_tally"].tolist()
