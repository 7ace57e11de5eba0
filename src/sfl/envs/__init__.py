"""Goal-reaching environments; usable without the rest of sfl. Importing registers the `sfl/...` ids with Gymnasium."""

import gymnasium

from sfl.envs.config import EnvConfig, GymConfig, MiniGridConfig, make_env
from sfl.envs.minigrid import GridWorld, register_all
from sfl.envs.tasks import Pose, Task, draw_tasks
from sfl.envs.wrappers import GoalWrapper, is_goal_env

register_all()
if "sfl/DoomMaze-v0" not in gymnasium.registry:
    # Loaded when it is made: whoever walks in grids needs no ViZDoom.
    gymnasium.register(
        "sfl/DoomMaze-v0", "sfl.envs.vizdoom:DoomMaze", vector_entry_point="sfl.envs.vector:DoomVectorEnv"
    )

__all__ = [
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
