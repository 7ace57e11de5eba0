"""Mazes for ViZDoom: text layouts, the paper's WADs, and the textures of their walls."""

from sfl.worlds.mazes.layout import Disc, Layout, Maze, Spot, read_layout
from sfl.worlds.mazes.load import build_maze, bundle, load_maze, own_mazes, read_maze, retexture, texture_set
from sfl.worlds.mazes.textures import PAPER_TEXTURES, Textures

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
