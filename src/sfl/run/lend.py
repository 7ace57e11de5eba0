"""The frozen policy of one run as the explorer of another: Episodic Curiosity fills the memory of SPTM or SGM.

Which checkpoint of that run it is taken from is decided as in the paper, by true positions, which no agent sees: where
a run's configuration says `oracle`, this is meant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sfl.api import Agent, Array
from sfl.baselines.config import ORACLE, WalksConfig
from sfl.baselines.ec import ExplorerPolicy
from sfl.baselines.sgm import SGMAgent
from sfl.baselines.sptm import SPTMAgent
from sfl.config import require
from sfl.errors import UsageError
from sfl.files import read_array
from sfl.registry import agent_name
from sfl.run.evaluate import open_world
from sfl.run.folder import RunFolder, load_run, usable_config
from sfl.run.log import note
from sfl.run.settings import Experiment
from sfl.seeding import draw_seed, generator_state, restore_generator, spawn
from sfl.worlds import EnvConfig
from sfl.worlds.world import Squares

WINDOW = 60_000
"""Environment steps before a checkpoint, or more, over which its coverage is taken."""


@dataclass(frozen=True)
class Explorer:
    """A frozen policy, and which checkpoint it is of: a run that is resumed must go on with the same one, also where
    the explorer's own run has gone on and its oracle would take another."""

    checkpoint: str
    policy: ExplorerPolicy

    def state(self) -> dict[str, Any]:
        """For a checkpoint of the run that it walks for."""
        return {"checkpoint": self.checkpoint, "generator": generator_state(self.policy.rng)}


def lend_explorer(
    agent: Agent, env: EnvConfig, seed: int, device: str, saved: dict[str, Any] | None = None
) -> Explorer | None:
    """Give an agent the explorer that its configuration names, with a generator of its own; None: it names none.

    `saved`: what `Explorer.state` said of the one that a resumed run had.
    """
    if not isinstance(agent, SPTMAgent | SGMAgent) or not agent.config.memory.explorer:
        return None
    explorer = find_explorer(agent.config.memory, env, seed, device, None if saved is None else saved["checkpoint"])
    if saved is not None:
        restore_generator(explorer.policy.rng, saved["generator"])
    agent.filling.explore_with(explorer.policy)
    return explorer


def find_explorer(
    config: WalksConfig, env: EnvConfig, seed: int, device: str, checkpoint: str | None = None
) -> Explorer:
    """The frozen policy of the run that a configuration names, in the checkpoint that it names or in this one."""
    import torch

    path, wanted = Path(config.explorer), checkpoint or config.explorer_checkpoint
    if not RunFolder(path).config.is_file():
        raise UsageError(
            f"memory.explorer names {path}, the run of ec whose policy fills this one's memory, and it is not there; "
            "put it back, or train a run of ec in this world and name that."
        )
    experiment, _ = usable_config(path)
    method, made_in, here = agent_name(experiment.agent), experiment.env.world_name(), env.world_name()
    require(method == "ec", f"memory.explorer must be a run of ec, {path} is one of {method}.")
    require(made_in == here, f"memory.explorer {path} explored {made_in}; this run is in {here}.")
    name = wanted
    if wanted == ORACLE:
        name = oracle_checkpoint(RunFolder(path), open_world(experiment.env).squares(), window_of(experiment, env))
    note(f"the memory is filled by {path}, checkpoint {name}{' (oracle)' if wanted == ORACLE else ''}.")
    run = load_run(path, name, device, torch.get_num_threads(), learning=False)
    policy = run.agent.policy(draw_seed(spawn(seed, ["explorer"])["explorer"]))
    assert isinstance(policy, ExplorerPolicy)
    return Explorer(name, policy)


@dataclass(frozen=True)
class Window:
    """Which of an explorer's steps before a checkpoint count: the early ones of its last episodes.

    Whole episodes of all environments, which begin them together: late steps of an episode are in other places than
    early ones. Of each as many steps as the walks that it is to make will have.
    """

    env_count: int
    length: int
    """Steps of an episode; 1 where it is not known, and then all count."""
    first: int
    """Steps of an episode that count."""

    @property
    def steps(self) -> int:
        """Length of the window in steps of all environments together."""
        together = self.env_count * self.length
        return together * math.ceil(WINDOW / together)

    def early(self, walked: Array, until: int) -> Array:
        """Those of the poses [N, 3] of all steps that count for a checkpoint after `until` steps."""
        until = min(until, len(walked))
        begin = max(0, until - self.steps)
        moments = np.arange(begin, until) // self.env_count % self.length
        return np.asarray(walked[begin:until][moments < self.first])


def window_of(experiment: Experiment, env: EnvConfig) -> Window:
    """For a run of an explorer that is to walk in another one's environment."""
    length = experiment.env.max_steps or 1
    return Window(experiment.train.env_count, length, env.max_steps or length)


def oracle_checkpoint(run: RunFolder, squares: Squares | None, window: Window) -> str:
    """The history checkpoint before which the run covered most, by true positions; of equal ones the latest."""
    poses = run.last / "poses.npy"
    hint = "name a checkpoint as memory.explorer-checkpoint, e.g. last."
    if not poses.is_file():
        raise UsageError(f"{run.path} holds no true positions (a slim copy, or not saved yet); {hint}")
    if squares is None:
        raise UsageError(f"It is not known which places can be reached where {run.path} explored; {hint}")
    names = run.history_names()
    if not names:
        raise UsageError(f"{run.path} has no history checkpoints; {hint}")
    walked = read_array(poses, poses.stat().st_size)  # as long as the run was
    return max(names, key=lambda name: (_covered(window.early(walked, int(name)), squares), int(name)))


def _covered(walked: Array, squares: Squares) -> float:
    """Share of the squares that were visited."""
    return float((squares.visits(walked) > 0).mean())
