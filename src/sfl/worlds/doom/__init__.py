"""ViZDoom: a maze seen through the player's eyes, as a Gymnasium environment and as many games at once."""

from sfl.worlds.doom.env import DoomMaze
from sfl.worlds.doom.protocol import ACTIONS, Limits
from sfl.worlds.doom.tasks import GOAL_RADIUS, StartGoalSampler

__all__ = ["ACTIONS", "GOAL_RADIUS", "DoomMaze", "Limits", "StartGoalSampler"]
