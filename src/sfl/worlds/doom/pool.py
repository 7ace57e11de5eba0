"""`GamePool`: games in worker processes that step half by half, and where their episodes come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import Literal, Self

import numpy as np

from sfl.api import Array
from sfl.config import require
from sfl.errors import UsageError
from sfl.seeding import core_count
from sfl.seeding import spawn as spawn_generators
from sfl.worlds.doom.env import MAX_STEPS, numbered_actions
from sfl.worlds.doom.protocol import ACTIONS, BEGIN, DEFAULT_LIMITS, REST, STEP, Limits
from sfl.worlds.doom.tasks import GOAL_RADIUS, StartGoalSampler
from sfl.worlds.doom.workers import Workers
from sfl.worlds.mazes.layout import Maze
from sfl.worlds.tasks import Pose

NO_ACTION = len(ACTIONS) - 1


@dataclass(frozen=True)
class GameEpisode:
    """How one episode of one game begins, and how long it may last."""

    start: Pose
    goal: Pose | None = None
    """Where the goal's picture is taken; None: explore freely."""
    budget: int | None = None
    """Decisions after which the episode is truncated; None: the pool's `max_steps`."""


EpisodeSource = Callable[[int], GameEpisode | None]
"""Gives the game of an index its next episode, or None: that game then rests."""


class RandomEpisodes:
    """An endless supply without goals; every game has a generator of its own, so that their order does not matter."""

    def __init__(self, samplers: Sequence[StartGoalSampler], seed: int) -> None:
        self._samplers = samplers
        names = [f"game/{index}" for index in range(len(samplers))]
        self._rngs = list(spawn_generators(seed, names).values())

    def __call__(self, game: int) -> GameEpisode:
        """A start as the maze spawns it."""
        return GameEpisode(self._samplers[game].draw_start(self._rngs[game]))


@dataclass(frozen=True)
class GameStep:
    """What became of one decision in each game of a half."""

    frames: Array  # [n, 120, 160, 3] the newest frames, a view of shared memory: valid until the half is sent again
    poses: Array  # [n, 3]
    running: Array  # [n] bool: False where the source had no more episodes
    started: Array  # [n] bool: the first frame of an episode; the action was not carried out
    succeeded: Array  # [n] bool: within 63 units of the goal
    ended: Array  # [n] bool: the episode is over, this is its last frame; the next send begins another
    truncated: Array  # [n] bool: it is over by time, or because the game died
    restarts: Array  # [n] how often the game had to be started again so far

    @property
    def terminated(self) -> Array:
        """[n] bool: it is over because the goal was reached."""
        return np.asarray(self.ended & ~self.truncated)


def _no_more(game: int) -> None:
    """The source of a pool that is closed."""


