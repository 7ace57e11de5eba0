"""Named experiments: the paper's settings and ours, as typed values."""

from __future__ import annotations

from dataclasses import replace

from sfl.agents.random_agent import RandomConfig
from sfl.agents.sfl.config import SFLConfig, TabularConfig, recommended
from sfl.core.config import require
from sfl.core.errors import unknown_name
from sfl.envs.config import GymConfig, MiniGridConfig
from sfl.graph.landmarks import LandmarkConfig
from sfl.run.config import EvalConfig, Experiment, TrainConfig

MINIGRID = {
    "fourroom": "sfl/FourRoom-v0",
    **{f"multiroom-n{rooms}": f"sfl/MultiRoom-N{rooms}-v0" for rooms in (2, 3, 4, 6, 8)},
}
"""Short names of the MiniGrid environments."""


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


def _gym() -> Experiment:
    """Any Gymnasium environment with discrete actions and array observations."""
    base = _ours("multiroom-n4", 60_000)
    env, tasks = GymConfig(id="MiniGrid-FourRooms-v0"), EvalConfig(levels=("any",))
    return replace(base, name="sfl-gym", env=env, agent=recommended(limit=100), eval=tasks)


def _all() -> dict[str, Experiment]:
    ours = {"fourroom": 40_000, "multiroom-n2": 40_000, "multiroom-n3": 60_000}
    ours |= {"multiroom-n4": 80_000, "multiroom-n6": 150_000, "multiroom-n8": 200_000}
    listed = [_ours(env, steps) for env, steps in ours.items()]
    listed += [_gym()]
    listed += [_paper(env) for env in ("fourroom", "multiroom-n2", "multiroom-n3", "multiroom-n4")]
    listed += [_tabular(env) for env in ("fourroom", "multiroom-n3")]
    listed += [_random(env) for env in MINIGRID]
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


def describe(name: str) -> str:
    """One line for `sfl list`."""
    experiment = get(name)
    kind = name.split("-", maxsplit=1)[0]
    meaning = {
        "sfl": "SFL, our settings",
        "paper": "SFL, the paper's settings",
        "tabular": "SFL with one-hot phi and exact psi",
        "random": "the uniform random policy",
    }[kind]
    return f"{meaning}; {experiment.env.id}; {experiment.train.steps:,} steps"


def tiny(experiment: Experiment) -> Experiment:
    """The same experiment in seconds: every part runs, nothing is learned well."""
    agent = experiment.agent
    if isinstance(agent, SFLConfig):
        features = replace(agent.features, start_step=100, stop_step=0, updates_per_step=0.05, batch_size=32)
        successor = replace(agent.successor, start_step=200, updates_per_step=0.05, batch_size=32)
        agent = replace(agent, features=features, successor=successor)
    if not isinstance(agent, RandomConfig):
        landmarks = replace(agent.landmarks, start_step=400, add_every=100, update_every=100)
        agent = replace(agent, landmarks=landmarks, edges=replace(agent.edges, form_every=100))
    if isinstance(agent, TabularConfig):
        agent = replace(agent, solve_every=200)
    train = replace(experiment.train, steps=1_200, eval_every=600, checkpoint_every=600, log_every=200)
    return replace(experiment, agent=agent, train=train, eval=replace(experiment.eval, episodes=4))


def scaled(experiment: Experiment, factor: float) -> Experiment:
    """The same experiment with another budget of environment steps."""
    require(factor > 0, f"--scale must be positive, got {factor}.")
    steps = max(1, round(experiment.train.steps * factor))
    return replace(experiment, train=replace(experiment.train, steps=steps))
