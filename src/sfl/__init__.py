"""Successor Feature Landmarks: explore without reward, then go to any goal shown as a picture.

Importing this package registers its environments with Gymnasium. Names that need torch load when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfl.run import stopping

if stopping.is_command():
    stopping.at_work.begin()

import sfl.worlds  # noqa: F401  (registers the environments)

if TYPE_CHECKING:
    from sfl.method.config import SFLConfig
    from sfl.run.compare import TaskSet, evaluate, tasks_of
    from sfl.run.folder import load_run
    from sfl.run.sfl import SFL
    from sfl.worlds import GoalWrapper, make_env

__version__ = "0.1.0"

__all__ = ["SFL", "GoalWrapper", "SFLConfig", "TaskSet", "__version__", "evaluate", "load_run", "make_env", "tasks_of"]

_HOMES = {
    "SFL": "sfl.run.sfl",
    "SFLConfig": "sfl.method.config",
    "GoalWrapper": "sfl.worlds",
    "make_env": "sfl.worlds",
    "evaluate": "sfl.run.compare",
    "tasks_of": "sfl.run.compare",
    "TaskSet": "sfl.run.compare",
    "load_run": "sfl.run.folder",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sfl' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
