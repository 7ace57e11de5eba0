"""ViZDoom: a maze seen through the player's eyes, as a Gymnasium environment and as many games at once."""

from sfl.envs.vizdoom.env import DoomMaze
from sfl.envs.vizdoom.places import GOAL_RADIUS, Places
from sfl.envs.vizdoom.protocol import ACTIONS, Limits

__all__ = ["ACTIONS", "GOAL_RADIUS", "DoomMaze", "Limits", "Places"]
