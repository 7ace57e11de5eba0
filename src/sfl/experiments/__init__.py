"""Named experiments: the paper's settings and ours, as typed values."""

from sfl.experiments.places import LEVELS, MAZES, MINIGRID, PAPER_GRIDS, Spawn
from sfl.experiments.registry import EXPERIMENTS, describe, get, names, overview
from sfl.experiments.rivals import PRETRAINED
from sfl.experiments.sfl_mazes import PAPER_ENCODER
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
