"""The methods that SFL is held against, in the same places, with the same tasks."""

from __future__ import annotations

from dataclasses import replace

from sfl.baselines.config import (
    BonusConfig,
    ControllerConfig,
    ECConfig,
    GuideConfig,
    LocomotionConfig,
    PPOConfig,
    SGMConfig,
    SPTMConfig,
)
from sfl.baselines.mss.config import MSSConfig, multiroom, over_frames
from sfl.baselines.random import RandomConfig
from sfl.experiments.grids import MINIGRID, PAPER_GRIDS, any_gym, paper_grid
from sfl.experiments.mazes import MAZES, Spawn, maze_place, maze_tasks, paper_maze
from sfl.method.config import RetrievalConfig, SFLConfig
from sfl.method.presets import by_reachability
from sfl.run.settings import EvalConfig, Experiment, TrainConfig
from sfl.worlds.config import DoomConfig, MiniGridConfig
from sfl.worlds.mazes.load import own_mazes

PRETRAINED = "networks.safetensors"
"""Retrieval and locomotion network as `sfl network train` makes them; docs/methods/controller.md has the commands."""

TUNED = f"runs/{{}}-controller/seed-0000/checkpoints/last/{PRETRAINED}"
"""The same as the controller's first run has tuned them to a maze and a spawn."""

GUIDE = GuideConfig(local_threshold=0.5, global_threshold=0.7, waypoint_threshold=0.7)
"""SPTM's thresholds are for an R that is not taught with extra negatives; one that is says less of the same views."""

ALSO_CONTROLLED: tuple[tuple[Spawn, str], ...] = (("random", "test-1"),)
"""Where networks are tuned for the appendix on EC alone: the table of random spawn has no such maze."""


def random_grid(env: str) -> Experiment:
    """The uniform random policy under the same evaluation."""
    train = TrainConfig(steps=1_000, env_count=1, eval_every=0, checkpoint_every=1_000, log_every=1_000)
    return Experiment(f"{env}-random", MiniGridConfig(id=MINIGRID[env]), RandomConfig(), train, EvalConfig())


def random_gym() -> Experiment:
    """The uniform random policy in any Gymnasium environment, on the exam that SFL has there."""
    ours = any_gym()
    return replace(random_grid("fourroom"), name="world-random", env=ours.env, eval=ours.eval)


def random_maze(spawn: Spawn, maze: str | None = None) -> Experiment:
    """The uniform random policy in a maze, or without a name in whichever maze `--env.maze` says."""
    env = DoomConfig(spawn=spawn) if maze is None else DoomConfig(maze, spawn=spawn)
    train = TrainConfig(steps=20_000, env_count=8, eval_every=0, checkpoint_every=20_000, log_every=2_000)
    return Experiment(f"{maze_place(spawn, maze)}-random", env, RandomConfig(), train, maze_tasks(spawn))


def controller_maze(spawn: Spawn, maze: str) -> Experiment:
    """The visual controller: 4M steps of random walks tune both networks to the maze, one example for 4 steps."""
    retrieval, locomotion = RetrievalConfig(batch_size=256), LocomotionConfig(batch_size=256)
    agent = ControllerConfig(PRETRAINED, retrieval, locomotion, updates_per_step=1 / 1_024, extra_negatives=15)
    train = TrainConfig(4_000_000, env_count=128, eval_every=2_000_000, checkpoint_every=2_000_000, log_every=10_000)
    env = DoomConfig(maze, spawn=spawn, max_steps=500 if spawn == "random" else 2_500)
    return Experiment(f"{maze_place(spawn, maze)}-controller", env, agent, train, maze_tasks(spawn))


def memory_maze(kind: type[SPTMConfig] | type[SGMConfig], spawn: Spawn, maze: str, curious: bool = False) -> Experiment:
    """SPTM or SGM with the networks of the controller's first run in the same maze, over 100 episodes of 200 steps.

    SGM has 114,000 steps to build and clean its graph. `curious`: the episodes are those of EC's first run there.
    """
    name, steps = ("sptm", 20_000) if kind is SPTMConfig else ("sgm", 114_000)
    train = TrainConfig(steps, env_count=50, eval_every=0, checkpoint_every=60_000, log_every=2_000)
    agent, env = kind(TUNED.format(maze_place(spawn, maze))), DoomConfig(maze, spawn=spawn, max_steps=200)
    if isinstance(agent, SPTMConfig):
        agent = replace(agent, guide=GUIDE)
    if curious:
        name, explorer = f"ec-{name}", f"runs/{maze_place(spawn, maze)}-ec/seed-0000"
        agent = replace(agent, memory=replace(agent.memory, explorer=explorer))
    return Experiment(f"{maze_place(spawn, maze)}-{name}", env, agent, train, maze_tasks(spawn))


