"""Goal-reaching environments; usable without the rest of sfl. Importing registers the `sfl/...` ids with Gymnasium."""

import gymnasium

from sfl.worlds.config import DOOM_ID, DoomConfig, EnvConfig, GymConfig, MiniGridConfig, make_env
from sfl.worlds.grids import GridWorld, register_all
from sfl.worlds.gym import GoalWrapper, is_goal_env
from sfl.worlds.tasks import Pose, Task, draw_tasks

register_all()
if DOOM_ID not in gymnasium.registry:
    # Loaded when one is made: grids need no ViZDoom.
    gymnasium.register(DOOM_ID, "sfl.worlds.doom:DoomMaze")

__all__ = [
    "DOOM_ID",
    "DoomConfig",
    "EnvConfig",
    "GoalWrapper",
    "GridWorld",
    "GymConfig",
    "MiniGridConfig",
    "Pose",
    "Task",
    "draw_tasks",
    "is_goal_env",
    "make_env",
]
