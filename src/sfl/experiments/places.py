"""Where experiments take place: environments under short names, and what is asked of an agent there."""

from __future__ import annotations

from typing import Literal

from sfl.run.settings import EvalConfig
from sfl.worlds.mazes.load import own_mazes

MINIGRID = {
    "fourroom": "sfl/FourRoom-v0",
    **{f"multiroom-n{rooms}": f"sfl/MultiRoom-N{rooms}-v0" for rooms in (2, 3, 4, 6, 8)},
}
"""Short names of the MiniGrid environments."""

PAPER_GRIDS = ("fourroom", "multiroom-n2", "multiroom-n3", "multiroom-n4")
"""Those that the paper has curves of."""

Spawn = Literal["random", "fixed"]

MAZES: dict[Spawn, tuple[str, ...]] = {
    "random": (*own_mazes(), "sgm", "test-2", "test-6"),
    "fixed": (*own_mazes(), "test-1", "test-4"),
}
"""Mazes with experiments of their own, by where episodes start: ours, and the paper's as the paper uses them."""

LEVELS: dict[Spawn, tuple[str, ...]] = {
    "random": ("easy", "medium", "hard"),
    "fixed": ("easy", "medium", "hard", "hardest"),
}


def maze_tasks(spawn: Spawn, parallel: int = 50) -> EvalConfig:
    """50 start-goal pairs a level, as in the paper; half of the games play while the other half is looked at."""
    return EvalConfig(episodes=50, levels=LEVELS[spawn], parallel=parallel)
