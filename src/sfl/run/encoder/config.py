"""What `sfl encoder` and `sfl network` may be told: how to train, and how to evaluate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sfl.core.config import require
from sfl.learners.locomotion import LocomotionConfig
from sfl.learners.place_contrast import ContrastConfig
from sfl.learners.reachability import ReachabilityConfig
from sfl.learners.retrieval import RetrievalConfig
from sfl.nn.frame_encoders import FRAME_SIZE, HALF_SIZE, Kind
from sfl.run.encoder.mazes import check_training_mazes


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
