"""Named experiments: the paper's settings and ours, as typed values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from sfl.agents import AgentConfig, agent_name
from sfl.agents.controller import ControllerConfig
from sfl.agents.episodic_curiosity import ECConfig
from sfl.agents.mss.config import FrameMSSConfig, MSSConfig, multiroom
from sfl.agents.random_agent import RandomConfig
from sfl.agents.sfl.config import (
    FrameConfig,
    FrameSFLConfig,
    SFLConfig,
    TabularConfig,
    by_reachability,
    recommended,
    recommended_for_frames,
)
from sfl.agents.sgm import SGMConfig
from sfl.agents.sptm import SPTMConfig
from sfl.core.config import require
from sfl.core.errors import unknown_name
from sfl.envs.config import DoomConfig, GymConfig, MiniGridConfig
from sfl.envs.mazes import own_mazes
from sfl.graph.landmarks import LandmarkConfig
from sfl.learners.episodic_memory import BonusConfig
from sfl.learners.locomotion import LocomotionConfig
from sfl.learners.ppo import PPOConfig
from sfl.learners.retrieval import RetrievalConfig
from sfl.run.config import EvalConfig, Experiment, TrainConfig

MINIGRID = {
    "fourroom": "sfl/FourRoom-v0",
    **{f"multiroom-n{rooms}": f"sfl/MultiRoom-N{rooms}-v0" for rooms in (2, 3, 4, 6, 8)},
}
"""Short names of the MiniGrid environments."""

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


def _limit(env: str) -> int:
    """The paper's landmark limits: 10 on FourRoom, 30 on MultiRoom."""
    return 10 if env == "fourroom" else 30


def _paper(env: str) -> Experiment:
    """The paper's column: section 5 and the appendix' tables; eight samplers, one update of each network per step."""
    return Experiment(
        name=f"paper-{env}",
        env=MiniGridConfig(id=MINIGRID[env]),
        agent=SFLConfig(landmarks=LandmarkConfig(limit=_limit(env))),
        train=TrainConfig(steps=300_000, env_count=8, eval_every=20_000, checkpoint_every=20_000, log_every=2_000),
        eval=EvalConfig(),
    )


def _ours(env: str, steps: int) -> Experiment:
    """Our best. docs/agents/sfl.md says what differs from the paper and what each difference is worth."""
    return Experiment(
        name=f"sfl-{env}",
        env=MiniGridConfig(id=MINIGRID[env]),
        agent=recommended(_limit(env), add_threshold=0.5 if env == "fourroom" else 0.6),
        train=TrainConfig(steps=steps, env_count=8, eval_every=10_000, checkpoint_every=10_000, log_every=1_000),
        eval=EvalConfig(),
    )


def _tabular(env: str) -> Experiment:
    """One-hot phi, exact psi, the paper's graph: what the graph alone can do."""
    return Experiment(
        name=f"tabular-{env}",
        env=MiniGridConfig(id=MINIGRID[env]),
        agent=TabularConfig(landmarks=LandmarkConfig(limit=_limit(env), start_step=5_000, add_every=500)),
        train=TrainConfig(steps=60_000, env_count=1, eval_every=10_000, checkpoint_every=20_000, log_every=1_000),
        eval=EvalConfig(),
    )


def _random(env: str) -> Experiment:
    """The uniform random policy under the same evaluation."""
    train = TrainConfig(steps=1_000, env_count=1, eval_every=0, checkpoint_every=1_000, log_every=1_000)
    return Experiment(f"random-{env}", MiniGridConfig(id=MINIGRID[env]), RandomConfig(), train, EvalConfig())


def _doom_eval(spawn: Spawn, parallel: int = 50) -> EvalConfig:
    """50 start-goal pairs a level, as in the paper; half of the games play while the other half is looked at."""
    return EvalConfig(episodes=50, levels=LEVELS[spawn], parallel=parallel)


