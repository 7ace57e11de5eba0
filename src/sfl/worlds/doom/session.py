"""Many games of ViZDoom as a session: one half plays while the policy looks at the other.

Acting and learning take turns between the halves: act on half 0, act on half 1, learn from half 0, act on half 0, learn
from half 1, ... A step is therefore yielded after the other half has been acted on, but always in the order of acting.

Frames: `act` and `Transitions.observations` get one array, the half's frames copied out of shared memory into a buffer
of the half's own; it is written again when the half is acted on next. `Transitions.next_observations` are a view of
shared memory, which the games write to when they are sent the half's next actions. Both are valid while the reader has
the step, at the price of one copy a decision.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium.utils import seeding

from sfl.api import Array, Episode, EpisodeSource, Metrics, Policy, Step, Transitions
from sfl.config import require
from sfl.errors import SflError
from sfl.worlds.doom.env import chosen_episode
from sfl.worlds.doom.pool import NO_ACTION, GameEpisode, GamePool, GameStep
from sfl.worlds.doom.protocol import FRAME_SHAPE
from sfl.worlds.doom.tasks import StartGoalSampler

NOTHING = np.empty(0, np.int64)


@dataclass
class _Game:
    """The episode that a game is in, and all actions it was sent since."""

    episode: Episode
    actions: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class _Decision:
    """What some games of a half were told last, and from what."""

    indices: list[int]
    observations: Array  # [B, 120, 160, 3]
    actions: Array  # [B]
    poses: Array  # [B, 3]


@dataclass
class _Half:
    """Games that step together."""

    number: int
    indices: range
    buffer: Array  # [n, 120, 160, 3]
    newest: GameStep | None = None
    decision: _Decision | None = None
    """What the games are doing now; None: they wait to be told."""
    resting: bool = False
    """There were no more episodes for these games."""

    def rows(self, indices: Sequence[int]) -> Any:
        """Where games stand in the arrays of the half; a slice, which makes views, where they are all of them."""
        return slice(None) if len(indices) == len(self.indices) else np.array(indices, np.int64) - self.indices.start

    def frame(self, index: int) -> Array | None:
        """What a game's running decision was made from, or the next one will be; None: its episode just begins."""
        if self.decision is None:
            return None if self.newest is None else np.asarray(self.newest.frames[index - self.indices.start])
        if index not in self.decision.indices:
            return None
        return np.asarray(self.decision.observations[self.decision.indices.index(index)])


