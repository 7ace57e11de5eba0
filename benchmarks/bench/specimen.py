"""A run folder of the size that the page must cope with: a real maze, real files, and a graph made up at will.

Its agent acts and its fields can be made, but it has learned nothing. For benchmarks and tests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.spatial import KDTree

from sfl.api import AgentState, Array, EnvSpec
from sfl.method.config import FrameSFLConfig, recommended_for_frames
from sfl.method.edges import EdgeStatistics, form_edges
from sfl.registry import make_agent
from sfl.run import checkpoint, folder
from sfl.run.folder import RunFolder
from sfl.run.machine import system_facts
from sfl.run.settings import EvalConfig, Experiment, TrainConfig
from sfl.seeding import spawn
from sfl.worlds import DoomConfig
from sfl.worlds.doom.world import MazeWorld

STEPS = 200_000
LEVELS = ("easy", "medium", "hard")
MOMENTS = (0.1, 0.25, 0.5, 0.75)
"""Shares of the run at which it left a checkpoint; it then had as large a share of its landmarks."""

NEIGHBOURS = 24
"""Nearest landmarks among which edges are chosen."""


@dataclass(frozen=True)
class Size:
    """How large the graph is."""

    landmarks: int = 5_000
    edges: int = 30_000


def make_specimen(path: Path, size: Size | None = None, maze: str = "large") -> RunFolder:
    """A new run folder at `path` of a finished run in one of our mazes."""
    size = size or Size()
    agent = recommended_for_frames("compact", hidden=(64,))
    agent = replace(agent, landmarks=replace(agent.landmarks, limit=max(size.landmarks, 1)), replay_size=1_000)
    train = TrainConfig(STEPS, env_count=1, eval_every=20_000, checkpoint_every=50_000, log_every=2_000)
    env = DoomConfig(maze, max_steps=500)
    experiment = Experiment("specimen", env, agent, train, EvalConfig(episodes=5, levels=LEVELS, parallel=4))
    made = folder.create(path, experiment, 0, system_facts("cpu", 1))
    world = MazeWorld(env)
    world.save_tasks(made.path, experiment.eval)
    _write_tables(made)
    spec, rng = env.spec(), spawn(0, ["specimen"])["specimen"]
    poses = np.column_stack([world.sampler.free.sample(rng, size.landmarks), rng.uniform(0, 360, size.landmarks)])
    poses = poses[np.argsort(np.hypot(*(poses[:, :2] - world.sampler.maze.start[:2]).T))].astype(np.float32)
    trail = poses[_walk(len(poses), rng)]
    for share in (*MOMENTS, 1.0):
        count = round(share * size.landmarks)
        state = _state(agent, spec, poses[:count], round(share * size.edges), round(share * STEPS), rng)
        kept = checkpoint.Checkpoint(
            state, env.world_name(), spec, round(share * STEPS), poses=(trail,), landmark_poses=poses[:count]
        )
        place = made.last if share == 1.0 else made.history(round(share * STEPS))
        checkpoint.save(place, kept, "slim" if share == 1.0 else "small")
    return made


def _walk(landmarks: int, rng: np.random.Generator) -> Array:
    """[STEPS] where training was: the farther on, the farther out."""
    return (landmarks * np.arange(1, STEPS + 1) / STEPS * np.sqrt(rng.random(STEPS))).astype(int)


def _state(
    config: FrameSFLConfig, spec: EnvSpec, poses: Array, edges: int, step: int, rng: np.random.Generator
) -> AgentState:
    """A fresh agent's, with landmarks at these places."""
    state, count = make_agent(config, spec, 0).state_dict(), len(poses)
    psi = rng.standard_normal((count, state.graph["psi"].shape[1])).astype(np.float32)
    parts = len(config.frames.traces) + config.frames.stack
    statistics = _statistics(_pairs(poses, edges // 2), rng, step)
    formed = form_edges(statistics, config.edges, count)
    state.graph |= {
        "visits": rng.geometric(0.01, count),
        "origin": np.linspace(0, step - 1, count).astype(np.int64),
        "added_at": np.linspace(1, step, count).astype(np.int64),
        "psi": psi / np.linalg.norm(psi, axis=1, keepdims=True),
        "observations": np.repeat(psi, parts, axis=1),
        "doubted": rng.random(count) < 0.05,
        **statistics.state(),
        "edge_sources": formed.sources,
        "edge_targets": formed.targets,
        "edge_counts": formed.counts,
        "edge_weights": formed.weights,
    }
    state.counters |= {"env_steps": step, "acted": step, "edge_size": count}
    return state


def _pairs(poses: Array, count: int) -> Array:
    """[count, 2] the closest pairs of landmarks, each once; fewer where there are not as many."""
    most = min(NEIGHBOURS, len(poses) - 1)
    gaps, others = KDTree(poses[:, :2]).query(poses[:, :2], k=most + 1)
    sources = np.repeat(np.arange(len(poses)), most)
    pairs = np.sort(np.column_stack([sources, others[:, 1:].ravel()]), axis=1)
    # Everybody's nearest come first, so that no landmark is left alone.
    order = np.lexsort((gaps[:, 1:].ravel(), np.tile(np.arange(most), len(poses))))
    _, first = np.unique(pairs[order], axis=0, return_index=True)
    return np.asarray(pairs[order][np.sort(first)][:count])


def _statistics(pairs: Array, rng: np.random.Generator, step: int) -> EdgeStatistics:
    statistics = EdgeStatistics()
    counts, walks, failures = (rng.geometric(share, len(pairs)) for share in (0.2, 0.5, 0.6))
    for (source, target), count, walked, failed in zip(pairs.tolist(), counts, walks, failures, strict=True):
        for number in range(count):
            statistics.record(source, target, 4, random=number % 2 == 0)
        for _ in range(walked - 1):
            statistics.record_walk(source, target)
        for _ in range(failed - 1):
            statistics.record_failure(source, target, step)
    return statistics


def _write_tables(made: RunFolder) -> None:
    """Curves of a run that learns: success rises, the loss falls."""
    tables = made.tables(LEVELS)
    for number in range(1, 101):
        share = number / 100
        tables["train"].write({"env_steps": int(share * STEPS), "train/sf_loss": 1 / number, "explore/coverage": share})
    for number in range(1, 11):
        success = {f"eval/success_{level}": number / (10 + place) for place, level in enumerate(LEVELS)}
        tables["eval"].write({"env_steps": number * STEPS // 10, **success})