def _random_doom(spawn: Spawn, maze: str | None = None) -> Experiment:
    """The uniform random policy in a maze, or without a name in whichever maze `--env.maze` says."""
    name = f"random-doom-{spawn}" if maze is None else f"random-doom-{maze}-{spawn}"
    env = DoomConfig(spawn=spawn) if maze is None else DoomConfig(maze, spawn=spawn)
    train = TrainConfig(steps=20_000, env_count=8, eval_every=0, checkpoint_every=20_000, log_every=2_000)
    return Experiment(name, env, RandomConfig(), train, _doom_eval(spawn))


PAPER_ENCODER = "resnet18.safetensors"
"""The paper's encoder is too large to ship; docs/agents/sfl.md has the command that makes this file."""


def _paper_doom(spawn: Spawn, maze: str) -> Experiment:
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
        eval=_doom_eval(spawn),
    )


def _ours_doom(spawn: Spawn, maze: str | None = None) -> Experiment:
    """Our best in a maze, or without a name in whichever maze `--env.maze` says: one setting for all of a spawn."""
    name = f"sfl-doom-{spawn}" if maze is None else f"sfl-doom-{maze}-{spawn}"
    env = DoomConfig(spawn=spawn) if maze is None else DoomConfig(maze, spawn=spawn)
    train = TrainConfig(steps=2_000_000, env_count=128, eval_every=500_000, checkpoint_every=500_000, log_every=10_000)
    agent = recommended_for_frames()
    if spawn == "fixed":
        agent = replace(agent, navigator=replace(agent.navigator, blame="both"))
    return Experiment(name, replace(env, max_steps=500), agent, train, _doom_eval(spawn))


PRETRAINED = "networks.safetensors"
"""Retrieval and locomotion network as `sfl network train` makes them; docs/agents/controller.md has the commands."""
TUNED = f"runs/controller-doom-{{}}-{{}}/seed-0000/checkpoints/last/{PRETRAINED}"
"""The same as the controller's first run has tuned them to a maze and a spawn."""


def _controller_doom(spawn: Spawn, maze: str) -> Experiment:
    """The visual controller: 4M steps of random walks tune both networks to the maze, one example of each per step.

    Batches are four times SPTM's, and steps as many times fewer: a GPU is then used well.
    """
    retrieval, locomotion = RetrievalConfig(batch_size=256), LocomotionConfig(batch_size=256)
    agent = ControllerConfig(PRETRAINED, retrieval, locomotion, updates_per_step=1 / 256)
    train = TrainConfig(4_000_000, env_count=128, eval_every=2_000_000, checkpoint_every=2_000_000, log_every=10_000)
    env = DoomConfig(maze, spawn=spawn, max_steps=500 if spawn == "random" else 2_500)
    return Experiment(f"controller-doom-{maze}-{spawn}", env, agent, train, _doom_eval(spawn))


def _reachability_doom() -> Experiment:
    """The ablation of the metric: the paper's column with R, as the controller's first run has tuned it to the maze."""
    paper = _paper_doom("random", "sgm")
    assert isinstance(paper.agent, FrameSFLConfig)
    agent = by_reachability(paper.agent, TUNED.format("sgm", "random"))
    return replace(paper, name="reachability-doom-sgm-random", agent=agent)


def _rs_memory_doom(kind: type[SPTMConfig] | type[SGMConfig], maze: str) -> Experiment:
    """For the appendix on EC: walks and networks of random spawn, tasks of fixed spawn."""
    base = _memory_doom(kind, "random", maze)
    name, env = f"{base.name.split('-')[0]}-rs-doom-{maze}-fixed", DoomConfig(maze, pairs="fixed", max_steps=200)
    return replace(base, name=name, env=env, eval=_doom_eval("fixed"))


