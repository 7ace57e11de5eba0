"""Every name of sfl that the siege uses: when one changes, it changes here."""

from __future__ import annotations

import sys

COMMAND = (sys.executable, "-m", "sfl")
"""sfl as a real command."""

GRID, GYM, MAZE, RANDOM = "fourroom-sfl", "world-sfl", "laptop-maze-sfl", "fourroom-random"
"""Experiments."""

CONFIG, SYSTEM, TASKS = "config.json", "system.json", "tasks.json"
TRAIN_ROWS, EVAL_ROWS, EPISODES = "train.csv", "eval.csv", "episodes.csv"
CHECKPOINTS, LAST, DRAFT, FORMAT = "checkpoints", "last", "last.tmp", "format.json"
GENERATORS, GRAPH, POSES = "generators.json", "graph.npz", "poses.npy"
NETWORKS, OPTIMISERS, REPLAY = "networks.safetensors", "optimisers.safetensors", "replay.safetensors"
BOARDS, FIGURES, FIELDS = "tensorboard", "figures", "studio"
"""Files and folders of a run folder."""
LAST_OLD, DRAFT_ENDING, ENDINGS = "last.old", ".tmp", (".tmp", ".old")
"""What a save that was cut off leaves there, until the run goes on."""

GAMES = "sfl-games-"
"""How the folders of games begin, in the folder for temporary files."""
SHARED_MEMORY = "/dev/shm"

DONE, FAILED, WRONG_USE, STOPPED, READER_LEFT = 0, 1, 2, 130, 141
"""Exit codes; there are no others."""
COMPLAINT = "sfl: "
"""How the one line of an error begins, on stderr."""


def run_folder(experiment: str, seed: int = 0) -> str:
    """Where `sfl train` puts a run, below the folder of runs."""
    return f"{experiment}/seed-{seed:04d}"
