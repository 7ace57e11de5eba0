"""SFL in mazes: our settings, the paper's, and a maze for a laptop."""

from __future__ import annotations

from dataclasses import replace

from sfl.experiments.places import MAZES, Spawn, maze_tasks
from sfl.method.config import FrameConfig, FrameSFLConfig, Frontier, recommended_for_frames
from sfl.run.settings import Experiment, TrainConfig
from sfl.worlds.config import DoomConfig

PAPER_ENCODER = "resnet18.safetensors"
"""The paper's encoder is too large to ship; docs/agents/sfl.md has the command that makes this file."""


def paper_maze(spawn: Spawn, maze: str) -> Experiment:
    """The paper's column in a maze: the appendix' tables, an update for every eight steps.

    Its eight samplers are 64 games here: a GPU then waits less, and experience comes in the same order within a game.
    """
    agent = FrameSFLConfig(frames=FrameConfig(encoder=PAPER_ENCODER))
    filters = {"k_nearest": 5} if spawn == "random" else {"temporal": 0.1}
    train = TrainConfig(steps=2_000_000, env_count=64, eval_every=500_000, checkpoint_every=500_000, log_every=10_000)
    return Experiment(
        name=f"paper-doom-{maze}-{spawn}",
        env=DoomConfig(maze, spawn=spawn),
        agent=replace(agent, edges=replace(agent.edges, **filters)),
        train=train,
        eval=maze_tasks(spawn),
    )


def our_maze(spawn: Spawn, maze: str | None = None) -> Experiment:
    """Our best in a maze, or without a name in whichever maze `--env.maze` says: one setting for all of a spawn."""
    name = f"sfl-doom-{spawn}" if maze is None else f"sfl-doom-{maze}-{spawn}"
    env = DoomConfig(spawn=spawn) if maze is None else DoomConfig(maze, spawn=spawn)
    train = TrainConfig(steps=2_000_000, env_count=128, eval_every=500_000, checkpoint_every=500_000, log_every=10_000)
    agent = recommended_for_frames()
    if spawn == "fixed":
        agent = replace(agent, navigator=replace(agent.navigator, blame="both"))
    return Experiment(name, replace(env, max_steps=500), agent, train, maze_tasks(spawn))


def small_maze() -> Experiment:
    """A maze for a laptop without a GPU."""
    agent = recommended_for_frames("compact", hidden=(256, 256), updates_per_step=1 / 24)
    train = TrainConfig(steps=200_000, env_count=64, eval_every=50_000, checkpoint_every=50_000, log_every=2_000)
    env = DoomConfig("small", spawn="random", max_steps=500)
    return Experiment("sfl-doom-small", env, agent, train, maze_tasks("random", parallel=16))


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