def _memory_doom(
    kind: type[SPTMConfig] | type[SGMConfig], spawn: Spawn, maze: str, curious: bool = False
) -> Experiment:
    """SPTM or SGM with the networks of the controller's first run in the same maze, over 100 episodes of 200 steps.

    SGM has 114,000 steps to build and clean its graph. `curious`: the episodes are those of EC's first run there.
    """
    name, steps = ("sptm", 20_000) if kind is SPTMConfig else ("sgm", 114_000)
    train = TrainConfig(steps, env_count=50, eval_every=0, checkpoint_every=60_000, log_every=2_000)
    agent, env = kind(TUNED.format(maze, spawn)), DoomConfig(maze, spawn=spawn, max_steps=200)
    if curious:
        name, explorer = f"ec-{name}", f"runs/ec-doom-{maze}-{spawn}/seed-0000"
        agent = replace(agent, memory=replace(agent.memory, explorer=explorer))
    return Experiment(f"{name}-doom-{maze}-{spawn}", env, agent, train, _doom_eval(spawn))


def _small_doom() -> Experiment:
    """A maze for a laptop without a GPU."""
    agent = recommended_for_frames("compact", hidden=(256, 256), updates_per_step=1 / 24)
    train = TrainConfig(steps=200_000, env_count=64, eval_every=50_000, checkpoint_every=50_000, log_every=2_000)
    env = DoomConfig("small", spawn="random", max_steps=500)
    return Experiment("sfl-doom-small", env, agent, train, _doom_eval("random", parallel=16))


def _ec_doom(maze: str) -> Experiment:
    """Episodic Curiosity as the paper has it explore for SPTM and SGM.

    Its twelve environments with 256 steps between two improvements are 64 with 48: as many steps, and a GPU waits less.
    """
    train = TrainConfig(steps=2_000_000, env_count=64, eval_every=500_000, checkpoint_every=200_000, log_every=10_000)
    agent = ECConfig(
        networks=PRETRAINED,
        retrieval=RetrievalConfig(batch_size=256),
        locomotion=LocomotionConfig(batch_size=256),
        updates_per_step=1 / 256,
        ppo=PPOConfig(horizon=48, decay_steps=train.steps),
    )
    env = DoomConfig(maze, spawn="fixed", max_steps=500)
    return Experiment(f"ec-doom-{maze}-fixed", env, agent, train, _doom_eval("fixed"))


def _ec_fourroom() -> Experiment:
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
    return Experiment("ec-fourroom", MiniGridConfig(id=MINIGRID["fourroom"]), agent, train, EvalConfig())


def _mss(env: str) -> Experiment:
    """Mapping State Space, the appendix' table, under the budget of the paper's column."""
    agent = MSSConfig() if env == "fourroom" else multiroom()
    return replace(_paper(env), name=f"mss-{env}", agent=agent)


def _mss_doom(maze: str, oracle: bool = False) -> Experiment:
    """Mapping State Space in a maze, or its variant whose reward knows true positions."""
    paper = _paper_doom("fixed", maze)
    name = f"mss-oracle-doom-{maze}-fixed" if oracle else f"mss-doom-{maze}-fixed"
    return replace(paper, name=name, agent=FrameMSSConfig(oracle=oracle))


def _gym() -> Experiment:
    """Any Gymnasium environment with discrete actions and array observations."""
    base = _ours("multiroom-n4", 60_000)
    env, tasks = GymConfig(id="MiniGrid-FourRooms-v0"), EvalConfig(levels=("any",))
    return replace(base, name="sfl-gym", env=env, agent=recommended(limit=100), eval=tasks)


