"""Agents at play: each a frozen policy in a world of its own, one decision at a time, told as events."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

import numpy as np

from sfl.api import ActionValuePolicy, Array, Decision, Observation, Policy, Step
from sfl.run.evaluate import freeze, open_world
from sfl.run.folder import LoadedRun
from sfl.run.rollout import rollout
from sfl.show.views import poses_agree
from sfl.studio.answers import numbers
from sfl.studio.views import Window
from sfl.worlds import EnvConfig, Task, make_env
from sfl.worlds.session import Env, EnvSession

Event = dict[str, Any]
"""One thing that happened, as JSON."""

DIGITS = 7
"""Of the values of actions: those of psi(s, a) differ little."""

_POLICIES = threading.Lock()
"""Frozen copies of one agent share its eyes, which on a GPU write to the same places: one decision at a time."""


class Player:
    """One agent on one task. All chance comes from `seed`, as in an evaluation with it."""

    def __init__(self, number: int, run: LoadedRun, task: Task, seed: int, spawn: str | None = None) -> None:
        """`spawn`: where an episode starts that is given no start, if not where the run's own do."""
        self.number, self._run, self._task = number, run, task
        self.steps = 0
        """Actions so far."""
        self.over = False
        """Its end was told."""
        config = _prepared(run.experiment.env, task.budget, spawn)
        self._trivial = open_world(config).solved_at_start(task) if isinstance(task.goal, tuple) else False
        self._known = poses_agree(run)
        with _POLICIES:
            policy, self._queue = freeze(run.agent, [task], seed)
        self._env = make_env(config)
        self._eye = _Eye(policy, self._env)

    def play(self) -> Iterator[list[Event]]:
        """What happens at each decision; nothing is computed before it is asked for."""
        yield from self._solved() if self._trivial else self._walk()

    def stop(self) -> list[Event]:
        """Break it off; what there is to say of it."""
        return [] if self.over else [self._end("stopped")]

    def close(self) -> None:
        """End its world."""
        self._env.close()

    def _walk(self) -> Iterator[list[Event]]:
        lost = False
        for step in rollout(self._eye, EnvSession([self._env], self._queue)):
            events = [self._begin(step.poses[0])] if step.lengths[0] == 1 else []
            eye, explained = self._eye, self._eye.explained
            lost = lost or not explained.route_found
            if explained.arrived and not isinstance(self._task.goal, tuple) and self._in_maze:
                # Nobody else can say so. The action after that is nobody's business.
                yield [*events, self._step(step.poses[0], eye.picture, None, explained), self._end("believed")]
                return
            action = int(step.transitions.actions[0])
            events.append(self._step(step.poses[0], eye.picture, action, explained))
            self.steps = int(step.lengths[0])
            if step.ended:
                events += self._last(step, explained, lost)
            yield events

    def _last(self, step: Step, explained: Decision, lost: bool) -> list[Event]:
        reached = bool(step.succeeded[0])
        broken = not reached and self._in_maze and self.steps < self._task.budget
        outcome = "reached" if reached else "broken" if broken else "no_route" if lost else "timeout"
        thought = replace(explained, values=(), values_name="", reached=None)
        return [self._step(step.next_poses[0], self._eye.now(), None, thought, reached), self._end(outcome)]

    def _solved(self) -> Iterator[list[Event]]:
        """The start lies within reach of the goal: there is nothing to decide, as in an evaluation."""
        observation, info = self._env.reset(options=self._task.options())
        self._eye.goal = np.asarray(observation["desired_goal"])
        pose = info["pose"]
        yield [
            self._begin(pose),
            self._step(pose, self._eye.now(), None, Decision(), True),
            self._end("reached"),
        ]

    # ---- events

    @property
    def _in_maze(self) -> bool:
        return self._run.experiment.env.kind == "maze"

    def _begin(self, start: Array) -> Event:
        goal = self._task.goal
        return {
            "type": "begin",
            "player": self.number,
            "goal_picture": self._eye.goal_picture(),
            "start": _pose(start),
            "goal": _pose(np.array(goal)) if isinstance(goal, tuple) else None,
            "budget": self._task.budget,
            "actions": _action_names(self._run.experiment.env, self._env),
        }

    def _step(
        self, pose: Array, picture: str | None, action: int | None, explained: Decision, reached: bool = False
    ) -> Event:
        """`reached` is the environment's word on the goal; `passed` is the agent's belief about a landmark."""
        believed = self._seen_at(explained.localized)
        off = None if believed is None else float(np.hypot(*(believed[:2] - pose[:2])))
        return {
            "type": "step",
            "player": self.number,
            "step": self.steps,
            "pose": _pose(pose),
            "picture": picture,
            "action": action,
            "values": [_short(value) for value in explained.values] or None,
            "values_name": explained.values_name or None,
            "localized": explained.localized,
            "believed": None if believed is None else _pose(believed),
            "off": None if off is None or not math.isfinite(off) else round(off, 2),
            "target": explained.target,
            "route": list(explained.route),
            "route_found": explained.route_found,
            "passed": explained.reached,
            "reached": reached,
        }

    def _end(self, outcome: str) -> Event:
        self.over = True
        return {"type": "end", "player": self.number, "outcome": outcome, "steps": self.steps}

    def _seen_at(self, landmark: int | None) -> Array | None:
        return self._run.landmark_poses[landmark] if self._known and landmark is not None else None


