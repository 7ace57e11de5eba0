"""Mazes for ViZDoom: text layouts, the paper's WADs, and the textures of their walls."""

from sfl.envs.mazes.build import build_maze, bundle, read_maze, retexture
from sfl.envs.mazes.layout import Layout, read_layout
from sfl.envs.mazes.library import load_maze, own_mazes, texture_set
from sfl.envs.mazes.maze import Disc, Maze, Spot
from sfl.envs.mazes.textures import PAPER_TEXTURES, Textures

__all__ = [
    "PAPER_TEXTURES",
    "Disc",
    "Layout",
    "Maze",
    "Spot",
    "Textures",
    "build_maze",
    "bundle",
    "load_maze",
    "own_mazes",
    "read_layout",
    "read_maze",
    "retexture",
    "texture_set",
]