def _all() -> dict[str, Experiment]:
    ours = {"fourroom": 40_000, "multiroom-n2": 40_000, "multiroom-n3": 60_000}
    ours |= {"multiroom-n4": 80_000, "multiroom-n6": 150_000, "multiroom-n8": 200_000}
    listed = [*(_ours(env, steps) for env, steps in ours.items()), _gym()]
    listed += [_paper(env) for env in ("fourroom", "multiroom-n2", "multiroom-n3", "multiroom-n4")]
    listed += [_tabular(env) for env in ("fourroom", "multiroom-n3")]
    listed += [_random(env) for env in MINIGRID]
    spawns: tuple[Spawn, ...] = ("random", "fixed")
    listed += [_small_doom(), _ec_fourroom(), *(_ours_doom(spawn) for spawn in spawns)]
    listed += [_ours_doom(spawn, maze) for spawn in spawns for maze in MAZES[spawn]]
    listed += [_paper_doom(spawn, maze) for spawn in spawns for maze in MAZES[spawn]]
    listed += [_reachability_doom(), *(_ec_doom(maze) for maze in MAZES["fixed"])]
    listed += [_random_doom(spawn) for spawn in spawns]
    listed += [_random_doom(spawn, maze) for spawn in spawns for maze in MAZES[spawn]]
    papers = [(spawn, maze) for spawn in spawns for maze in MAZES[spawn] if maze not in own_mazes()]
    listed += [_controller_doom(spawn, maze) for spawn, maze in (*papers, ("random", "test-1"))]
    listed += [_memory_doom(kind, spawn, maze) for kind in (SPTMConfig, SGMConfig) for spawn, maze in papers]
    fixed = [maze for spawn, maze in papers if spawn == "fixed"]
    listed += [_memory_doom(kind, "fixed", maze, curious=True) for kind in (SPTMConfig, SGMConfig) for maze in fixed]
    listed += [_rs_memory_doom(kind, "test-1") for kind in (SPTMConfig, SGMConfig)]
    listed += [_mss(env) for env in ("fourroom", "multiroom-n2", "multiroom-n3", "multiroom-n4")]
    listed += [_mss_doom(maze) for maze in ("test-1", "test-4")] + [_mss_doom("test-1", oracle=True)]
    return {experiment.name: experiment for experiment in listed}


EXPERIMENTS = _all()


def names() -> list[str]:
    """All experiments, ours first."""
    return list(EXPERIMENTS)


def get(name: str) -> Experiment:
    """An experiment by name; a name that does not exist is answered with the nearest that does."""
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS, "`sfl list` shows all.")
    return EXPERIMENTS[name]


def overview() -> Iterator[tuple[str, str]]:
    """Names and descriptions for `sfl list`; experiments that differ in the maze only share a line."""
    families: dict[str, list[Experiment]] = {}
    for experiment in EXPERIMENTS.values():
        families.setdefault(_family(experiment), []).append(experiment)
    for family, members in families.items():
        mazes = [member.env.maze for member in members if isinstance(member.env, DoomConfig)]
        line = describe(members[0].name)
        yield family, f"{line}; MAZE: {', '.join(mazes)}" if "MAZE" in family else line


def _family(experiment: Experiment) -> str:
    """The name, with MAZE where it says which."""
    env = experiment.env
    return experiment.name.replace(f"-{env.maze}-", "-MAZE-") if isinstance(env, DoomConfig) else experiment.name


def describe(name: str) -> str:
    """What an experiment is, in one line."""
    experiment = get(name)
    named = name.startswith(("ec-", "mss-"))
    kind = agent_name(experiment.agent) if named else name.split("-", maxsplit=1)[0]
    meaning = {
        "sfl": "SFL, our settings",
        "paper": "SFL, the paper's settings",
        "reachability": "SFL, the paper's settings with SPTM's reachability network as the metric",
        "tabular": "SFL with one-hot phi and exact psi",
        "random": "the uniform random policy",
        "ec": "Episodic Curiosity",
        "ec-sptm": "SPTM over walks of Episodic Curiosity",
        "ec-sgm": "SGM over walks of Episodic Curiosity",
        "controller": "the visual controller",
        "sptm": "semi-parametric topological memory",
        "sgm": "sparse graphical memory",
        "mss": "Mapping State Space",
        "mss-oracle": "Mapping State Space rewarded by true positions",
    }[kind]
    env = experiment.env
    where = f"{env.id}, {env.spawn} spawn" if isinstance(env, DoomConfig) else env.id
    if isinstance(env, DoomConfig) and f"-{env.maze}" not in name:
        where += ", in any maze: --env.maze NAME|FILE"
    return f"{meaning}; {where}; {experiment.train.steps:,} steps"


