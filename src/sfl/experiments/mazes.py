"""SFL in mazes: our settings, the paper's, and a maze for a laptop."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from sfl.method.config import FrameConfig, FrameSFLConfig, Frontier, recommended_for_frames
from sfl.run.settings import EvalConfig, Experiment, TrainConfig
from sfl.worlds.config import DoomConfig
from sfl.worlds.mazes.load import own_mazes

PAPER_ENCODER = "resnet18.safetensors"
"""The paper's encoder is too large to ship; docs/methods/sfl.md has the command that makes this file."""

Spawn = Literal["random", "fixed"]

LAPTOP = "laptop-maze"
"""A place of its own: the maze `small`, with networks for a laptop without a GPU."""

MAZES: dict[Spawn, tuple[str, ...]] = {
    "random": (*own_mazes(), "sgm", "test-2", "test-6"),
    "fixed": (*own_mazes(), "test-1", "test-4"),
}
"""Mazes with experiments of their own, by where episodes start: ours, and the paper's as the paper uses them."""

LEVELS: dict[Spawn, tuple[str, ...]] = {
    "random": ("easy", "medium", "hard"),
    "fixed": ("easy", "medium", "hard", "hardest"),
}


def maze_place(spawn: Spawn, maze: str | None = None) -> str:
    """What a maze is called as a place; without one, whichever `--env.maze` says."""
    return f"{maze or 'maze'}-{spawn}-spawn"


def maze_tasks(spawn: Spawn, parallel: int = 50) -> EvalConfig:
    """50 start-goal pairs a level, as in the paper; half of the games play while the other half is looked at."""
    return EvalConfig(episodes=50, levels=LEVELS[spawn], parallel=parallel)


def paper_maze(spawn: Spawn, maze: str) -> Experiment:
    """The paper's column in a maze: the appendix' tables, an update for every eight steps.

    Its eight samplers are 64 games here: a GPU then waits less, and experience comes in the same order within a game.
    """
    agent = FrameSFLConfig(frames=FrameConfig(encoder=PAPER_ENCODER))
    filters = {"k_nearest": 5} if spawn == "random" else {"temporal": 0.1}
    train = TrainConfig(steps=2_000_000, env_count=64, eval_every=500_000, checkpoint_every=500_000, log_every=10_000)
    return Experiment(
        name=f"{maze_place(spawn, maze)}-paper",
        env=DoomConfig(maze, spawn=spawn),
        agent=replace(agent, edges=replace(agent.edges, **filters)),
        train=train,
        eval=maze_tasks(spawn),
    )


def our_maze(spawn: Spawn, maze: str | None = None) -> Experiment:
    """Our best in a maze, or without a name in whichever maze `--env.maze` says: one setting for all of a spawn."""
    env = DoomConfig(spawn=spawn) if maze is None else DoomConfig(maze, spawn=spawn)
    train = TrainConfig(steps=2_000_000, env_count=128, eval_every=500_000, checkpoint_every=500_000, log_every=10_000)
    agent = recommended_for_frames()
    if spawn == "fixed":
        agent = replace(agent, navigator=replace(agent.navigator, blame="both"))
    name = f"{maze_place(spawn, maze)}-sfl"
    return Experiment(name, replace(env, max_steps=500), agent, train, maze_tasks(spawn))


def small_maze() -> Experiment:
    """A maze for a laptop without a GPU."""
    agent = recommended_for_frames("compact", hidden=(256, 256), updates_per_step=1 / 24)
    train = TrainConfig(steps=200_000, env_count=64, eval_every=50_000, checkpoint_every=50_000, log_every=2_000)
    env = DoomConfig("small", spawn="random", max_steps=500)
    return Experiment(f"{LAPTOP}-sfl", env, agent, train, maze_tasks("random", parallel=16))


def frontier_maze(base: Experiment, frontier: Frontier) -> Experiment:
    """The ablation of exploration: where trips go to.

    A quarter of the steps: coverage is a matter of early ones, and after all of them every square has been visited.
    """
    assert isinstance(base.agent, FrameSFLConfig)
    agent = replace(base.agent, navigator=replace(base.agent.navigator, frontier=frontier))
    train = replace(base.train, steps=base.train.steps // 4)
    return replace(base, name=f"{base.name}-{frontier}-frontiers", agent=agent, train=train)


def experiments() -> list[Experiment]:
    """All of this file, ours first."""
    places = [(spawn, maze) for spawn, mazes in MAZES.items() for maze in mazes]
    rules: tuple[Frontier, ...] = ("inverse-visits", "uniform")
    return [
        small_maze(),
        *(our_maze(spawn) for spawn in MAZES),
        *(our_maze(spawn, maze) for spawn, maze in places),
        *(paper_maze(spawn, maze) for spawn, maze in places),
        *(frontier_maze(our_maze("fixed", "test-1"), rule) for rule in rules),
        *(frontier_maze(paper_maze("fixed", "test-1"), rule) for rule in rules),
    ]