class GamePool:
    """Games in worker processes, in halves that take turns: one half plays while the other's frames are looked at.

    Workers are fresh interpreters: a pool may start before or after the GPU. `send` and `receive` alternate for each
    half; the first `send` begins an episode in every game, and so does the one after an episode's end: the action is
    then left out, and `started` is set. Results depend on the seed, the episodes and the actions, and not on the
    number of workers.

    Gymnasium's `AsyncVectorEnv` would not do for runs: it has a process for each environment beside the game's own, all
    environments step together, so that games and GPU wait for each other, and it does not replace a process that dies.
    """

    def __init__(
        self,
        maze: Maze | Sequence[Maze],
        count: int,
        *,
        workers: int | None = None,
        halves: int = 2,
        spawn: Literal["fixed", "random"] = "random",
        max_steps: int = MAX_STEPS,
        goal_terminates: bool = True,
        episodes: EpisodeSource | None = None,
        seed: int = 0,
        visible: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """`maze`: one for all games or one for each; `workers`: processes, None for one per core."""
        require(count >= 1, f"count must be at least 1 game, got {count}.")
        require(1 <= halves <= count, f"halves must lie between 1 and the number of games, {count}; got {halves}.")
        require(max_steps >= 1, f"max_steps must be at least 1, got {max_steps}.")
        mazes = [maze] * count if isinstance(maze, Maze) else list(maze)
        require(len(mazes) == count, f"Give one maze for all games or {count} of them, got {len(mazes)}.")
        known = {id(one): StartGoalSampler(one, spawn) for one in mazes}
        self.samplers = [known[id(one)] for one in mazes]
        self._source: EpisodeSource = episodes or RandomEpisodes(self.samplers, seed)
        bounds = [-(-count * half // halves) for half in range(halves + 1)]
        self.halves = tuple(slice(*pair) for pair in pairwise(bounds))
        self._max_steps, self._goal_terminates = max_steps, goal_terminates
        self._steps, self._budgets = np.zeros((2, count), np.int64)
        self._fresh = np.ones(count, bool)  # no episode runs: the next command begins one
        self._sent = [False] * halves
        of_half = [half for half, games in enumerate(self.halves) for _ in range(count)[games]]
        self.workers = Workers(mazes, of_half, workers or core_count(), visible, limits)
        self.count = count

    def send(self, half: int, actions: Array | None = None) -> None:
        """Let the games of a half carry out actions [n]; None: no action."""
        games, shared = self.halves[half], self.workers.shared
        fresh = self._fresh[games]
        taken = np.full(len(fresh), NO_ACTION) if actions is None else np.asarray(actions)
        self._check(half, taken, len(fresh))
        shared.actions[games] = taken
        shared.commands[games] = STEP
        for game in games.start + np.flatnonzero(fresh):
            shared.commands[game] = self._begin(int(game), self._source(int(game)))
        self.workers.post(half)
        self._sent[half] = True

    def _check(self, half: int, actions: Array, count: int) -> None:
        """Complaints are only worded when there is one: this is the hot path, and arrays print slowly."""
        if self._sent[half]:
            raise UsageError(f"Half {half} was sent actions already: receive it first.")
        if actions.shape != (count,) or actions.min() < 0 or actions.max() >= len(ACTIONS):
            raise UsageError(f"Half {half} takes {count} actions of {numbered_actions()}; got {actions}.")

    def _begin(self, game: int, episode: GameEpisode | None) -> int:
        if episode is None:
            return REST
        sampler, shared = self.samplers[game], self.workers.shared
        shared.starts[game] = sampler.checked(episode.start, "start")
        shared.goal_poses[game] = np.nan if episode.goal is None else sampler.checked(episode.goal, "goal")
        self._budgets[game] = self._max_steps if episode.budget is None else episode.budget
        self._steps[game] = 0
        return BEGIN

    def receive(self, half: int) -> GameStep:
        """Wait for the games of a half, and say what became of their actions."""
        if not self._sent[half]:
            raise UsageError(f"Half {half} was sent no actions: send first.")
        self.workers.wait(half)
        self._sent[half] = False
        games, shared = self.halves[half], self.workers.shared
        commands, poses = shared.commands[games], shared.poses[games].copy()
        stepped, running, cut = commands == STEP, commands != REST, shared.cut[games]
        self._steps[games] += stepped
        away = poses[:, :2] - shared.goal_poses[games, :2]
        near = np.einsum("ij,ij->i", away, away) <= GOAL_RADIUS**2  # NaN, which is no goal, is never near
        succeeded = near & running & ~cut  # where a cut action led to is not known
        terminated = succeeded & stepped if self._goal_terminates else np.zeros(len(near), bool)
        truncated = stepped & (cut | (self._steps[games] >= self._budgets[games])) & ~terminated
        ended = terminated | truncated
        self._fresh[games] = ended | ~running
        return GameStep(
            frames=shared.frames[games],
            poses=poses,
            running=running,
            started=commands == BEGIN,
            succeeded=succeeded,
            ended=ended,
            truncated=truncated,
            restarts=shared.restarts[games].copy(),
        )

    def goals(self, half: int) -> Array:
        """[n, 120, 160, 3] pictures of the goals of the running episodes (zeros without one): a view, as `frames`."""
        return self.workers.shared.goals[self.halves[half]]

    def restart(self, episodes: EpisodeSource | None = None) -> None:
        """Leave all running episodes; the next `send` begins others, from a new source if one is given."""
        for half, sent in enumerate(self._sent):
            if sent:
                self.receive(half)
        self._fresh[:] = True
        self._source = episodes or self._source

    def close(self) -> None:
        """End all games and leave nothing behind."""
        self._source = _no_more  # it may be a method of the owner of this pool: the cycle would keep both in memory
        self.workers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
