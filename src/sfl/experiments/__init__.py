"""Named experiments, a place and an agent each: the paper's settings and ours, as typed values."""

from sfl.experiments.baselines import PRETRAINED
from sfl.experiments.grids import MINIGRID, PAPER_GRIDS
from sfl.experiments.mazes import LEVELS, MAZES, PAPER_ENCODER, Spawn
from sfl.experiments.names import AGENTS, EXPERIMENTS, PLACES, agents_in, get, names, words
from sfl.experiments.sizes import scaled, tiny
from sfl.old_names import new_name

__all__ = [
    "AGENTS",
    "EXPERIMENTS",
    "LEVELS",
    "MAZES",
    "MINIGRID",
    "PAPER_ENCODER",
    "PAPER_GRIDS",
    "PLACES",
    "PRETRAINED",
    "Spawn",
    "agents_in",
    "get",
    "names",
    "new_name",
    "scaled",
    "tiny",
    "words",
]
