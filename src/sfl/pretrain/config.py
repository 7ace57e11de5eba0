"""Which mazes and textures encoders learn from, and which are kept for judging them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from sfl.baselines.config import LocomotionConfig
from sfl.config import require
from sfl.errors import UsageError, unknown_name
from sfl.method.config import ReachabilityConfig, RetrievalConfig
from sfl.nn import FRAME_SIZE, HALF_SIZE, Kind
from sfl.seeding import draw_seed
from sfl.worlds.mazes.layout import Maze
from sfl.worlds.mazes.load import FOLDER_VARIABLE, PAPER, load_maze, texture_set
from sfl.worlds.mazes.textures import WALLS, Textures

TRAINING_MAZES: dict[str, int] = {"sgm": 10, "large": 4, "open": 2, "rooms": 2, "corridors": 1, "small": 1}
"""Layouts to learn from -> their shares among the copies; each copy has its own training textures."""
HELD_OUT = ("test-1", "test-2", "test-4", "test-6", "office", "star")
"""Layouts that no encoder has seen."""
EVALUATION_MAZES = ("sgm", *HELD_OUT, "large", "open", "rooms", "corridors", "small")
"""Mazes in test textures; those that are not held out are known by their layout."""


@dataclass(frozen=True)
class ContrastConfig:
    """How place features are learned."""

    temperature: float = 0.1
    """Cosines are divided by this before the softmax."""
    symmetric: bool = True
    """The second moments look for the first ones, too."""
    max_offset: int = 5
    """The two moments of a pair are at most this many decisions apart."""
    decay: float = 0.7
    """Each further decision apart is this much less likely than the one before (geometric)."""
    gap: int = 25
    """Moments of one walk at most this many decisions apart are no negatives of each other."""
    mazes: int = 32
    """Different mazes in a batch."""
    moments: int = 32
    """Pairs of each of them."""

    def __post_init__(self) -> None:
        require(self.temperature > 0, f"contrast.temperature must be positive, got {self.temperature}.")
        require(0 < self.decay <= 1, f"contrast.decay must lie in (0, 1], got {self.decay}.")
        require(
            1 <= self.max_offset <= self.gap,
            f"contrast: 1 <= max-offset <= gap must hold, got {self.max_offset} and {self.gap}.",
        )
        require(self.mazes >= 1, f"contrast.mazes must be at least 1, got {self.mazes}.")
        require(self.moments >= 2, f"contrast.moments must be at least 2, got {self.moments}.")


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


# ---- What `sfl encoder` and `sfl network` may be told: how to train, and how to evaluate.


def _at_least(name: str, least: int, value: int | None) -> str:
    return f"--{name.replace('_', '-')} must be at least {least}, got {value}."


@dataclass(frozen=True)
class WalkConfig:
    """The random walks an encoder learns from: uniform over the seven actions, from random free places."""

    frames: int = 1_000_000
    """Frames to collect; they are kept in the memory of the device."""
    walk_length: int = 500
    """Frames of a walk."""
    walks_per_maze: int = 8
    """Walks in one copy of a maze before it is exchanged for another."""
    games: int | None = None
    """Games at the same time, each in a maze of its own; by default four per core. The frames do not depend on it."""
    workers: int | None = None
    """Processes that run the games; by default one per core."""
    half_size: bool = False
    """Keep frames of 80x60 (an encoder of 160x120 cannot learn from those)."""
    mazes: tuple[str, ...] = ()
    """Mazes to walk in; by default all that are for training (without the paper's, if their folder is not named)."""
    maze_dir: Path | None = None
    """The folder with the paper's mazes and texture lists; by default what SFL_MAZES names."""

    def __post_init__(self) -> None:
        for name, least in {"frames": 1, "walk_length": 2, "walks_per_maze": 1, "games": 1, "workers": 1}.items():
            value = getattr(self, name)
            require(value is None or value >= least, _at_least(name, least, value))
        check_training_mazes(self.mazes)

    @property
    def maze_count(self) -> int:
        """Copies of mazes that give so many frames, or a few more."""
        return -(-self.frames // (self.walk_length * self.walks_per_maze))

    @property
    def frame_size(self) -> tuple[int, int]:
        """Height and width of the frames that are kept."""
        return HALF_SIZE if self.half_size else FRAME_SIZE


@dataclass(frozen=True, kw_only=True)
class LearningConfig(WalkConfig):
    """How long and with which steps a network learns from walks."""

    minutes: float | None = None
    """Minutes for collecting (at most half of them) and training together; 8 unless --steps is given."""
    steps: int | None = None
    """Gradient steps, instead of --minutes."""
    seed: int = 0
    """Seed of everything random."""
    learning_rate: float = 1e-3
    """AdamW's greatest step size; it rises to it in the first twentieth and falls to 0 along a cosine."""
    weight_decay: float = 1e-2
    """AdamW's weight decay."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.minutes is None or self.minutes > 0, f"--minutes must be positive, got {self.minutes}.")
        require(self.steps is None or self.steps >= 0, f"--steps must be 0 or more, got {self.steps}.")
        require(self.minutes is None or self.steps is None, "Give --minutes or --steps, not both.")
        require(self.learning_rate > 0, f"--learning-rate must be positive, got {self.learning_rate}.")
        require(self.weight_decay >= 0, f"--weight-decay must be 0 or more, got {self.weight_decay}.")

    @property
    def seconds(self) -> float | None:
        """For collecting and training together; None: steps are counted."""
        return None if self.steps is not None else 60.0 * (8.0 if self.minutes is None else self.minutes)


@dataclass(frozen=True, kw_only=True)
class EncoderRecipe(LearningConfig):
    """How an encoder is trained."""

    kind: Kind = "place"
    """resnet18 (the paper's), place (ours) or compact (ours, for CPUs)."""
    objective: Literal["contrast", "reachability"] = "contrast"
    """contrast: moments close in time against other places; reachability: the paper's, few or many decisions apart."""
    distil: str | None = None
    """Learn to find alike what this encoder (a name or a file) finds alike, instead of an objective of its own."""
    recolour: bool = False
    """Show each maze of a batch mirrored or not and with its colours exchanged, for more variety of textures."""
    contrast: ContrastConfig = ContrastConfig()
    reachability: ReachabilityConfig = ReachabilityConfig()

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.kind == "compact" or not self.half_size,
            f"--half-size is for the encoder 'compact'; {self.kind!r} looks at frames of 160x120.",
        )
        require(
            self.distil is None or not self.half_size,
            "--half-size does not go with --distil: the teacher looks at frames of 160x120.",
        )


@dataclass(frozen=True, kw_only=True)
class NetworkRecipe(LearningConfig):
    """How a retrieval or a locomotion network is trained."""

    retrieval: RetrievalConfig = RetrievalConfig(batch_size=512)
    locomotion: LocomotionConfig = LocomotionConfig(batch_size=512)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("retrieval", "locomotion"):
            own = getattr(self, name).learning_rate == type(getattr(self, name))().learning_rate
            require(own, f"--{name}.learning-rate is for agents; `sfl network train` has --learning-rate.")
        require(not self.half_size, "--half-size does not go with networks: agents show them frames of 160x120.")


@dataclass(frozen=True)
class WalkJudgement:
    """Random walks in which encoders and networks are evaluated: the same for all of them."""

    mazes: tuple[str, ...] = ()
    """Mazes to look at, in test textures; by default all (without the paper's, if their folder is not named)."""
    pairs: int = 2_000
    """Pairs of moments of random walks, half of them near (at most 5 decisions), half far (more than 25, for networks
    more than 24)."""
    walk_length: int = 500
    """Frames of those walks."""
    walks: int = 4
    """Walks in each maze."""
    workers: int | None = None
    """Processes that run the games; by default one per core."""
    seed: int = 0
    """Seed of the places and walks."""
    maze_dir: Path | None = None
    """The folder with the paper's mazes; by default what SFL_MAZES names."""

    def __post_init__(self) -> None:
        for name, least in {"pairs": 4, "walks": 1, "walk_length": 2}.items():
            value = getattr(self, name)
            require(value >= least, _at_least(name, least, value))


@dataclass(frozen=True)
class EncoderJudgement(WalkJudgement):
    """How an encoder is evaluated."""

    views: int = 5_000
    """Stored views of each maze, at random places and headings."""
    queries: int = 1_000
    """Other views; the most similar stored one of each is looked for."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("views", "queries"):
            value = getattr(self, name)
            require(value >= 1, _at_least(name, 1, value))


@dataclass(frozen=True)
class NetworkJudgement(WalkJudgement):
    """How retrieval and locomotion networks are evaluated."""

    chases: int = 5_000
    """Moments of those walks with a goal 1 to `locomotion.ahead` decisions on, as many of each distance."""
    retrieval: RetrievalConfig = RetrievalConfig()
    locomotion: LocomotionConfig = LocomotionConfig()

    def __post_init__(self) -> None:
        super().__post_init__()
        ahead = self.locomotion.ahead
        require(self.chases >= ahead, _at_least("chases", ahead, self.chases))
        require(self.walk_length > ahead, _at_least("walk_length", ahead + 1, self.walk_length))
        for name in ("retrieval", "locomotion"):
            config, usual = getattr(self, name), type(getattr(self, name))()
            same = (config.learning_rate, config.batch_size) == (usual.learning_rate, usual.batch_size)
            require(same, f"--{name}.learning-rate and --{name}.batch-size are for training; leave them out.")
