"""Goal-reaching environments; usable without the rest of sfl. Importing registers the `sfl/...` ids with Gymnasium."""

import gymnasium

from sfl.envs.config import DOOM_ID, DoomConfig, EnvConfig, GymConfig, MiniGridConfig, make_env, world_name
from sfl.envs.minigrid import GridWorld, register_all
from sfl.envs.tasks import Pose, Task, draw_tasks
from sfl.envs.wrappers import GoalWrapper, is_goal_env

register_all()
if DOOM_ID not in gymnasium.registry:
    # Loaded when it is made: whoever walks in grids needs no ViZDoom.
    gymnasium.register(DOOM_ID, "sfl.envs.vizdoom:DoomMaze", vector_entry_point="sfl.envs.vector:DoomVectorEnv")

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
    "world_name",
]
