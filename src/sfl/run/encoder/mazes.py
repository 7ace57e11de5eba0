"""Which mazes and textures encoders learn from, and which are kept for judging them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sfl.core.errors import UsageError, unknown_name
from sfl.core.seeding import draw_seed
from sfl.envs.mazes import Maze, Textures, load_maze, texture_set
from sfl.envs.mazes.library import FOLDER_VARIABLE, PAPER
from sfl.envs.mazes.textures import WALLS

TRAINING_MAZES: dict[str, int] = {"sgm": 10, "large": 4, "open": 2, "rooms": 2, "corridors": 1, "small": 1}
"""Layouts to learn from -> their shares among the copies; each copy has its own training textures."""
HELD_OUT = ("test-1", "test-2", "test-4", "test-6", "office", "star")
"""Layouts that no encoder has seen."""
EVALUATION_MAZES = ("sgm", *HELD_OUT, "large", "open", "rooms", "corridors", "small")
"""Mazes in test textures; those that are not held out are known by their layout."""


def check_training_mazes(names: Sequence[str]) -> None:
    """Refuse mazes that are kept for evaluation, and unknown ones."""
    known = ", ".join(TRAINING_MAZES)
    for name in names:
        if name in HELD_OUT:
            raise UsageError(f"The maze {name!r} is kept for evaluation; encoders are trained in {known}.")
        if name not in TRAINING_MAZES:
            raise unknown_name("training maze", name, TRAINING_MAZES, f"There are {known}.")


def check_textures(maze_dir: Path | None) -> None:
    """Refuse a folder whose list of training textures holds some that encoders are judged on."""
    kept = {*WALLS["test"], *texture_set("test", maze_dir).names}
    shared = sorted(kept.intersection(texture_set("train", maze_dir).names))
    if shared:
        raise UsageError(
            f"The training textures of the maze folder hold {len(shared)} that are kept for evaluation, such as "
            f"{shared[0]}; take them out of textures-train.txt."
        )


def available(names: Sequence[str], chosen: Sequence[str], maze_dir: Path | None) -> list[str]:
    """The chosen ones, or else all that can be had: the paper's need a folder."""
    has_folder = maze_dir is not None or bool(os.environ.get(FOLDER_VARIABLE))
    return list(chosen) or [name for name in names if has_folder or name not in PAPER]


class TrainingMazes:
    """An endless supply of copies of the training mazes, each in training textures of its own."""

    def __init__(self, chosen: Sequence[str], maze_dir: Path | None, rng: np.random.Generator) -> None:
        check_training_mazes(chosen)
        check_textures(maze_dir)
        self.names = available(tuple(TRAINING_MAZES), chosen, maze_dir)
        shares = np.array([TRAINING_MAZES[name] for name in self.names])
        self._chances, self._maze_dir, self._rng = shares / shares.sum(), maze_dir, rng

    def draw(self) -> Maze:
        """The next copy."""
        name = self.names[int(self._rng.choice(len(self.names), p=self._chances))]
        return load_maze(name, self._maze_dir, Textures("train", "dense", draw_seed(self._rng)))


def unseen(name: str) -> str:
    """What of an evaluation maze training has not shown: its `textures`, or the `maze` and its textures."""
    return "textures" if name in TRAINING_MAZES else "maze"


def evaluation_mazes(chosen: Sequence[str], maze_dir: Path | None) -> list[Maze]:
    """Mazes in test textures (those of the paper that come with textures keep them)."""
    return [load_maze(name, maze_dir) for name in available(EVALUATION_MAZES, chosen, maze_dir)]