class PoolSession:
    """Games with their running episodes; a checkpoint keeps the start and the actions of each.

    Observations are the newest frames [B, 120, 160, 3] uint8; a goal is one frame [120, 160, 3]. A game that died has
    its episode truncated and counts in `metrics`.
    """

    def __init__(
        self, sampler: StartGoalSampler, count: int, source: EpisodeSource, *, max_steps: int, goal_terminates: bool
    ) -> None:
        self._sampler, self._source, self._max_steps = sampler, source, max_steps
        self._games: list[_Game | None] = [None] * count
        self._restarts_before = 0
        self._replayed: dict[int, Episode] | None = None  # while replaying: the episodes that begin now, by game
        self._pool = GamePool(
            sampler.maze,
            count,
            halves=min(2, count),
            spawn=sampler.spawn,
            max_steps=max_steps,
            goal_terminates=goal_terminates,
            episodes=self._next_episode,
        )
        parts = [range(count)[games] for games in self._pool.halves]
        self._halves = [_Half(n, part, np.empty((len(part), *FRAME_SHAPE), np.uint8)) for n, part in enumerate(parts)]
        self._turn: _Half | None = None  # the half that waits to be acted on; None: no game has begun

    def begin_episodes(self, policy: Policy) -> list[int] | None:
        """Tell the policy of episodes that have begun in the half whose turn it is; returns its games to act on."""
        if self._turn is None:
            for half in self._halves:
                self._send(half, [], NOTHING, NOTHING)
            self._turn = self._halves[0]
            self._receive(self._turn)
        half = self._turn
        ready = [index for index in half.indices if self._games[index] is not None]
        for index in ready:
            if not self._running(index).actions:
                policy.begin_episode(index, self._goal(half, index))
        over = half.resting and all(other.decision is None for other in self._halves)
        return None if over else ready

    def observations(self, indices: Sequence[int]) -> Array:
        """The newest frames of games whose turn it is, [B, 120, 160, 3]."""
        half = self._turn
        if half is None or half.newest is None or not indices:
            return NOTHING
        if len(indices) < len(half.indices):
            return np.asarray(half.newest.frames[half.rows(indices)])
        np.copyto(half.buffer, half.newest.frames)
        return half.buffer

    def step(self, indices: Sequence[int], observations: Array, actions: Array) -> Step | None:
        """Let the half whose turn it is play, and wait for the one that was sent before it."""
        assert self._turn is not None
        if not self._turn.resting:
            self._send(self._turn, indices, observations, actions)
        after = self._turn.number + 1
        playing = [half for half in (*self._halves[after:], *self._halves[:after]) if half.decision is not None]
        self._turn = playing[0]
        return self._receive(self._turn)

    def metrics(self) -> Metrics:
        """`time/game_restarts`."""
        return {"time/game_restarts": float(self._restarts)}

    def close(self) -> None:
        """End all games."""
        self._pool.close()

    @property
    def _restarts(self) -> int:
        return self._restarts_before + int(self._pool.workers.shared.restarts.sum())

    def _running(self, index: int) -> _Game:
        game = self._games[index]
        assert game is not None
        return game

    def _goal(self, half: _Half, index: int) -> Array | None:
        if not self._running(index).episode.has_goal:
            return None
        return np.array(self._pool.goals(half.number)[index - half.indices.start])

    def _next_episode(self, index: int) -> GameEpisode | None:
        """What the pool asks when a game has no episode."""
        episode = self._source() if self._replayed is None else self._replayed.get(index)
        if episode is None:
            return None
        start, goal, picture = chosen_episode(self._sampler, episode.options, seeding.np_random(episode.reset_seed)[0])
        require(picture is None, "A picture does not say where it was taken: give the goal as a pose x,y,degrees.")
        self._games[index] = _Game(episode)
        return GameEpisode(start, goal, episode.budget)

    def _send(self, half: _Half, indices: Sequence[int], observations: Array, actions: Array) -> None:
        """Games that are not among `indices` begin an episode, if there is one for them."""
        told = np.full(len(half.indices), NO_ACTION)
        rows = half.rows(indices)
        told[rows] = actions
        poses = np.empty((0, 3)) if half.newest is None else half.newest.poses[rows]
        half.decision = _Decision(list(indices), observations, actions, poses)
        for index, action in zip(indices, actions.tolist(), strict=True):
            self._running(index).actions.append(action)
        self._pool.send(half.number, told)

    def _receive(self, half: _Half) -> Step | None:
        decision = half.decision
        assert decision is not None
        half.newest, half.decision = self._pool.receive(half.number), None
        half.resting = not half.newest.running.any()
        if not decision.indices:
            return None
        step = self._step(decision, half.newest, half.rows(decision.indices))
        for row in step.ended:
            self._games[decision.indices[row]] = None
        return step

    def _step(self, decision: _Decision, newest: GameStep, rows: Any) -> Step:
        games = [self._running(index) for index in decision.indices]
        lengths = np.array([len(game.actions) for game in games])
        limits = np.array([game.episode.budget or self._max_steps for game in games])
        truncated = newest.truncated[rows]
        return Step(
            Transitions(
                env_indices=np.array(decision.indices),
                observations=decision.observations,
                actions=decision.actions,
                rewards=newest.succeeded[rows].astype(np.float64),
                terminated=newest.terminated[rows],
                truncated=truncated,
                next_observations=newest.frames[rows],
            ),
            poses=decision.poses,
            next_poses=newest.poses[rows],
            succeeded=newest.succeeded[rows],
            lengths=lengths,
            episodes=tuple(game.episode for game in games),
            ended=tuple(np.flatnonzero(newest.ended[rows]).tolist()),
            broken=tuple(np.flatnonzero(truncated & (lengths < limits)).tolist()),
        )

    def state(self) -> dict[str, Any]:
        """Whose turn it is, and for each game how to come back to this moment; None where no episode runs.

        The actions of a half that is playing include the ones that it has been sent.
        """
        games = [self._saved(half, index) for half in self._halves for index in half.indices]
        turn = None if self._turn is None else self._turn.number
        return {"turn": turn, "restarts": self._restarts, "games": games}

    def _saved(self, half: _Half, index: int) -> dict[str, Any] | None:
        game = self._games[index]
        if game is None:
            return None
        begun = {name: getattr(game.episode, name) for name in ("reset_seed", "options", "budget")}
        return {**begun, "actions": game.actions, "observation": _digest(half.frame(index))}

    def restore(self, state: dict[str, Any]) -> list[int]:
        """Replay the running episodes; returns the indices of games that do not show the same again."""
        self._restarts_before = state["restarts"]
        if state["turn"] is None:
            return []
        self._turn = self._halves[state["turn"]]
        for half in self._halves:
            self._replay(half, {index: state["games"][index] for index in half.indices if state["games"][index]})
        self._replayed = None
        saved = [(half, index, state["games"][index]) for half in self._halves for index in half.indices]
        return [index for half, index, game in saved if game and _digest(half.frame(index)) != game["observation"]]

    def _replay(self, half: _Half, saved: dict[int, dict[str, Any]]) -> None:
        """The longest episode begins first and the others in time for all to arrive together: no game has to wait.

        A half that was playing is left playing.
        """
        rounds = max((1 + len(game["actions"]) for game in saved.values()), default=0)
        begins = {index: rounds - 1 - len(game["actions"]) for index, game in saved.items()}
        for number in range(rounds):
            due = [index for index, begin in begins.items() if begin == number]
            self._replayed = {index: _episode(saved[index]) for index in due}
            acting = [index for index, begin in begins.items() if begin < number]
            actions = np.array([saved[index]["actions"][number - begins[index] - 1] for index in acting], np.int64)
            last = number == rounds - 1  # the one frame that the reader of the next step may ask for
            seen = np.array(half.newest.frames[half.rows(acting)]) if last and half.newest is not None else NOTHING
            self._send(half, acting, seen, actions)
            if half is self._turn or not last:
                step = self._receive(half)
                if step is not None and step.ended:
                    raise SflError("A game died while the run was brought back; try again.")


def _episode(saved: dict[str, Any]) -> Episode:
    return Episode(0, saved["reset_seed"], saved["options"], saved["budget"])


def _digest(frame: Array | None) -> str | None:
    """A fingerprint of what is seen."""
    return None if frame is None else hashlib.sha256(np.ascontiguousarray(frame).tobytes()).hexdigest()
