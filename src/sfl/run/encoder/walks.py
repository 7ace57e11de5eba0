"""Random walks in many games at once, moment by moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sfl.core.seeding import spawn
from sfl.data.types import Array
from sfl.envs.vector import GameEpisode, GamePool
from sfl.envs.vizdoom import ACTIONS

GAMES_PER_MAZE = 2
"""Games that walk in a maze when something is evaluated; fixed, so that the walks are the same on any machine."""


@dataclass(frozen=True)
class Moments:
    """The newest moments of some games; frames are a view that is valid until the next moments are asked for."""

    games: Array  # [n]
    walks: Array  # [n] number of the walk in its game
    times: Array  # [n] decisions since the walk's start
    frames: Array  # [n, 120, 160, 3]
    actions: Array  # [n] taken next, except after a walk's last moment


def judging_generators(mazes: Sequence[str], seed: int) -> list[np.random.Generator]:
    """One for each game of each maze, in the order of games; they depend on the seed and the maze alone."""
    return list(spawn(seed, [f"walks/{maze}/{game}" for maze in mazes for game in range(GAMES_PER_MAZE)]).values())


def walks_per_game(walks: int) -> int:
    """So that a maze has as many walks as asked for, or one more."""
    return -(-walks // GAMES_PER_MAZE)


def random_walks(pool: GamePool, count: int, length: int, rngs: Sequence[np.random.Generator]) -> Iterator[Moments]:
    """`count` walks of `length` frames in every game: random free places, then uniformly random actions.

    Every game has a generator of its own. A walk that a game cut short is walked again, under the same number.
    """
    done, times = np.zeros((2, pool.count), np.int64)
    actions = np.zeros((pool.count, length), np.int64)

    def next_walk(game: int) -> GameEpisode | None:
        if done[game] == count:
            return None
        actions[game] = rngs[game].integers(len(ACTIONS), size=length)
        start = pool.places[game].draw_goal(rngs[game])  # anywhere free, also where the maze has spots
        return GameEpisode(start, budget=length - 1)

    pool.restart(next_walk)
    for half in range(len(pool.halves)):
        pool.send(half)
    while (done < count).any():
        for half, games in enumerate(pool.halves):
            step = pool.receive(half)
            now = np.where(step.started, 0, times[games] + 1)
            live = np.flatnonzero(step.running)
            frames = step.frames if len(live) == len(now) else step.frames[live]  # a copy only where it must be
            places = games.start + live
            yield Moments(places, done[games][live], now[live], frames, actions[places, now[live]])
            done[games] += step.ended & (now == length - 1)
            times[games] = now % length
            pool.send(half, actions[range(games.start, games.stop), times[games]])
    for half in range(len(pool.halves)):
        pool.receive(half)