class _Eye:
    """A policy that remembers the last thing it saw, and what it made of it, while its world still stands there."""

    def __init__(self, policy: Policy, env: Env) -> None:
        self._policy, self._window = policy, Window(env)
        self.goal: Observation | None = None
        self.picture: str | None = None
        self.explained = Decision()

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """The episode begins."""
        self.goal = goal
        with _POLICIES:
            self._policy.begin_episode(env_index, goal)

    def act(self, observations: Array, env_indices: Array) -> Array:
        """Act as the policy does, and look."""
        with _POLICIES:
            policy, actions = self._policy, self._policy.act(observations, env_indices)
            self.explained = policy.action_values(0) if isinstance(policy, ActionValuePolicy) else policy.explain(0)
        self.picture = self.now()
        return actions

    def explain(self, env_index: int) -> Decision:
        """What the policy said."""
        return self.explained

    def now(self) -> str | None:
        """What the world looks like at this moment."""
        return self._window.now()

    def goal_picture(self) -> str | None:
        """What the goal looks like."""
        return None if self.goal is None else self._window.of(self.goal)


def gather(runs: Sequence[LoadedRun], task: Task, seed: int) -> list[Player]:
    """The agents of some runs on one task, with a world each; all of these are closed if one cannot be made."""
    spawn = getattr(runs[0].experiment.env, "spawn", None)
    with ExitStack() as stack:
        players = [
            stack.enter_context(closing(Player(number, run, task, seed, spawn))) for number, run in enumerate(runs)
        ]
        stack.pop_all()
    return players


def rounds(players: Sequence[Player]) -> Iterator[list[Event]]:
    """One decision of everyone who is not there yet, again and again; the events of each."""
    playing = [player.play() for player in players]
    while playing:
        made = [(play, next(play, None)) for play in playing]
        playing = [play for play, events in made if events is not None]
        if playing:
            yield [event for _, events in made if events is not None for event in events]


def _prepared(config: EnvConfig, budget: int, spawn: str | None) -> EnvConfig:
    """The same world, with time for the episode, the same starts for all players, and drawing itself."""
    shown = config.to_show(budget)
    if shown.kind == "other" or not spawn:
        return shown
    return replace(shown, spawn=spawn)  # type: ignore[arg-type]  # one of its kind


def _action_names(config: EnvConfig, env: Env) -> list[str]:
    space: Any = env.action_space
    return list(config.action_names) or [str(number) for number in range(space.n)]


def _pose(pose: Array) -> list[Any] | None:
    """None where the world does not say."""
    return numbers(pose) if np.isfinite(pose).all() else None


def _short(value: float) -> float | None:
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
