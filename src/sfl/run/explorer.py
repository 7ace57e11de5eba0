"""The frozen policy of one run as the explorer of another: Episodic Curiosity fills the memory of SPTM or SGM.

Which checkpoint of that run it is taken from is decided as in the paper, by true positions, which no agent sees: where
a run's configuration says `oracle`, this is meant.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from sfl.agents import agent_name
from sfl.agents.episodic_curiosity import ExplorerPolicy
from sfl.agents.sgm import SGMAgent
from sfl.agents.sptm import SPTMAgent
from sfl.core.config import require
from sfl.core.errors import UsageError
from sfl.core.seeding import draw_seed, spawn
from sfl.data.types import Agent, Array
from sfl.envs import EnvConfig, world_name
from sfl.learners.trail import ORACLE, TrailConfig
from sfl.run.config import Experiment
from sfl.run.folder import RunFolder, load_run, read_config
from sfl.run.poses import Squares
from sfl.run.progress import note
from sfl.run.worlds import open_world

WINDOW = 60_000
"""Environment steps before a checkpoint, or more, over which its coverage is taken."""


def lend_explorer(agent: Agent, env: EnvConfig, seed: int, device: str) -> ExplorerPolicy | None:
    """Give an agent the explorer that its configuration names, with a generator of its own; None: it names none."""
    if not isinstance(agent, SPTMAgent | SGMAgent) or not agent.config.memory.explorer:
        return None
    explorer = find_explorer(agent.config.memory, env, seed, device)
    agent.gathering.explore_with(explorer)
    return explorer


def find_explorer(config: TrailConfig, env: EnvConfig, seed: int, device: str) -> ExplorerPolicy:
    """The frozen policy of the run that a configuration names."""
    import torch

    path, wanted = Path(config.explorer), config.explorer_checkpoint
    experiment, _ = read_config(path)
    method, made_in, here = agent_name(experiment.agent), world_name(experiment.env), world_name(env)
    require(method == "ec", f"memory.explorer must be a run of ec, {path} is one of {method}.")
    require(made_in == here, f"memory.explorer {path} explored {made_in}; this run is in {here}.")
    name = wanted
    if wanted == ORACLE:
        name = oracle_checkpoint(RunFolder(path), open_world(experiment.env).squares(), _window(experiment))
    note(f"the memory is filled by {path}, checkpoint {name}{' (oracle)' if wanted == ORACLE else ''}.")
    run = load_run(path, name, device, torch.get_num_threads(), learning=False)
    policy = run.agent.policy(draw_seed(spawn(seed, ["explorer"])["explorer"]))
    assert isinstance(policy, ExplorerPolicy)
    return policy


def _window(experiment: Experiment) -> int:
    """Whole episodes of all environments: the late steps of an episode are in other places than the early ones."""
    together = experiment.train.env_count * (experiment.env.max_steps or 1)
    return together * math.ceil(WINDOW / together)


def oracle_checkpoint(run: RunFolder, squares: Squares | None, window: int) -> str:
    """The history checkpoint before which the run covered most, by true positions; of equal ones the latest."""
    poses = run.last / "poses.npy"
    hint = "name a checkpoint as memory.explorer-checkpoint, e.g. last."
    if not poses.is_file():
        raise UsageError(f"{run.path} holds no true positions (a slim copy, or not saved yet); {hint}")
    if squares is None:
        raise UsageError(f"It is not known which places can be reached where {run.path} explored; {hint}")
    names = sorted(path.name for path in run.checkpoints.iterdir() if path.name.isdigit())
    if not names:
        raise UsageError(f"{run.path} has no history checkpoints; {hint}")
    walked = np.load(poses, allow_pickle=False)
    return max(names, key=lambda name: (_covered(walked[: int(name)][-window:], squares), int(name)))


def _covered(walked: Array, squares: Squares) -> float:
    """Share of the squares that were visited."""
    return float((squares.visits(walked) > 0).mean())
