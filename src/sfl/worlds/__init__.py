"""Goal-reaching environments; usable without the rest of sfl. Importing registers the `sfl/...` ids with Gymnasium."""

import gymnasium

from sfl.worlds.config import DOOM_ID, DoomConfig, EnvConfig, GymConfig, MiniGridConfig, make_env
from sfl.worlds.grids import GridWorld, register_all
from sfl.worlds.gym import GoalWrapper, is_goal_env
from sfl.worlds.tasks import Pose, Task, draw_tasks

register_all()
if DOOM_ID not in gymnasium.registry:
    # Loaded when it is made: whoever walks in grids needs no ViZDoom.
    gymnasium.register(DOOM_ID, "sfl.worlds.doom:DoomMaze", vector_entry_point="sfl.worlds.doom.pool:DoomVectorEnv")

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
