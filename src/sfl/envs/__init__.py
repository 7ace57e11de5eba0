"""Goal-reaching environments; usable without the rest of sfl. Importing registers the `sfl/...` ids with Gymnasium."""

from sfl.envs.config import EnvConfig, GymConfig, MiniGridConfig, make_env
from sfl.envs.minigrid import GridWorld, register_all
from sfl.envs.tasks import Pose, Task, draw_tasks
from sfl.envs.wrappers import GoalWrapper, is_goal_env

register_all()

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
