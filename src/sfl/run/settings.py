"""What a run is made of: an environment, a method, how long to train and how to evaluate."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sfl.config import later, require
from sfl.registry import AgentConfig
from sfl.worlds import EnvConfig
from sfl.worlds.exam import EXAM_GOALS, EXAM_STEPS

MOST_ENVS, MOST_EPISODES = 4_096, 100_000
"""Environments that one process can hold, and tasks of a level that it can draw before it begins."""


@dataclass(frozen=True)
class TrainConfig:
    """How long to train, in environment steps, and how often to look up from it."""

    steps: int
    """Environment steps in all, over all environments together."""
    env_count: int = 1
    """Environments that step together."""
    eval_every: int = 0
    """Environment steps between two evaluations; 0 evaluates only at the end."""
    checkpoint_every: int = 10_000
    """Environment steps between two checkpoints; the end of the run always has one."""
    log_every: int = 1_000
    """Environment steps between two rows of train.csv."""

    def __post_init__(self) -> None:
        require(self.steps >= 0, f"train.steps must be 0 or more, got {self.steps}.")
        fits = 1 <= self.env_count <= MOST_ENVS
        require(fits, f"train.env-count must be 1 to {MOST_ENVS:,}, got {self.env_count}.")
        require(self.eval_every >= 0, f"train.eval-every must be 0 (only at the end) or more, got {self.eval_every}.")
        require(self.checkpoint_every >= 1, f"train.checkpoint-every must be 1 or more, got {self.checkpoint_every}.")
        require(self.log_every >= 1, f"train.log-every must be 1 or more, got {self.log_every}.")


MOST_SCALE = 1_000_000


def require_scale(factor: float) -> None:
    """Refuse a factor that is no part or multiple of the steps of an experiment."""
    require(0 < factor <= MOST_SCALE, f"--scale must be a positive number up to {MOST_SCALE:,}, got {factor}.")


@dataclass(frozen=True)
class EvalConfig:
    """Which tasks an evaluation poses."""

    episodes: int = 100
    """Episodes on each level."""
    levels: tuple[str, ...] = ("paper", "any")
    """Sets of tasks. Grids: `paper` repeats the paper's start and goal, `any` draws both at random. Mazes: easy,
    medium, hard and, with fixed spawn, hardest. Other worlds: near, middle and far, thirds of the largest distance of a
    goal, or `any` for goals of all distances alike."""
    parallel: int = 25
    """Evaluation environments that step together; has no say in what is measured, only in how fast."""
    pairs_seed: int | None = None
    """Mazes: draw the start-goal pairs from this seed, whatever the run's own; None: the authors' pairs where there are
    any, else drawn from seed 0."""
    exam_steps: int = later(EXAM_STEPS)
    """Worlds of your own: environment steps that finding out what can be reached may take, before training. The goals
    found are the exam, the same for every method and seed."""
    exam_goals: int = later(EXAM_GOALS)
    """Worlds of your own: the most goals that the exam keeps, evenly over their distances."""

    def __post_init__(self) -> None:
        fits = 1 <= self.episodes <= MOST_EPISODES
        require(fits, f"eval.episodes must be 1 to {MOST_EPISODES:,}, got {self.episodes}.")
        require(len(self.levels) >= 1, "eval.levels must name one level or more, got none.")
        require(len(set(self.levels)) == len(self.levels), f"eval.levels repeats a level: {' '.join(self.levels)}.")
        require(1 <= self.parallel <= MOST_ENVS, f"eval.parallel must be 1 to {MOST_ENVS:,}, got {self.parallel}.")
        require(self.exam_steps >= 1, f"eval.exam-steps must be 1 or more, got {self.exam_steps}.")
        require(self.exam_goals >= 1, f"eval.exam-goals must be 1 or more, got {self.exam_goals}.")
        require((self.pairs_seed or 0) >= 0, f"eval.pairs-seed must be 0 or more, got {self.pairs_seed}.")


@dataclass(frozen=True)
class Experiment:
    """One named row of a table: everything but the seed."""

    name: str
    """Name of the experiment, and of its folder under the runs."""
    env: EnvConfig
    """The environment."""
    agent: AgentConfig
    """The method."""
    train: TrainConfig
    """How long to train."""
    eval: EvalConfig
    """How to evaluate."""

    def __post_init__(self) -> None:
        good = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", self.name) is not None
        require(good, f"An experiment's name is made of letters, digits, '.', '_' and '-', got {self.name!r}.")
