"""Named experiments: the paper's settings and ours, as typed values."""

from sfl.experiments.baselines import PRETRAINED
from sfl.experiments.mazes import PAPER_ENCODER
from sfl.experiments.names import EXPERIMENTS, describe, get, names, overview
from sfl.experiments.places import LEVELS, MAZES, MINIGRID, PAPER_GRIDS, Spawn
from sfl.experiments.sizes import scaled, tiny

__all__ = [
    "EXPERIMENTS",
    "LEVELS",
    "MAZES",
    "MINIGRID",
    "PAPER_ENCODER",
    "PAPER_GRIDS",
    "PRETRAINED",
    "Spawn",
    "describe",
    "get",
    "names",
    "overview",
    "scaled",
    "tiny",
]
