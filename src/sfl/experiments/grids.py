"""SFL in grids: our settings, the paper's, and the exact tables of the same graph."""

from __future__ import annotations

from dataclasses import replace

from sfl.method.config import LandmarkConfig, SFLConfig, TabularConfig, recommended
from sfl.run.settings import EvalConfig, Experiment, TrainConfig
from sfl.worlds.config import GymConfig, MiniGridConfig
from sfl.worlds.exam import LEVELS

MINIGRID = {
    "fourroom": "sfl/FourRoom-v0",
    **{f"multiroom-n{rooms}": f"sfl/MultiRoom-N{rooms}-v0" for rooms in (2, 3, 4, 6, 8)},
}
"""Places in MiniGrid."""

PAPER_GRIDS = ("fourroom", "multiroom-n2", "multiroom-n3", "multiroom-n4")
"""Those that the paper has curves of."""


def _limit(env: str) -> int:
    """The paper's landmark limits: 10 on FourRoom, 30 on MultiRoom."""
    return 10 if env == "fourroom" else 30


def paper_grid(env: str) -> Experiment:
    """The paper's column: section 5 and the appendix' tables; eight samplers, one update of each network per step."""
    return Experiment(
        name=f"{env}-paper",
        env=MiniGridConfig(id=MINIGRID[env]),
        agent=SFLConfig(landmarks=LandmarkConfig(limit=_limit(env))),
        train=TrainConfig(steps=300_000, env_count=8, eval_every=20_000, checkpoint_every=20_000, log_every=2_000),
        eval=EvalConfig(),
    )


def our_grid(env: str, steps: int) -> Experiment:
    """Our best. docs/methods/sfl.md says what differs from the paper and what each difference is worth."""
    return Experiment(
        name=f"{env}-sfl",
        env=MiniGridConfig(id=MINIGRID[env]),
        agent=recommended(_limit(env), add_threshold=0.5 if env == "fourroom" else 0.6),
        train=TrainConfig(steps=steps, env_count=8, eval_every=10_000, checkpoint_every=10_000, log_every=1_000),
        eval=EvalConfig(),
    )


def clustered_grid(base: Experiment, every: int) -> Experiment:
    """The same with landmarks that are exchanged for the centres of clusters every so many steps.

    Edges begin anew each time: intervals are a third of a run in three rooms, whose last is not just before its end.
    """
    assert isinstance(base.agent, SFLConfig)
    landmarks = replace(base.agent.landmarks, formation="clustered", add_every=every)
    return replace(base, name=f"{base.name}-clustered", agent=replace(base.agent, landmarks=landmarks))


def tabular_grid(env: str) -> Experiment:
    """One-hot phi, exact psi, the paper's graph: what the graph alone can do."""
    return Experiment(
        name=f"{env}-tabular",
        env=MiniGridConfig(id=MINIGRID[env]),
        agent=TabularConfig(landmarks=LandmarkConfig(limit=_limit(env), start_step=5_000, add_every=500)),
        train=TrainConfig(steps=60_000, env_count=1, eval_every=10_000, checkpoint_every=20_000, log_every=1_000),
        eval=EvalConfig(),
    )


def any_gym() -> Experiment:
    """Any Gymnasium environment with discrete actions and array observations."""
    base = our_grid("multiroom-n4", 60_000)
    env, tasks = GymConfig(id="MiniGrid-FourRooms-v0"), EvalConfig(levels=LEVELS)
    return replace(base, name="world-sfl", env=env, agent=recommended(limit=100), eval=tasks)


def experiments() -> list[Experiment]:
    """All of this file, ours first."""
    ours = {"fourroom": 40_000, "multiroom-n2": 40_000, "multiroom-n3": 60_000}
    ours |= {"multiroom-n4": 80_000, "multiroom-n6": 150_000, "multiroom-n8": 200_000}
    ablated = ("fourroom", "multiroom-n3")
    return [
        *(our_grid(env, steps) for env, steps in ours.items()),
        any_gym(),
        *(paper_grid(env) for env in PAPER_GRIDS),
        *(tabular_grid(env) for env in ("fourroom", "multiroom-n3")),
        *(clustered_grid(our_grid(env, ours[env]), 22_000) for env in ablated),
        *(clustered_grid(paper_grid(env), 110_000) for env in ablated),
    ]