def tiny(experiment: Experiment) -> Experiment:
    """The same experiment in seconds: every part runs, nothing is learned well."""
    train = replace(experiment.train, steps=1_200, eval_every=600, checkpoint_every=600, log_every=200)
    env, tasks = experiment.env, replace(experiment.eval, episodes=4)
    if isinstance(env, DoomConfig):  # games take a second each to start
        env, tasks = replace(env, max_steps=150), replace(tasks, episodes=3, parallel=4)
        train = replace(train, env_count=min(train.env_count, 4))
    return replace(experiment, env=env, agent=_tiny_agent(experiment.agent), train=train, eval=tasks)


def _tiny_agent(agent: AgentConfig) -> AgentConfig:
    if isinstance(agent, SFLConfig | FrameSFLConfig | TabularConfig):
        return _tiny_sfl(agent)
    if isinstance(agent, ControllerConfig | SPTMConfig | SGMConfig | ECConfig):
        return _tiny_networks(agent)
    if isinstance(agent, MSSConfig | FrameMSSConfig):
        return _tiny_mss(agent)
    return agent


def _tiny_sfl(agent: SFLConfig | FrameSFLConfig | TabularConfig) -> AgentConfig:
    landmarks = replace(agent.landmarks, start_step=400, add_every=100, update_every=100)
    metric = replace(agent.metric, networks="", retrieval=replace(agent.metric.retrieval, encoder="compact", hidden=32))
    agent = replace(agent, landmarks=landmarks, edges=replace(agent.edges, form_every=100), metric=metric)
    if isinstance(agent, TabularConfig):
        return replace(agent, solve_every=200)
    successor = replace(agent.successor, start_step=200, updates_per_step=0.05, batch_size=32)
    agent = replace(agent, successor=successor)
    if isinstance(agent, FrameSFLConfig):
        return agent
    features = replace(agent.features, start_step=100, stop_step=0, updates_per_step=0.05, batch_size=32)
    return replace(agent, features=features)


def _tiny_networks(agent: ControllerConfig | SPTMConfig | SGMConfig | ECConfig) -> AgentConfig:
    retrieval = replace(agent.retrieval, encoder="compact", hidden=32, batch_size=16)
    locomotion = replace(agent.locomotion, encoder="compact", batch_size=16)
    agent = replace(agent, networks="", retrieval=retrieval, locomotion=locomotion)
    agent = replace(agent, updates_per_step=0.02, replay_size=600)
    if isinstance(agent, ECConfig):
        ppo = replace(agent.ppo, horizon=32, dim=32, epochs=1, minibatches=1, decay_steps=1_200)
        return replace(agent, train_every=200, ppo=ppo)
    if isinstance(agent, SPTMConfig | SGMConfig):
        return replace(agent, memory=replace(agent.memory, steps=500, explorer=""))
    return agent


def _tiny_mss(agent: MSSConfig | FrameMSSConfig) -> AgentConfig:
    uvfa = replace(agent.uvfa, start_step=200, updates_per_step=0.05, batch_size=32)
    landmarks = min(agent.map.landmarks, 20)
    agent = replace(agent, uvfa=uvfa, map=replace(agent.map, landmarks=landmarks, candidates=100, redraw_every=200))
    if isinstance(agent, FrameMSSConfig):
        return replace(agent, cycle_steps=20, uvfa=replace(agent.uvfa, hidden=(64, 64)))
    return agent


def scaled(experiment: Experiment, factor: float) -> Experiment:
    """The same experiment with another budget of environment steps."""
    require(factor > 0, f"--scale must be positive, got {factor}.")
    steps = max(1, round(experiment.train.steps * factor))
    agent = experiment.agent
    if isinstance(agent, ECConfig):  # its learning rate falls over the run
        agent = replace(agent, ppo=replace(agent.ppo, decay_steps=steps))
    return replace(experiment, agent=agent, train=replace(experiment.train, steps=steps))
