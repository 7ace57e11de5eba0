"""What a worker process and its parent agree on. No ViZDoom here: only workers load it."""

from __future__ import annotations

from dataclasses import dataclass

from sfl.config import require

LEAVE = 253
"""Request beside the number of a half to play: end the games, all is in order."""
READY, FAILED = 254, 255
"""Replies beside the number of a half that is done; an error's text follows FAILED."""

CHECK_MAP = "Check the WAD and the name of its map."
"""What to do when games end at the start of their episodes."""

ACTIONS = ("move left", "move right", "forward", "backward", "turn left", "turn right", "nothing")
"""By number; each is repeated for four tics."""


@dataclass(frozen=True)
class Limits:
    """Seconds after which a wait is given up."""

    start: float = 60.0
    """For the engine of a game to start."""
    call: float = 10.0
    """For one action, or one start of an episode."""
    reply: float = 60.0
    """For a worker process to do what its games are told."""

    def __post_init__(self) -> None:
        for name, seconds in vars(self).items():
            require(seconds > 0, f"The limit {name} must be above 0 seconds, got {seconds}.")


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class GameSpec:
    """A game that a worker runs."""

    index: int
    half: int
    wad: str
    map_name: str
    visible: bool


@dataclass(frozen=True)
class WorkerSpec:
    """Everything a worker is told at its start."""

    parent: int
    memory: int
    requests: int
    replies: int
    lock: int
    """Held as long as this process lives, so that nobody takes its folder for one without an owner."""
    count: int
    folder: str
    games: tuple[GameSpec, ...]
    limits: Limits
