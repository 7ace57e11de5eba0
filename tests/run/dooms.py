"""What several tests of runs in ViZDoom share: the maze `small`, whose left corridor runs straight north."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from sfl.baselines.random import RandomConfig
from sfl.nn.frame_encoders import FrameEncoder
from sfl.nn.weights import save_encoder
from sfl.run.settings import EvalConfig, Experiment, TrainConfig
from sfl.worlds import DoomConfig

FORWARD = 2
NORTH = 90.0
SOUTH_END = [96.0, 100.0, NORTH]
"""From here on forward passes every goal below but the last ones."""

PAIRS: dict[str, list[dict[str, Any]]] = {
    "easy": [
        {"start": SOUTH_END, "goal": [96.0, 150.0, NORTH], "distance": 50.0},  # trivial
        {"start": SOUTH_END, "goal": [96.0, 260.0, NORTH], "distance": 160.0},
    ],
    "medium": [
        {"start": SOUTH_END, "goal": [96.0, 400.0, NORTH], "distance": 300.0},
        {"start": SOUTH_END, "goal": [300.0, 100.0, NORTH], "distance": 204.0},
    ],
    "hard": [{"start": [96.0, 300.0, NORTH], "goal": [480.0, 160.0, 0.0], "distance": 450.0}],
}
"""Five pairs of `small`: forward reaches the first three."""


def pairs_file(folder: Path, maze: str = "small", levels: dict[str, Any] | None = None) -> str:
    path = folder / f"{maze}-pairs.json"
    path.write_text(json.dumps({"maze": maze, "spawn": "random", "seed": None, "levels": levels or PAIRS}))
    return str(path)


def doom_experiment(folder: Path, max_steps: int = 21, **train: int) -> Experiment:
    """The random policy in `small` for a few hundred steps."""
    sizes = {"steps": 150, "env_count": 3, "eval_every": 75, "checkpoint_every": 75, "log_every": 30, **train}
    env = DoomConfig("small", pairs=pairs_file(folder), max_steps=max_steps)
    tasks = EvalConfig(episodes=2, levels=("easy", "medium", "hard"), parallel=3)
    return Experiment("small-random-spawn-random", env, RandomConfig(), TrainConfig(**sizes), tasks)


def unlearned_encoder(folder: Path) -> str:
    """A file with an encoder of frames that has learned nothing."""
    path = folder / "encoder.safetensors"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        save_encoder(FrameEncoder("compact"), path, {})
    return str(path)