def reachability_maze() -> Experiment:
    """The ablation of the metric: the paper's column with R, as the controller's first run has tuned it to the maze."""
    paper = paper_maze("random", "sgm")
    assert isinstance(paper.agent, SFLConfig)
    agent = by_reachability(paper.agent, TUNED.format(maze_place("random", "sgm")))
    return replace(paper, name=f"{paper.name}-reachability", agent=agent)


def rs_memory_maze(kind: type[SPTMConfig] | type[SGMConfig], maze: str) -> Experiment:
    """For the appendix on EC: walks and networks of random spawn, tasks of fixed spawn."""
    base = memory_maze(kind, "random", maze)
    agent = base.name.removeprefix(maze_place("random", maze))
    name = f"{maze_place('fixed', maze)}{agent}-random-spawn-walks"
    return replace(base, name=name, env=DoomConfig(maze, pairs="fixed", max_steps=200), eval=maze_tasks("fixed"))


def ec_maze(maze: str) -> Experiment:
    """Episodic Curiosity as the paper has it explore for SPTM and SGM.

    Its twelve environments with 256 steps between two improvements are 128 with 24: as many steps, and a GPU waits
    less. Episodes of all begin together: R is trained between two of them, so that a memory is of one R (but for the
    first member of half of them, which begin a decision earlier), with an example for 2 steps. It has no use for
    goals, so that it is hardly asked to reach any.
    """
    train = TrainConfig(steps=2_000_000, env_count=128, eval_every=0, checkpoint_every=500_000, log_every=10_000)
    together = 500 * train.env_count
    agent = ECConfig(
        networks=PRETRAINED,
        retrieval=RetrievalConfig(batch_size=256),
        locomotion=LocomotionConfig(batch_size=256),
        updates_per_step=1 / 512,
        replay_size=together,
        train_every=together,
        ppo=PPOConfig(horizon=24, decay_steps=train.steps),
    )
    env, tasks = DoomConfig(maze, spawn="fixed", max_steps=500), replace(maze_tasks("fixed"), episodes=5)
    return Experiment(f"{maze_place('fixed', maze)}-ec", env, agent, train, tasks)


def ec_fourroom() -> Experiment:
    """Episodic Curiosity where a CPU will do."""
    train = TrainConfig(steps=100_000, env_count=8, eval_every=50_000, checkpoint_every=10_000, log_every=2_000)
    agent = ECConfig(
        retrieval=RetrievalConfig(near=3, far=12, hidden=64, layers=2, learning_rate=1e-3),
        locomotion=LocomotionConfig(learning_rate=1e-3),
        updates_per_step=1 / 16,
        train_every=2_000,
        bonus=BonusConfig(scale=1.0, capacity=100),
        ppo=PPOConfig(horizon=128, dim=128, learning_rate=1e-3, clip=0.2, decay_steps=train.steps),
    )
    return Experiment("fourroom-ec", MiniGridConfig(id=MINIGRID["fourroom"]), agent, train, EvalConfig())


def mss_grid(env: str) -> Experiment:
    """Mapping State Space, the appendix' table, under the budget of the paper's column."""
    agent = MSSConfig() if env == "fourroom" else multiroom()
    return replace(paper_grid(env), name=f"{env}-mss", agent=agent)


def mss_maze(maze: str, oracle: bool = False) -> Experiment:
    """Mapping State Space in a maze, or its variant whose reward knows true positions."""
    paper = paper_maze("fixed", maze)
    name = f"{maze_place('fixed', maze)}-mss{'-oracle' if oracle else ''}"
    return replace(paper, name=name, agent=over_frames(oracle=oracle))


def experiments() -> list[Experiment]:
    """All of this file, method by method. In the paper's mazes each has its rivals, in ours only those that explore."""
    places = [(spawn, maze) for spawn, mazes in MAZES.items() for maze in mazes]
    papers = [(spawn, maze) for spawn, maze in places if maze not in own_mazes()]
    fixed = [maze for spawn, maze in papers if spawn == "fixed"]
    memories: tuple[type[SPTMConfig] | type[SGMConfig], ...] = (SPTMConfig, SGMConfig)
    return [
        *(random_grid(env) for env in MINIGRID),
        random_gym(),
        *(random_maze(spawn) for spawn in MAZES),
        *(random_maze(spawn, maze) for spawn, maze in places),
        *(controller_maze(spawn, maze) for spawn, maze in (*papers, *ALSO_CONTROLLED)),
        *(memory_maze(kind, spawn, maze) for kind in memories for spawn, maze in papers),
        *(memory_maze(kind, "fixed", maze, curious=True) for kind in memories for maze in fixed),
        *(rs_memory_maze(kind, "test-1") for kind in memories),
        reachability_maze(),
        ec_fourroom(),
        *(ec_maze(maze) for maze in MAZES["fixed"]),
        *(mss_grid(env) for env in PAPER_GRIDS),
        *(mss_maze(maze) for maze in fixed),
        mss_maze("test-1", oracle=True),
    ]
